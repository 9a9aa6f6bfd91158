"""KerasHub presets <-> model folders."""

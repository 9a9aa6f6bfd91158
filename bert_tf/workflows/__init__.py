"""Configuration -> runs: the commands as functions, without flags."""

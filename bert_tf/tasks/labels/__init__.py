"""What a text may be labelled with: one class, a score, or several labels."""

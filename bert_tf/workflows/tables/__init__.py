"""Tables in Python -> runs."""

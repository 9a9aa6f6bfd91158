"""Configuration -> what a command does, without flags."""

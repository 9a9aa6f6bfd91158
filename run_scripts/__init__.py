"""Flags -> runs: one thin script for each command."""

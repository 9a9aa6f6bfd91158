"""Experiments -> reports: research that is not part of the package."""

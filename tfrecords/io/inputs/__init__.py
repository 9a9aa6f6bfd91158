"""Files of other tools -> their content."""

"""Documents -> masked-LM and next-sentence records."""

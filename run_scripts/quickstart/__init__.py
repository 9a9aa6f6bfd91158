"""Text on this machine -> every stage of BERT, in one tour."""

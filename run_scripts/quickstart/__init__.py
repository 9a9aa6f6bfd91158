"""Text of this machine -> every stage of BERT, in one tour."""

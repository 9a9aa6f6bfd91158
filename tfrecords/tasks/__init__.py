"""Files of GLUE, SQuAD, SWAG and CoNLL -> fine-tuning records."""

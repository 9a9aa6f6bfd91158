"""What an hour of pre-training on one core is worth: runs, scores, report."""

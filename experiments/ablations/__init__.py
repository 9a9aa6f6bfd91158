"""Text, tasks -> tables 5, 6, 8 and figure 5 of the paper, at any scale."""

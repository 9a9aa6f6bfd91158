"""Tables of similar texts, queries and documents -> records of their tokens."""

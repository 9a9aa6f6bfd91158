"""Queries, documents and judgements -> rankings, and their scores."""

"""Text -> tokens: documents, vocabulary, WordPiece, encoder inputs."""

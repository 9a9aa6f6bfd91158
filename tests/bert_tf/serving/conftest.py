"""The vocabulary of exports -> its tokenizer."""

import pytest


@pytest.fixture(scope="session")
def words():
    """Tokenizer of the models of `exports`."""
    import exports

    from tfrecords.text import tokenizer

    return tokenizer.BertTokenizer(exports.VOCAB_FILE)

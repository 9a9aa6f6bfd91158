"""Random weights -> Contents of any task; the vocabulary of exports."""

import pytest
from checkpoint_folders import VOCABULARY, contents_of


@pytest.fixture
def make_checkpoint(tiny_config):
    """Returns `contents_of`, with the tiny config unless another is given."""

    def make(task, lacking=(), config=tiny_config, **settings):
        return contents_of(config, task, lacking, **settings)

    return make


@pytest.fixture
def given(make_checkpoint):
    """Returns Contents of a classifier with a vocabulary."""
    return make_checkpoint(
        "classification", vocabulary=VOCABULARY, do_lower_case=True, step=3
    )


@pytest.fixture(scope="session")
def words():
    """Tokenizer of the models of `exports`."""
    import exports

    from tfrecords.text import tokenizer

    return tokenizer.BertTokenizer(exports.VOCAB_FILE)

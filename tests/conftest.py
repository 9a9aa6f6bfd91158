"""Small configs, vocabularies, folders -> fixtures for every test."""

import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest

DATA = pathlib.Path(__file__).parent / "data"


@pytest.fixture
def shared_data() -> pathlib.Path:
    """Folder of real data beside the checkout; the test skips without it."""
    folder = pathlib.Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data at ../shared/data beside {DATA.parents[1]}")
    return folder


@pytest.fixture
def tiny_vocab_file() -> str:
    """A vocabulary that knows the words of tests/data."""
    return str(DATA / "vocab.txt")


@pytest.fixture
def tiny_config():
    """A BERT of two layers, quick on any machine."""
    from bert_tf import config

    return config.BertConfig(
        vocab_size=sum(1 for _ in open(DATA / "vocab.txt", encoding="utf-8")),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )

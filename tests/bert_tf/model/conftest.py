"""Batches, functional Keras models -> fixtures of the tests of models."""

import keras
import pytest

from tfrecords import schema


@pytest.fixture
def batch(make_batch, tiny_config):
    """A pre-training batch of four rows of twelve tokens."""
    return make_batch(tiny_config)


@pytest.fixture
def inputs(batch):
    """The inputs of an encoder in `batch`."""
    return {name: batch[name] for name in schema.ENCODER_INPUTS}


@pytest.fixture
def text():
    """`keras.Input` for each of `inputs`."""
    return {
        name: keras.Input((12,), dtype="int32", name=name)
        for name in schema.ENCODER_INPUTS
    }


@pytest.fixture
def functional(text):
    """Encoder -> functional model of two logits of its pooled output."""

    def make(encoder):
        pooled = encoder(text).pooled_output
        return keras.Model(text, keras.layers.Dense(2, name="head")(pooled))

    return make

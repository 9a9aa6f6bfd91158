"""The JSON of features; see also test_extract_features.py."""

import json

import numpy as np

from bert_tf.workflows.features import feature_extraction

VOCAB = ["[PAD]", "the", "caf\u00e9"]


def texts():
    values = np.arange(12, dtype=np.float32).reshape(3, 2, 2) / 7
    return [
        feature_extraction.Text(4, np.array([2, 1], np.int32), values[:2]),
        feature_extraction.Text(5, np.array([1], np.int32), values[2:]),
    ]


def test_json_is_rounded_and_escaped_as_in_the_original():
    first, second = feature_extraction.to_json(texts(), [-1, 0], VOCAB).split(
        b"\n"
    )[:2]
    assert first.startswith(
        b'{"linex_index": 4, "features": [{"token": "caf\\u00e9", "layers": '
        b'[{"index": -1, "values": [0.0, 0.142857]}, {"index": 0, "values": '
    )
    assert json.loads(second)["features"][0]["layers"][1]["values"] == [
        *[1.428571, 1.571429]
    ]

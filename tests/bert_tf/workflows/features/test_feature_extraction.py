"""Output formats of features; see also test_extract_features.py."""

import io
import json

import numpy as np
import pytest
import tensorflow as tf

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


def test_parts_are_joined_into_one_npz():
    parts = [
        feature_extraction.to_npz([text], [-1, 0], VOCAB) for text in texts()
    ]
    file = io.BytesIO()
    feature_extraction.join_npz(file, lambda: iter(parts))
    file.seek(0)
    arrays = np.load(file)
    assert arrays["row_splits"].tolist() == [0, 2, 3]
    assert arrays["token_ids"].tolist() == [2, 1, 1]
    assert arrays["layers"].tolist() == [-1, 0]
    expected = np.concatenate([text.values for text in texts()])
    assert (arrays["values"] == expected).all()


def test_tfrecords_can_be_read_by_tensorflow(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(feature_extraction.to_tfrecord(texts(), [-1, 0], VOCAB))
    rows = [
        tf.train.Example.FromString(data.numpy()).features.feature
        for data in tf.data.TFRecordDataset(str(path))
    ]
    assert [row["linex_index"].int64_list.value[0] for row in rows] == [4, 5]
    assert rows[1]["values"].float_list.value[:] == pytest.approx(
        [8 / 7, 9 / 7, 10 / 7, 11 / 7]
    )

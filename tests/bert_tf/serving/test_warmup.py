"""warmup.py: the file, read with TensorFlow Serving's own messages."""

import os

import pytest
import tensorflow as tf
from exports import MAX_SEQ_LENGTH
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from bert_tf.serving import warmup

# Of the extra `test`; it only reads here what the package wrote.
messages = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")


def read(path):
    """Returns (signature, input -> array) of each request of an export."""
    records = tf.data.TFRecordDataset(os.path.join(path, warmup.PATH))
    logs = [messages.PredictionLog.FromString(x.numpy()) for x in records]
    assert {log.WhichOneof("log_type") for log in logs} == {"predict_log"}
    requests = [log.predict_log.request for log in logs]
    return [
        (
            request.model_spec.signature_name,
            {n: tf.make_ndarray(x) for n, x in request.inputs.items()},
        )
        for request in requests
    ]


def signature(method=tf.saved_model.PREDICT_METHOD_NAME, **inputs):
    """Returns a SignatureDef; inputs are name -> (dtype, rank)."""
    made = meta_graph_pb2.SignatureDef(method_name=method)
    for name, (dtype, rank) in inputs.items():
        made.inputs[name].dtype = dtype
        for _ in range(rank):
            made.inputs[name].tensor_shape.dim.add(size=-1)
    return made


def test_every_signature_has_a_short_and_a_long_request(exported):
    _, path, loaded = exported("classification")
    requests = read(path)
    assert sorted(name for name, _ in requests) == sorted(
        [*loaded.signatures] * 2
    )
    assert {"classify", "encoder", "serving_default", "text"} == set(
        loaded.signatures
    )
    ids = [
        inputs["input_word_ids"].shape
        for name, inputs in requests
        if name == "encoder"
    ]
    assert ids == [(1, 2), (1, MAX_SEQ_LENGTH)]


def test_a_session_like_that_of_the_server_answers_them(exported):
    path = exported("classification").path
    requests = read(path)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        proto = tf.compat.v1.saved_model.load(session, ["serve"], path)
        for name, inputs in requests:
            definition = proto.signature_def[name]
            assert set(inputs) == set(definition.inputs)
            outputs = session.run(
                {n: x.name for n, x in definition.outputs.items()},
                {definition.inputs[n].name: x for n, x in inputs.items()},
            )
            assert {len(x) for x in outputs.values()} == {1}, name


def test_long_texts_fill_a_row(exported):
    _, path, loaded = exported("classification")
    used = [
        loaded.preprocess(inputs["text_a"], [])["input_mask"].shape
        for name, inputs in read(path)
        if name == "text"
    ]
    # [CLS] a [MASK] [SEP]: this model splits no special tokens.
    assert used == [(1, 4), (1, MAX_SEQ_LENGTH)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("fill_mask", "text"),
        ("pseudo_log_likelihood", "text"),
        ("ranking", "text"),
        ("tagging", "words"),
        ("multiple_choice", "text"),
        ("question_answering", "text"),
    ],
)
def test_other_kinds_answer_theirs(exported, kind, name):
    _, path, loaded = exported(kind)
    inputs = dict(read(path))[name]
    answers = loaded.signatures[name](
        **{n: tf.constant(x) for n, x in inputs.items()}
    )
    assert all(len(x) == 1 for x in answers.values())
    if kind == "fill_mask":  # [N, P, k]; a long text has the [MASK], too.
        assert answers["tokens"].shape == (1, 1, 3)


def test_inputs_have_the_rank_and_type_of_the_signature():
    strings, ids = types_pb2.DT_STRING, types_pb2.DT_INT32
    found = warmup.inputs_of(
        signature(context=(strings, 1), endings=(strings, 2), ids=(ids, 2)),
        "a b" + 300 * " c",
        3,
    )
    arrays = {name: tf.make_ndarray(x).tolist() for name, x in found.items()}
    assert arrays == {
        "context": [b"a b" + 300 * b" c"],
        # Each ending is a row of the model.
        "endings": [[b"a", b"b", b"c", b"c"]],
        "ids": [[1, 1, 1]],
    }


def test_classify_and_regress_get_examples():
    made = signature(
        tf.saved_model.CLASSIFY_METHOD_NAME, inputs=(types_pb2.DT_STRING, 1)
    )
    (serialized,) = tf.make_ndarray(
        warmup.inputs_of(made, "a b", 3)["inputs"]
    ).tolist()
    example = tf.train.Example.FromString(serialized)
    (value,) = example.features.feature["text_a"].bytes_list.value
    assert value == b"a b"


def test_requests_need_one_segment_only():
    of_ids = signature(
        input_mask=(types_pb2.DT_INT32, 2),
        input_type_ids=(types_pb2.DT_INT32, 2),
    )
    found = warmup.inputs_of(of_ids, "a", 3)
    assert tf.make_ndarray(found["input_mask"]).tolist() == [[1, 1, 1]]
    assert tf.make_ndarray(found["input_type_ids"]).tolist() == [[0, 0, 0]]


def test_long_fields_are_encoded_with_long_lengths():
    tensor = tf.make_tensor_proto(["é" * 100_000])
    request = messages.PredictionLog.FromString(
        warmup.encode("a" * 200, {"text": tensor})
    ).predict_log.request
    assert request.model_spec.signature_name == "a" * 200
    assert request.inputs["text"] == tensor


def test_the_file_is_always_the_same(exported, tmp_path):
    path = exported("classification").path
    os.makedirs(tmp_path / "assets.extra")
    with open(os.path.join(path, "saved_model.pb"), "rb") as file:
        (tmp_path / "saved_model.pb").write_bytes(file.read())
    warmup.write(str(tmp_path), 16)
    with open(os.path.join(path, warmup.PATH), "rb") as file:
        assert (tmp_path / warmup.PATH).read_bytes() == file.read()

"""Outputs of each row of a batch, as values for JSON."""

import datetime
import decimal
import json
import types
import uuid

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.serving import predictions, row_outputs, text_rows
from bert_tf.serving.answers.classification import Classification
from bert_tf.serving.answers.encoder import Encoder
from bert_tf.serving.answers.kind import Kind, plain
from bert_tf.serving.answers.masks import FillMask
from bert_tf.serving.answers.multi_label import MultiLabel
from bert_tf.serving.answers.questions import QuestionAnswering
from bert_tf.serving.answers.tags import Tagging

KEEP = predictions.Model._field_defaults["abstain"]


def test_texts_are_cut_that_have_more_tokens_than_fit():
    row = text_rows.Row(1, {"text_a": "abc", "text_b": "d"})
    arguments = [row], {"text_a": 1, "text_b": 1}

    def too_many(text_a, text_b):
        return tf.fill(tf.shape(text_a), 99)

    # At most four tokens, [CLS] and two [SEP]: then it is not called.
    assert row_outputs.count_cut(*arguments, 7, too_many) == 0
    assert row_outputs.count_cut(*arguments, 6, too_many) == 1
    assert row_outputs.count_cut(*arguments, 9, too_many, "q:") == 0
    assert row_outputs.count_cut(*arguments, 8, too_many, "q:") == 1
    # Texts that are read in windows.
    assert row_outputs.count_cut(*arguments, 1, None) == 0

    def num_tokens(text_a, text_b):
        return tf.fill(tf.shape(text_a), 5)

    assert row_outputs.count_cut(*arguments, 5, num_tokens) == 0
    assert row_outputs.count_cut(*arguments, 4, num_tokens) == 1


def test_each_candidate_is_filled_into_the_text():
    tokens = np.array([[b"cat", b"##s"], [b"mat", b"sea"]], object)
    probabilities = np.array([[0.5, 0.25], [0.1, 0.05]], np.float32)
    values = row_outputs.to_json(
        FillMask,
        {"text": "The [MASK] on the [MASK]. [MASK]"},
        {"tokens": tokens[None], "probabilities": probabilities[None]},
        {"tokens", "probabilities"},
    )
    # The last [MASK] is beyond the model's length and is kept.
    best = "The cat on the mat. [MASK]"
    filled = [
        [("cat", 0.5, best), ("##s", 0.25, "Thes on the mat. [MASK]")],
        [("mat", 0.1, best), ("sea", 0.05, "The cat on the sea. [MASK]")],
    ]
    names = ("token", "probability", "filled")
    assert values == {
        "filled": best,
        "masks": [
            [dict(zip(names, x, strict=True)) for x in mask] for mask in filled
        ],
    }


# All outputs for two rows, the first shorter; a subset of them for the first
# row, without padding.
PADDED = {
    FillMask: (
        {
            "tokens": np.array([[[b"a"], [b""]], [[b"b"], [b"c"]]], object),
            "probabilities": np.array([[[0.5], [0]], [[1], [1]]], np.float32),
        },
        {"tokens": [["a"]]},
    ),
    Tagging: (
        {
            "words": np.array([[b"a", b""], [b"b", b"c"]], object),
            "tags": np.array([[b"O", b""], [b"O", b"O"]], object),
            "starts": np.array([[0, -1], [0, 2]], np.int32),
        },
        {"tags": ["O"], "starts": [0]},
    ),
    QuestionAnswering: (
        {
            "answer": np.array([b"a", b"b"], object),
            "num_answers": np.array([1, 2], np.int32),
            "nbest_answers": np.array([[b"a", b""], [b"b", b"c"]], object),
        },
        {"answer": "a", "nbest_answers": ["a"]},
    ),
    Encoder: (
        {
            "input_mask": np.array([[1, 0], [1, 1]], np.int32),
            "sequence_output": np.ones([2, 2, 3], np.float32),
            "pooled_output": np.ones([2, 3], np.float32),
        },
        {"sequence_output": [[1.0] * 3], "pooled_output": [1.0] * 3},
    ),
}


@pytest.mark.parametrize("kind", PADDED)
def test_selected_outputs_do_not_depend_on_other_rows(kind):
    answers, expected = PADDED[kind]

    def signature(text):
        return {
            name: tf.constant(x[: len(text)]) for name, x in answers.items()
        }

    # Nor on other keys of the row.
    fields = {"text": "x", "words": ["a", "b"]}
    rows = [text_rows.Row(1, fields), text_rows.Row(2, {"text": "y"})]
    found, _ = row_outputs.compute(kind, signature, rows, {"text": 1})
    names = set(expected)
    written = row_outputs.to_json(kind, {"text": "x"}, found, names)
    assert written == expected


def test_float32_is_written_with_its_shortest_digits():
    values = np.array([0.1, 1 / 3, 1e-30], np.float32)
    assert json.dumps(plain(values)) == "[0.1, 0.33333334, 1e-30]"
    assert plain(np.array([[b"caf\xc3\xa9"]], object)) == [["café"]]
    assert plain(np.array([-1, 2], np.int32)) == [-1, 2]


def test_lists_of_a_batch_are_padded():
    rows = [
        text_rows.Row(i, {"endings": x})
        for i, x in enumerate((("a", "b"), [], ["c"]))
    ]
    tensor = row_outputs.make_tensor(rows, "endings", 2)
    assert tensor.numpy().tolist() == [[b"a", b"b"], [b"", b""], [b"c", b""]]
    assert row_outputs.make_tensor(rows[1:2], "endings", 2).shape == (1, 0)
    assert tensor.dtype == tf.string


def test_a_missing_second_text_is_empty():
    rows = [text_rows.Row(1, {"text_a": "a"})]
    tensor = row_outputs.make_tensor(rows, "text_b", 1)
    assert tensor.numpy().tolist() == [b""]


def test_keys_of_a_row_and_of_its_answer_do_not_replace_each_other():
    outputs = {"label": tf.constant(["x"] * 2), "score": tf.constant([1, 0.5])}
    model = types.SimpleNamespace(
        abstain=KEEP,
        kind=Kind,
        ranks={"text_a": 1},
        signature=lambda text_a: outputs,
    )
    fields = {"line": 9, "label": 1, "input_label": 2, "error": 3}
    # JSON has no NaN.
    fields |= {"n": [np.nan, 4], "m": {"a": -np.inf}}
    rows = [text_rows.Row(i, fields | {"text_a": "a"}) for i in (1, 2)]
    found = row_outputs.answer(model, rows, {"label", "score"}, "in")
    assert json.loads(found[2]) == {
        "line": 2,
        "input_line": 9,
        "input_label": 1,
        "input_input_label": 2,
        "input_error": 3,
        "n": [None, 4],
        "m": {"a": None},
        "text_a": "a",
        "label": "x",
        "score": 0.5,
    }
    # Only outputs that are written take a name.
    found = row_outputs.answer(model, rows, {"score"}, "in")
    assert json.loads(found[1])["label"] == 1


def test_probabilities_have_columns_in_a_table():
    answer = {"label": "good", "probabilities": [0.1, 0.9]}
    found = row_outputs.to_cells(Classification, answer, ["bad", "good"])
    assert list(found.items()) == [
        ("label", "good"),
        ("probability", 0.9),
        ("probability_bad", 0.1),
        ("probability_good", 0.9),
    ]
    answer = {"labels": ["good"], "probabilities": [0.1, 0.9]}
    found = row_outputs.to_cells(MultiLabel, answer, [])
    assert found == {
        "labels": ["good"],
        "probability_0": 0.1,
        "probability_1": 0.9,
    }
    # Those of a tagger are of words.
    assert row_outputs.to_cells(Tagging, answer, ["bad", "good"]) == answer


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_whose_answer_is_not_finite_is_bad(value):
    scores = tf.constant([0.5, value])
    model = types.SimpleNamespace(
        abstain=KEEP,
        kind=Kind,
        labels=(),
        ranks={"text": 1},
        signature=lambda text: {"score": scores, "logits": scores},
    )
    rows = [text_rows.Row(i, {"text": "a"}) for i in (4, 7)]
    found = row_outputs.answer(model, rows, {"score"}, "in")
    assert json.loads(found[4])["score"] == 0.5
    assert found[7].message.startswith("in:7: numbers of score are not finite.")
    # In a table, other cells of the row may be anything.
    cells = row_outputs.answer(
        model,
        [x._replace(fields=x.fields | {"b": b""}) for x in rows],
        {"score"},
        "in",
        is_table=True,
    )
    assert cells == {4: {"score": 0.5}, 7: found[7]}


def answer_with(value, source="in"):
    """Returns the JSON of an answer to a row with a value beside its text."""
    model = types.SimpleNamespace(
        abstain=KEEP,
        kind=Kind,
        ranks={"text": 1},
        signature=lambda text: {"score": tf.constant([1.0])},
    )
    rows = [text_rows.Row(1, {"n": np.nan, "b": value, "text": "a"})]
    return row_outputs.answer(model, rows, {"score"}, source)[1]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (decimal.Decimal("0.50"), 0.5),
        (decimal.Decimal("2.00"), 2),
        (decimal.Decimal("0.12345678901234567890"), "0.12345678901234567890"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (datetime.date(2020, 1, 2), "2020-01-02"),
        (datetime.datetime(2020, 1, 2, 3), "2020-01-02 03:00:00"),
        ({"a": [datetime.time(1), None]}, {"a": ["01:00:00", None]}),
        ([("key", decimal.Decimal(1))], [["key", 1]]),  # A map.
    ],
)
def test_values_of_parquet_become_json_and_lose_nothing(value, expected):
    found = json.loads(answer_with(value))["b"]
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize("value", [b"a", [b"a"], {"a": b"a"}])
def test_bytes_are_refused_for_all_rows(value):
    with pytest.raises(ValueError, match="in:1: 'b' is .*b'a'.* no JSON"):
        answer_with(value)


def test_the_way_out_of_a_column_of_bytes_works(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip(
        "pyarrow", reason="make test-engines installs it"
    )
    from pyarrow import parquet

    monkeypatch.chdir(tmp_path)
    table = pyarrow.table({"text": ["a"], "b": [b"a"], "n": [1]})
    parquet.write_table(table, "in.parquet")
    with pytest.raises(ValueError, match="import pyarrow") as raised:
        answer_with(b"a", "in.parquet")
    exec("import" + str(raised.value).partition(" import")[2])
    assert parquet.read_table("rows.parquet").column_names == ["text", "n"]


def classifier(probabilities, **more):
    """A Model of two classes that answers with the probabilities of "good"."""
    p = np.array(probabilities, np.float32)
    outputs = {
        "label": tf.constant(np.where(p >= 0.5, "good", "bad")),
        "probabilities": tf.constant(np.stack([1 - p, p], axis=1)),
    }
    values = dict(path="models/a", kind=Classification, owner=None, outputs=())
    values |= dict(ranks={"text_a": 1}, labels=["bad", "good"])
    return predictions.Model(signature=lambda text_a: outputs, **values | more)


@pytest.mark.parametrize("names", [{"label", "probabilities"}, {"label"}])
def test_an_improbable_class_is_no_label(names, caplog):
    model = classifier([0.9, 0.6, 0.05, 0.2, 0.95])
    labels = ["good", "good", "good", "other", "good"]
    rows = [
        text_rows.Row(i, {"text_a": "a"}, {"label": label})
        for i, label in enumerate(labels)
    ]
    with (
        caplog.at_level("INFO", logger="absl"),
        row_outputs.abstaining(model, 0.9) as sure,
    ):
        found = row_outputs.answer(sure, rows, names, "in")
        cells = row_outputs.answer(sure, rows, names, "in", is_table=True)
    expected = ["good", None, "bad", None, "good"]
    assert [json.loads(x)["label"] for x in found.values()] == expected
    assert [x["label"] for x in cells.values()] == expected
    assert "labelled rows 6  coverage 0.6000" in caplog.text
    assert "accuracy 0.6667 of 6" in caplog.text
    with row_outputs.abstaining(model, None) as all_rows:
        assert all_rows is model


def test_only_classes_can_be_improbable():
    model = classifier([0.5], kind=MultiLabel)
    message = "--min_probability=0.9 is for classification; models/a is for mul"
    with pytest.raises(ValueError, match=message):
        with row_outputs.abstaining(model, 0.9):
            pass

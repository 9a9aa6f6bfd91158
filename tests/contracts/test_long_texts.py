"""Long texts: training, evaluation and every answer read the same tokens."""

import exports
import numpy as np
import pytest

import bert_tf
from bert_tf.serving import batches
from tfrecords import schema
from tfrecords.options import MAX_WINDOWS
from tfrecords.tasks import glue_examples
from tfrecords.text import tokenizer as tokenizer_lib

LONG = "the old captain looked at the sea and was ready for the day. " * 4
TEXTS = [
    {"text_a": "a ship"},
    {"text_a": LONG * 2 + "bread"},
    {"text_a": "old bread", "text_b": LONG},
    {"text_a": LONG, "text_b": "It rained, and " + LONG},
]
TASKS = ("classification", "multi_label", "regression")


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory):
    """Returns the folder of a model that reads long texts in a given way."""

    def make(task, long_text):
        folder = tmp_path_factory.mktemp("model") / task
        more = {} if long_text == "cut" else {"long_text": long_text}
        if task == "regression":  # Some scores are above it.
            more["score_range"] = [-5.0, 0.5]
        exports.save_model(exports.make_for(task), task, folder, **more)
        return folder

    return make


def to_row(packed, number):
    ids, mask, types = (
        np.asarray(packed[x])[number] for x in schema.ENCODER_INPUTS
    )
    return ids[mask > 0].tolist(), types[mask > 0].tolist()


@pytest.mark.parametrize("long_text", ["head_tail", "windows"])
def test_records_answers_and_other_runtimes_read_the_same_tokens(long_text):
    from bert_tf.contrib.runtimes import tokenizer

    ours = tokenizer_lib.BertTokenizer(exports.VOCAB_FILE)
    plain = tokenizer.Tokenizer(exports.VOCAB_FILE, do_lower_case=True)
    columns = [[x.get(n, "") for x in TEXTS] for n in ("text_a", "text_b")]
    encode = glue_examples.make_encoder(ours, 2, 16, long_text)
    records, is_cut = encode(*columns)
    served = batches.pack_pairs(ours, 16, *columns, long_text=long_text)
    rows, text_of_row = [], []
    for number, fields in enumerate(TEXTS):
        found = plain.encode_long(
            *fields.values(), max_seq_length=16, long_text=long_text
        )
        rows += found
        text_of_row += [number] * len(found)
    windows = {n: x.numpy().reshape(4, -1, 16) for n, x in records.items()}
    if long_text == "head_tail":
        assert is_cut.numpy().tolist() == [False, True, True, True]
    else:
        assert served[batches.TEXT_OF_WINDOW].numpy().tolist() == text_of_row
        assert max(map(text_of_row.count, range(4))) > MAX_WINDOWS
        assert is_cut.numpy().tolist() == [
            text_of_row.count(i) > MAX_WINDOWS for i in range(4)
        ]
    for number, (row, text) in enumerate(zip(rows, text_of_row, strict=True)):
        expected = row["input_word_ids"], row["input_type_ids"]
        assert to_row(served, number) == expected
        window = number - text_of_row.index(text)
        if window < MAX_WINDOWS:
            of_text = {n: x[text] for n, x in windows.items()}
            assert to_row(of_text, window) == expected


def numbers(answer):
    """The numbers of an answer of a Predictor, or of predict.py."""
    if isinstance(answer, dict):
        return np.ravel(answer.get("probabilities", answer.get("score")))
    if hasattr(answer, "score"):
        return np.ravel(answer.score)
    return np.array([*answer.probabilities.values()])


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("long_text", ["head_tail", "windows", "windows_max"])
def test_all_answers_are_those_of_the_predictor(
    task, long_text, folder_of, tmp_path
):
    folder = folder_of(task, long_text)
    predictor = bert_tf.Predictor(folder)
    wanted = [numbers(x) for x in predictor(TEXTS)]
    cut = [numbers(x) for x in bert_tf.Predictor(folder_of(task, "cut"))(TEXTS)]
    np.testing.assert_array_equal(wanted[0], cut[0])
    assert not np.allclose(wanted, cut, atol=1e-4)
    exports.need_format("onnx")
    exports.write(folder, tmp_path / "onnx", "--format=onnx", "--noreport")
    found = exports.Shipped(tmp_path / "onnx", {}).predict(TEXTS)
    for ours, theirs in zip(wanted, found, strict=True):
        np.testing.assert_allclose(numbers(theirs), ours, **exports.ROUNDING)


@pytest.mark.parametrize("long_text", ["head_tail", "windows"])
def test_a_saved_model_reads_long_texts_as_the_predictor(
    long_text, folder_of, tmp_path
):
    folder = folder_of("classification", long_text)
    exports.write(folder, tmp_path / "export")
    import tensorflow as tf

    loaded = tf.saved_model.load(str(tmp_path / "export"))
    columns = [[x.get(n, "") for x in TEXTS] for n in ("text_a", "text_b")]
    found = loaded.text(*map(tf.constant, columns))["probabilities"].numpy()
    wanted = [numbers(x) for x in bert_tf.Predictor(folder)(TEXTS)]
    np.testing.assert_allclose(found, wanted, **exports.ROUNDING)

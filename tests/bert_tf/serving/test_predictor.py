"""Predictor: the answers of the SavedModel, typed; forms of inputs."""

import logging
import os

import exports
import numpy as np
import pytest
import served
import tensorflow as tf

import bert_tf
from bert_tf.serving import export_model, kinds
from bert_tf.serving.answers import tags

TEXTS = [
    "the cat sat on the mat",
    "Café, naïve!",
    "",
    "a",
    "the captain looked at the sea and was ready for the day",
]
WORDS = [["the", "cat"], ["a"], "the cat sat .".split()]
# Kind -> inputs of the Predictor, and settings that its export has too.
INPUTS = {
    "classification": ([*TEXTS, ("the cat", "sat"), ("a", "")], {}),
    "regression": ([*TEXTS, ("the cat", "sat")], {}),
    "tagging": (TEXTS, {}),
    "fill_mask": (
        [
            "the [MASK] sat",
            "no mask",
            "[MASK] cat [MASK]",
            "a " * 20 + "[MASK]",
        ],
        {"top_k": 3},
    ),
    "sentence_embedding": (TEXTS, {"kind": "sentence_embedding"}),
    "question_answering": (
        [
            ("who sat", "the cat sat on the mat. " * 5),
            ("", "the cat"),
            ("the cat", "Café, naïve!"),
        ],
        {"doc_stride": 4, "max_query_length": 4, "n_best_size": 16},
    ),
    "multiple_choice": (
        [("the cat", ["sat", "ran"]), ("a", ["b", "c", "the sea"])],
        {},
    ),
}
KINDS = sorted(INPUTS)


def check_label(answer, line):
    assert answer.label == line["label"]
    assert list(answer.probabilities) == exports.LABELS
    assert answer.probability == max(answer.probabilities.values())
    np.testing.assert_allclose(
        list(answer.probabilities.values()),
        line["probabilities"],
        **exports.ROUNDING,
    )


def check_score(answer, line):
    np.testing.assert_allclose(answer.score, line["score"], **exports.ROUNDING)


def check_vector(answer, line):
    assert answer.dtype == np.float32
    np.testing.assert_allclose(answer, line["embedding"], **exports.ROUNDING)


def check_choice(answer, line):
    assert (answer.index, answer.text) == (line["choice"], line["ending"])
    np.testing.assert_allclose(
        answer.probabilities, line["probabilities"], **exports.ROUNDING
    )


def check_answer(answer, line):
    def places(x):
        return x.text, x.start, x.end

    names = ("answer", "start", "end")
    assert places(answer) == tuple(line[name] for name in names)
    assert answer.text == line["context"][answer.start : answer.end] or (
        answer.start == -1
    )
    found = {places(x): x.probability for x in answer.nbest}
    expected = {
        tuple(x[name] for name in names): x["probability"]
        for x in line["nbest"]
    }
    assert found.keys() == expected.keys()
    for key in found:
        np.testing.assert_allclose(
            found[key], expected[key], **exports.ROUNDING
        )


def check_tags(answer, line):
    assert [tag[:4] for tag in answer.words] == [
        (x["word"], x["tag"], x["start"], x["end"]) for x in line["words"]
    ]
    np.testing.assert_allclose(
        [tag.probability for tag in answer.words],
        [x["probability"] for x in line["words"]],
        **exports.ROUNDING,
    )
    for tag in answer.words:
        assert line["text"][tag.start : tag.end] == tag.word


def check_masks(answer, line):
    assert answer.text == line["filled"]
    found = [[(x.token, x.text) for x in mask] for mask in answer.masks]
    assert found == [
        [(x["token"], x["filled"]) for x in mask] for mask in line["masks"]
    ]
    np.testing.assert_allclose(
        [x.probability for mask in answer.masks for x in mask],
        [x["probability"] for mask in line["masks"] for x in mask],
        **exports.ROUNDING,
    )


CHECKS = {
    "classification": check_label,
    "regression": check_score,
    "tagging": check_tags,
    "fill_mask": check_masks,
    "sentence_embedding": check_vector,
    "question_answering": check_answer,
    "multiple_choice": check_choice,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_the_saved_model(exported, kind):
    inputs, settings = INPUTS[kind]
    export = exported(kind)
    folder = os.path.join(os.path.dirname(export.path), "model")
    predictor = bert_tf.Predictor(folder, **settings)
    assert predictor.kind == kind
    found = predictor(inputs)
    lines = served.lines_of(export.loaded, kind, inputs)
    assert len(found) == len(lines) == len(inputs)
    for answer, line in zip(found, lines, strict=True):
        CHECKS[kind](answer, line)
    # One at a time, and with the model instead of its folder.
    model, tokenizer = bert_tf.load(folder)
    one = bert_tf.Predictor(model, tokenizer, batch_size=1, **settings)
    for value, line in zip(inputs, lines, strict=True):
        CHECKS[kind](one(value), line)


@pytest.mark.slow
def test_half_precision_is_that_of_the_saved_model(make):
    folder = make("classification", precision="bfloat16")
    path = str(folder.parent / "export")
    config = kinds.ExportConfig(model_dir=str(folder), export_dir=path)
    export_model.export(config)
    loaded = tf.saved_model.load(path)
    expected = loaded.text(TEXTS)["probabilities"]
    for dtype in (None, "bfloat16"):
        model, tokenizer = bert_tf.load(folder, dtype=dtype)
        found = bert_tf.Predictor(model, tokenizer)(TEXTS)
        np.testing.assert_allclose(
            [list(answer.probabilities.values()) for answer in found],
            expected,
            **exports.ROUNDING,
        )


@pytest.mark.slow
def test_words_get_the_tags_of_the_saved_model(exported):
    export = exported("tagging")
    folder = os.path.join(os.path.dirname(export.path), "model")
    predictor = bert_tf.Predictor(folder)
    for answer, line in zip(
        predictor(WORDS),
        served.lines_of(export.loaded, "tagging", WORDS, "words"),
        strict=True,
    ):
        assert [tag.tag for tag in answer.words] == line["tags"]
        assert [tag.word for tag in answer.words] == line["words"]
        np.testing.assert_allclose(
            [tag.probability for tag in answer.words],
            line["probabilities"],
            **exports.ROUNDING,
        )
    mixed = predictor(["the cat", ["the", "cat"]])
    assert [tag.start for tag in mixed[0].words] == [0, 4]
    assert [tag.start for tag in mixed[1].words] == [0, 1]
    assert predictor(("the", "cat")) == mixed[1]


@pytest.fixture
def make(tmp_path):
    """(task, **metadata) -> folder of a model."""

    def write(task, **more):
        folder = tmp_path / task
        exports.save_model(exports.make_model(task), task, folder, **more)
        return folder

    return write


def test_entities_have_the_characters_of_their_words():
    words = ["Mr.", "Müller", "of", "Köln"]
    outputs = {
        "words": np.array([[word.encode() for word in words]], object),
        "tags": np.array([[b"B-PER", b"I-PER", b"O", b"I-LOC"]], object),
        "starts": np.array([[0, 4, 11, 14]], np.int32),
        "ends": np.array([[3, 10, 13, 18]], np.int32),
        "probabilities": np.array([[0.5, 0.25, 1, 0.75]], np.float32),
    }
    labels = ["O", "B-PER", "I-PER", "I-LOC"]
    text = "Mr. Müller of Köln"
    found = tags.Tagging.typed({"text": text}, outputs, labels)
    assert found.entities == (
        tags.Entity("PER", "Mr. Müller", 0, 10, 0.25),
        tags.Entity("LOC", "Köln", 14, 18, 0.75),
    )
    found = tags.Tagging.typed({"words": words}, outputs, labels)
    assert found.entities[0][:4] == ("PER", "Mr. Müller", 0, 2)
    # The same entities in the labels of BILOU.
    outputs["tags"] = np.array([[b"B-PER", b"L-PER", b"O", b"U-LOC"]], object)
    bilou = ["O", *(f"{b}-{t}" for b in "BILU" for t in ("PER", "LOC"))]
    found = tags.Tagging.typed({"text": text}, outputs, bilou)
    assert [entity[:2] for entity in found.entities] == [
        ("PER", "Mr. Müller"),
        ("LOC", "Köln"),
    ]
    assert found.words[1].tag == "L-PER"
    # Tags of words that are not parts of entities.
    found = tags.Tagging.typed({"text": text}, outputs, ["NN", *labels])
    assert found.entities == () and len(found.words) == 4


def test_batches_do_not_change_order(make):
    predictor = bert_tf.Predictor(make("regression"), batch_size=2)
    texts = ["a", "the cat sat on the mat", "the", "cat " * 9, "the cat"] * 3
    together = [answer.score for answer in predictor(texts)]
    alone = [predictor(text).score for text in texts]
    np.testing.assert_allclose(together, alone, **exports.ROUNDING)
    assert len(set(np.round(alone[:5], 4))) == 5
    column = np.array(texts)
    np.testing.assert_allclose(
        [answer.score for answer in predictor(column)],
        alone,
        **exports.ROUNDING,
    )


def test_only_texts_that_are_cut_cause_a_warning(make, caplog):
    predictor = bert_tf.Predictor(make("classification"))
    exact = "a " * (exports.MAX_SEQ_LENGTH - 2)
    caplog.clear()  # Of what was said of the model.
    with caplog.at_level(logging.WARNING):
        predictor([exact, "é" * 12, ("a " * 6, "a " * 7)])
    assert not caplog.messages
    with caplog.at_level(logging.WARNING):
        predictor([exact, exact + "a", ("a " * 7, "a " * 7)])
    (message,) = caplog.messages
    assert message.startswith("2 of 3 texts have more than max_seq_length=16")


def test_an_empty_list_has_no_answers(make):
    assert bert_tf.Predictor(make("classification"))([]) == []
    vectors = bert_tf.Predictor(
        make("pretraining"), kind="sentence_embedding", max_seq_length=8
    )
    assert vectors([]).shape == (0, 16) and vectors.max_seq_length == 8
    assert vectors(["a"]).shape == (1, 16) and vectors("a").shape == (16,)


@pytest.mark.parametrize("key", ["untrained", "not_in_source"])
def test_a_bert_without_heads_gives_vectors_and_a_new_head_nothing(make, key):
    folder = make("pretraining", **{key: ["masked_lm/bias"]})
    assert bert_tf.Predictor(folder).kind == "sentence_embedding"
    model, tokenizer = bert_tf.load(
        folder, task="classification", labels=["no", "yes"]
    )
    with pytest.raises(ValueError, match="head for classification is newly"):
        bert_tf.Predictor(model, tokenizer)
    model.head.weights[0].assign_add(np.ones((16, 2), np.float32))
    model.head.weights[1].assign([0.0, 9.0])
    predictor = bert_tf.Predictor(model, tokenizer)
    assert predictor("a").label == "yes"
    # The weights of the moment are used.
    model.head.weights[1].assign([9.0, 0.0])
    assert predictor("a").label == "no"


@pytest.mark.parametrize(
    "kind, value",
    [
        ("classification", 3),
        ("classification", ("a",)),
        ("classification", ("a", None)),
        ("classification", ("a", "b", "c")),
        ("classification", b"a"),
        ("classification", {"text_a": "a", "text_B": "b"}),
        ("fill_mask", ("a", "b")),
        ("sentence_embedding", None),
        ("question_answering", "who?"),
        ("question_answering", {"question": "who?"}),
        ("question_answering", ("who?", ["a"])),
        ("multiple_choice", ("a", "b")),
        ("multiple_choice", ("a", [])),
        ("multiple_choice", ("a", ["b", ""])),
        ("tagging", ["a", ""]),
        ("tagging", ["a", 2]),
        ("tagging", {"text": "a"}),
    ],
)
def test_inputs_of_another_form_are_refused(kind, value):
    with pytest.raises(ValueError, match=r"inputs\[7\] is .*; expected") as e:
        kinds.by_name(kind).parse(value, "inputs[7]")
    assert "\n" not in str(e.value)


def test_an_unpaired_surrogate_is_refused():
    with pytest.raises(ValueError, match=r"it has '\\ud800', an unpaired"):
        kinds.by_name("fill_mask").parse("a\ud800", "it")


def test_settings_that_do_not_apply_are_refused(make):
    folder = make("classification")
    for settings, message in [
        ({"topk": 3}, "topk is no setting"),
        ({"top_k": 3}, "top_k=3 is for"),
        ({"kind": "encoder"}, "call model.encoder"),
        ({"kind": "fill_mask"}, "does not fit a model with task"),
        ({"max_seq_length": 65}, "exceeds"),
        ({"batch_size": 0}, "batch_size=0"),
    ]:
        with pytest.raises(ValueError, match=message):
            bert_tf.Predictor(folder, **settings)
    with pytest.raises(ValueError, match="a list of them"):
        bert_tf.Predictor(folder)({"a"})
    with pytest.raises(ValueError, match="BertClassifier has no metadata"):
        bert_tf.Predictor(exports.make_model("classification"))
    (folder / "vocab.txt").unlink()
    with pytest.raises(ValueError, match="has no vocabulary, so text cannot"):
        bert_tf.Predictor(folder)

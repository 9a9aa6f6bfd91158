"""Predictor: its entities, settings and forms of inputs.

Its answers are in tests/contracts/test_answers.py.
"""

import exports
import numpy as np
import pytest

import bert_tf
from bert_tf.serving import kinds
from bert_tf.serving.answers import tags
from bert_tf.serving.answers.kind import parse


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


@pytest.mark.usefixtures("eagerly")
def test_a_bert_without_heads_gives_vectors_and_a_new_head_nothing(make):
    folder = make("pretraining", untrained=["masked_lm/bias"])
    vectors = bert_tf.Predictor(folder, max_seq_length=8)
    assert (vectors.kind, vectors.max_seq_length) == ("sentence_embedding", 8)
    assert vectors([]).shape == (0, 16) and vectors("a").shape == (16,)
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
        ("ranking", ("a", "b")),
        ("ranking", ("a", ["b", ""])),
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
        parse(kinds.by_name(kind), value, "inputs[7]")
    assert "\n" not in str(e.value)


def test_an_unpaired_surrogate_is_refused():
    with pytest.raises(ValueError, match=r"it has '\\ud800', an unpaired"):
        parse(kinds.by_name("fill_mask"), "a\ud800", "it")


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


@pytest.fixture
def frame():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(
        {"text": ["a ship", "", "the cat"], "label": [3, 4, 5], 9: "x"},
        index=["i", "j", "k"],
    )


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    ("task", "columns"),
    [
        ("classification", ["label", "probability"]),
        ("multi_label", ["labels"]),
        ("regression", ["score"]),
        ("tagging", ["words"]),
    ],
)
def test_a_frame_comes_back_with_the_columns_of_the_answers(
    make, frame, task, columns
):
    predictor = bert_tf.Predictor(make(task))
    found = predictor(frame, text_column="text")
    if task in ("classification", "multi_label"):
        columns = [*columns, *(f"probability_{x}" for x in exports.LABELS)]
    taken = "input_label" if task == "classification" else "label"
    assert list(found) == ["text", taken, 9, *columns]
    assert list(found.index) == ["i", "j", "k"]
    assert list(frame) == ["text", "label", 9]  # It is a copy.
    answers = predictor(frame["text"])
    if task == "classification":
        assert list(found["label"]) == [x.label for x in answers]
        assert list(found["probability"]) == [x.probability for x in answers]
        assert list(found["input_label"]) == [3, 4, 5]
    elif task == "tagging":
        words = [[x["word"] for x in row] for row in found["words"]]
        assert words == [[x.word for x in row.words] for row in answers]
    # Of no rows, too.
    assert list(predictor(frame[:0], text_column="text")) == list(found)


@pytest.mark.usefixtures("eagerly")
def test_inputs_of_a_frame_have_their_names_or_those_that_are_given(
    make, frame
):
    predictor = bert_tf.Predictor(make("regression", num_texts=2))
    pairs = frame.rename(columns={"text": "text_a", "label": "text_b"})
    pairs["text_b"] = "bread"
    expected = [x.score for x in predictor([("a ship", "bread")])]
    assert list(predictor(pairs[:1])["score"]) == expected
    swapped = predictor(pairs[:1], text_column=["text_b", "text_a"])
    expected = [x.score for x in predictor([("bread", "a ship")])]
    assert list(swapped["score"]) == expected
    for inputs, columns, message in [
        (frame, None, "no column 'text_a'; its columns are 'text', 'label', 9"),
        (frame, ["text", "text", 9], "text_column=text,text,9 has 3 columns"),
        (frame.set_axis([0, 1, 2], axis=1), 1, r"3 \(int\) in column 1"),
        (frame, "label", r"Row 'i' .* has 3 \(int\) in column 'label'"),
        (["a"], "text", r"text_column='text' is for .* input is \['a'\]"),
    ]:
        with pytest.raises(ValueError, match=message):
            predictor(inputs, text_column=columns)


@pytest.mark.usefixtures("eagerly")
def test_a_model_of_single_texts_has_no_second_one(make):
    predictor = bert_tf.Predictor(make("classification", num_texts=1))
    assert predictor.inputs == {"text": {"text_a": 1}}
    assert predictor("a ship") == predictor({"text_a": "a ship"})
    with pytest.raises(ValueError, match=r"\('a', 'b'\).*expected a str\."):
        predictor(("a", "b"))
    with pytest.raises(ValueError, match="expected a str"):
        predictor({"text_a": "a", "text_b": "b"})


@pytest.mark.usefixtures("eagerly")
def test_a_temperature_is_undone(make):
    folder = make("classification", temperature=2.5)
    logits, undone = (
        np.log(
            [*bert_tf.Predictor(folder, **x)("a ship").probabilities.values()]
        )
        for x in ({}, {"uncalibrated": True})
    )
    factors = np.diff(undone) / np.diff(logits)
    np.testing.assert_allclose(factors, 2.5, rtol=1e-4)
    for more in ({}, {"temperature": None}, {"temperature": -1.0}):
        folder = make("classification", **more)
        with pytest.raises(ValueError, match="no temperature above 0.*Omit"):
            bert_tf.Predictor(folder, uncalibrated=True)

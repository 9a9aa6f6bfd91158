"""Views of a model: which ones it has, and what they show."""

import html
import json
import re

import exports
import numpy as np
import pytest

import bert_tf
from bert_tf.contrib.apps.page import attention_page, views

TITLES = {
    "pretraining": ["Fill the mask", "Score", "Compare", "Attention"],
    "classification": ["Classify", "Compare", "Attention"],
    "multi_label": ["Label", "Compare", "Attention"],
    "regression": ["Score", "Compare", "Attention"],
    "spans": ["Answer", "Compare", "Attention"],
    "tagging": ["Entities", "Compare", "Attention"],
    "multiple_choice": ["Choose", "Compare", "Attention"],
}


@pytest.fixture
def save(tmp_path, eagerly):
    """(task, layers, metadata) -> folder of a random model."""

    def write(task, num_hidden_layers=1, **more):
        if task == "spans":
            more = {"doc_stride": 4, "max_query_length": 4} | more
        model = exports.make_model(task, num_hidden_layers)
        exports.save_model(model, task, tmp_path / task, **more)
        return tmp_path / task

    return write


@pytest.fixture
def load(save):
    """The same -> Views."""
    return lambda task, **more: views.Views(*bert_tf.load(save(task, **more)))


def compute(found, *texts):
    """The attention that `found.attend` draws."""
    return attention_page.compute(
        found.model.encoder,
        found._embed.tokenizer,
        found._embed.max_seq_length,
        texts,
    )


def drawn(found, *texts):
    """The data of the page that `found.attend` has in a frame."""
    (page,) = re.findall('srcdoc="([^"]*)"', found.attend(*texts))
    (data,) = re.findall('json">([^<]*)<', html.unescape(page))
    return json.loads(data)["texts"][0]


@pytest.mark.parametrize("task", TITLES)
def test_each_view_answers_its_own_example(load, task):
    found = load(task)
    assert not found.warning
    assert [view.title for view in found.find()] == TITLES[task]
    for view in found.find():
        examples = [box.example for box in view.inputs]
        assert "<" in view.function(*examples)
        with pytest.raises(ValueError, match=r"is empty|has no \[MASK\]"):
            view.function(*(" " for _ in examples))


@pytest.mark.parametrize(
    ("task", "more", "takes"),
    [
        ("classification", {}, True),  # Perhaps.
        ("classification", {"num_texts": 2}, True),
        ("classification", {"num_texts": 1}, False),
        # Folders of version 0.1.
        ("classification", {"task_name": "SST-2"}, False),
        ("classification", {"task_name": "MRPC"}, True),
        ("regression", {"num_texts": 1}, False),
        ("tagging", {}, False),
        ("spans", {}, True),
    ],
)
def test_a_second_text_is_asked_for_where_the_model_takes_one(
    load, task, more, takes
):
    found = load(task, **more)
    assert found.takes_pairs == takes
    view = found.find()[0]
    if view.name == "classify":
        labels = [box.label for box in view.inputs]
        assert labels == ["Text", "Second text"][: 1 + takes]
        assert "<" in view.function(*(["the cat"] * len(labels)))
    assert drawn(found, "the cat")["tokens"] == ["[CLS]", "the", "cat", "[SEP]"]


@pytest.mark.parametrize("types", [0, 1])
def test_a_model_of_one_segment_type_takes_one_text(tmp_path, eagerly, types):
    model = exports.make_model("classification", type_vocab_size=types)
    exports.save_model(model, "classification", tmp_path / "one", num_texts=2)
    found = views.Views(*bert_tf.load(tmp_path / "one")).takes_pairs
    assert found == (types == 0)  # DistilBERT tells texts apart by [SEP].


def test_a_new_head_has_no_view_of_its_task(save):
    model, tokenizer = bert_tf.load(
        save("pretraining"), task="classification", labels=["no", "yes"]
    )
    found = views.Views(model, tokenizer)
    assert "head for classification is newly" in found.warning
    assert [view.name for view in found.find()] == ["compare", "attend"]
    assert "cosine" in found.compare("the cat", "a ship")


def test_a_mask_is_drawn_as_one_token(load):
    text = drawn(load("pretraining"), "the [MASK] cat", "")
    assert text["tokens"] == ["[CLS]", "the", "[MASK]", "cat", "[SEP]"]


def test_each_token_is_scored(load):
    found = load("pretraining")
    expected = bert_tf.Predictor(found.model, kind="pseudo_log_likelihood")(
        "the old cat"
    )
    drawn = found.score_tokens("the old cat")
    assert f"<b>{expected.score:.4g}</b>" in drawn
    assert f"<b>{expected.perplexity:.4g}</b>" in drawn
    titles = re.findall(r'title="([-.\d]+), probability ([.\de-]+)">', drawn)
    assert [float(x) for x, _ in titles] == pytest.approx(
        expected.log_probabilities, abs=1e-4
    )
    assert [float(x) for _, x in titles] == pytest.approx(
        np.exp(expected.log_probabilities), rel=1e-3
    )
    shades = [float(x) for x in re.findall(r"rgba\(230,97,1,([.\d]+)\)", drawn)]
    order = np.argsort(expected.log_probabilities)
    assert np.argsort(-np.array(shades)).tolist() == order.tolist()
    assert max(shades) == 0.6


def test_a_left_to_right_model_is_compared_and_drawn(save):
    # What a left-to-right model reads at a token does not change later.
    model, tokenizer = bert_tf.load(save("pretraining"))
    config = model.config.to_dict() | {"is_causal": True}
    causal = type(model)(config)
    causal.set_weights(model.get_weights())
    for name in ("metadata", "vocabulary", "untrained"):
        setattr(causal, name, getattr(model, name))
    found = views.Views(causal, tokenizer)
    assert [view.name for view in found.find()] == ["compare", "attend"]
    attention = compute(found, "the old cat")
    above = np.triu_indices(len(attention.tokens), 1)
    assert not attention.weights[:, :, above[0], above[1]].any()


def test_a_model_without_vocabulary_is_refused(save):
    folder = save("classification")
    (folder / "vocab.txt").unlink()
    with pytest.raises(ValueError, match="no vocabulary"):
        views.Views(*bert_tf.load(folder))


def test_tags_that_are_not_entities_are_marked_at_each_word(load):
    found = load("tagging")  # With the labels bad, good, so so.
    tagged = found.tag("the old cat")
    names = re.findall(r"<b [^>]*>([^<]*)</b></mark>", tagged)
    assert len(names) == 3 and set(names) <= set(exports.LABELS)
    none = load("tagging", labels=["O", "B-X", "I-X"])
    kernel, bias = none.model.head.weights
    kernel.assign(np.zeros_like(kernel))
    bias.assign([1.0, 0.0, 0.0])
    assert "No entities." in none.tag("the old cat")


def test_a_passage_without_an_answer_is_not_marked(load):
    found = load("spans", version_2_with_negative=True)
    found.model.head.weights[0].assign(np.zeros([16, 2]))
    # All spans are equal, and the threshold prefers none.
    found._predict = bert_tf.Predictor(
        found.model, version_2_with_negative=True, null_score_diff_threshold=-1
    )
    shown = found.answer("who sat", "the cat sat on the mat")
    assert "<mark" not in shown and "<b>no answer</b>" in shown


def test_long_texts_are_cut_with_a_note(load):
    long = "cat " * 40
    note = "42 tokens, but 16 are read: the end was cut."
    found = load("pretraining")
    assert note in found.fill("cat " * 39 + "[MASK]")
    assert note in found.compare("the cat", long)
    text = drawn(found, long, "")
    assert (text["count"], len(text["tokens"])) == (42, 16)
    found = load("multiple_choice")
    assert "tokens" in found.choose("the cat", f"sat\n{long}")
    assert "tokens" not in found.choose("the cat", "sat\nran")


def test_endings_are_lines(load):
    found = load("multiple_choice")
    with pytest.raises(ValueError, match="two or more endings"):
        found.choose("the cat", "sat\n \n")
    shown = found.choose("the cat", "sat\n\n<b>ran</b>")
    assert shown.count('class="bar"') == 2 and "&lt;b&gt;ran" in shown


def test_passages_are_lines_and_are_listed_by_score(load):
    found = load("regression", ranking_loss="listwise")
    rank, compare, _ = found.find()
    assert (rank.title, compare.title) == ("Rank", "Compare")
    assert "<li>" in rank.function(*(box.example for box in rank.inputs))
    with pytest.raises(ValueError, match="two or more passages"):
        found.rank("the cat", "sat\n \n")
    shown = found.rank("the cat", "sat\n\n<b>ran</b>")
    assert shown.count("<li>") == 2 and "&lt;b&gt;ran" in shown


def test_attention_is_that_of_the_encoder(load):
    found = load("classification", num_hidden_layers=2)
    attention = compute(found, "the cat", "sat")
    assert drawn(found, "the cat", "sat")["tokens"] == [*attention.tokens]
    assert attention.tokens == (
        *("[CLS]", "the", "cat", "[SEP]"),
        *("sat", "[SEP]"),
    )
    assert attention.weights.shape == (2, 2, 6, 6)
    np.testing.assert_allclose(attention.weights.sum(-1), 1.0, rtol=1e-5)
    model, tokenizer = found.model, found._embed.tokenizer
    ids = np.array([[tokenizer.vocab.index(x) for x in attention.tokens]])
    outputs = model.encoder(
        {
            "input_word_ids": ids.astype(np.int32),
            "input_mask": np.ones([1, 6], np.int32),
            "input_type_ids": np.array([[0, 0, 0, 0, 1, 1]], np.int32),
        },
        return_attention=True,
    )
    np.testing.assert_allclose(
        attention.weights, np.concatenate(outputs.attention), rtol=1e-5
    )

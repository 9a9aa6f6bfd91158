import dataclasses
import json
import pathlib

import checkpoint_folders
import pytest

from bert_tf.checkpoint import detection
from bert_tf.checkpoint.formats.hugging_face import pretrained
from bert_tf.workflows import conversion

TEXTS = "config_sentence_transformers.json"
PROMPTS = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
IDENTITY = "torch.nn.modules.linear.Identity"
SIGMOID = "torch.nn.modules.activation.Sigmoid"
NEW = "sentence_transformers"
OLD = "sbert_ce_default_activation_function"


def cross_encoder(folder, given, texts=None, **config):
    """Writes a cross-encoder of version 6 if `texts` are given."""
    folder = checkpoint_folders.write(given, folder, "hugging_face")
    path = pathlib.Path(folder)
    values = json.loads((path / "config.json").read_text())
    values.pop("sentence_transformers", None)
    values |= {"use_cache": True} | config
    (path / "config.json").write_text(json.dumps(values))
    if texts is not None:
        modules = [{"type": "sentence_transformers.models.Transformer"}]
        (path / "modules.json").write_text(json.dumps(modules))
        (path / TEXTS).write_text(json.dumps(texts))
    return folder


@pytest.mark.parametrize(
    ("texts", "config", "activation"),
    [
        (None, {}, None),
        (
            None,
            {"sentence_transformers": {"activation_fn": IDENTITY}},
            "linear",
        ),
        (None, {NEW: {"version": "4.1.0"}}, "sigmoid"),
        (None, {OLD: "torch.nn.Identity"}, "linear"),
        (None, {OLD: None}, "sigmoid"),
        ({"activation_fn": "torch.nn.modules.activation.Tanh"}, {}, "tanh"),
        ({"activation_fn": IDENTITY}, {OLD: SIGMOID}, "linear"),
        ({"activation_fn": "a.library.of.Others"}, {}, "sigmoid"),
        ({"model_type": "CrossEncoder"}, {}, "sigmoid"),
        ({"model_type": "CrossEncoder"}, {OLD: IDENTITY}, "linear"),
    ],
)
def test_the_score_of_a_cross_encoder_is_as_in_its_library(
    tmp_path, make_checkpoint, texts, config, activation
):
    given = make_checkpoint("regression")
    folder = cross_encoder(tmp_path / "theirs", given, texts, **config)
    found = pretrained.read(folder)
    assert found.metadata.get("score_activation") == activation
    assert any("CrossEncoder" in note for note in found.notes)
    for name in ("bert_tf", "hugging_face"):  # One after the other.
        folder = str(tmp_path / name)
        conversion.convert(found.source.split()[1], name, folder)
        found = detection.format_module(name).read(folder)
        assert found.metadata.get("score_activation") == activation, name
    values = json.loads((tmp_path / "hugging_face/config.json").read_text())
    assert ("sentence_transformers" in values) == (activation is not None)


@pytest.mark.parametrize(
    ("texts", "config", "message"),
    [
        (
            None,
            {OLD: "torch.nn.modules.activation.ELU"},
            "config.json: the score's activation .*ELU' is not supported",
        ),
        (
            PROMPTS,
            {},
            f"{TEXTS}: default_prompt_name='query' puts 'query: ' before",
        ),
        ({"activation_fn": 3}, {}, f"{TEXTS}: activation_fn is 3"),
        (None, {NEW: "4"}, "sentence_transformers is '4'"),
    ],
)
def test_scores_that_the_library_makes_otherwise_are_refused(
    tmp_path, make_checkpoint, texts, config, message
):
    given = make_checkpoint("regression")
    folder = cross_encoder(tmp_path / "theirs", given, texts, **config)
    with pytest.raises(ValueError, match=message):
        pretrained.read(folder)


def test_activations_of_several_logits_are_noted(tmp_path, make_checkpoint):
    given = make_checkpoint("classification")
    for name, is_noted in ((IDENTITY, False), (SIGMOID, True)):
        folder = cross_encoder(tmp_path / name, given, **{OLD: name})
        found = pretrained.read(folder)
        assert "score_activation" not in found.metadata
        assert found.metadata["split_special_tokens"] is False
        assert any("Sigmoid" in note for note in found.notes) == is_noted


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"ranking_loss": "binary"}, None),
        ({"ranking_loss": "listwise"}, IDENTITY),
        ({"score_range": [0.0, 5.0]}, IDENTITY),
        ({"score_activation": "sigmoid"}, SIGMOID),
    ],
)
def test_a_score_that_is_no_logit_says_so(
    tmp_path, make_checkpoint, metadata, expected
):
    given = make_checkpoint("regression")
    given = dataclasses.replace(
        given,
        metadata=metadata,
        vocabulary=checkpoint_folders.VOCABULARY,
        do_lower_case=True,
    )
    folder = checkpoint_folders.write(given, tmp_path / "own", "hugging_face")
    with open(f"{folder}/config.json") as file:
        found = json.load(file).get("sentence_transformers", {})
    assert found.get("activation_fn") == expected
    found = pretrained.read(folder).metadata
    assert found == metadata | {"max_seq_length": 64}

"""Kinds of export: those of each model, and the settings of each."""

import dataclasses
import functools
import types

import pytest
from absl import flags

from bert_tf import config as bert_config
from bert_tf.checkpoint import contents
from bert_tf.contrib.runtimes.config import RuntimeConfig
from bert_tf.model import models
from bert_tf.model.sentence_embedding import SentenceEmbedding
from bert_tf.serving import kinds as export_kinds
from bert_tf.training import loop
from run_scripts import export_savedmodel
from run_scripts.flags import common_flags

CONFIG = bert_config.BertConfig(vocab_size=100)


def settings(**fields):
    return export_kinds.ExportConfig(model_dir="m", export_dir="e", **fields)


def find(config, task, untrained=(), sizes=CONFIG, embedding=None):
    model = types.SimpleNamespace(config=sizes, sentence_embedding=embedding)
    metadata = {"task": task, "untrained": untrained}
    return export_kinds.choose(config, metadata, model).name


def test_every_task_has_a_different_default_kind():
    first = set()
    for task in models.TASK_MODELS:
        own, *others = export_kinds.of_model({"task": task})
        first.add(own)
        assert own.task == task
        others = [kind for kind in others if kind.task != task]
        names = [kind.name for kind in others]
        assert names[:2] == ["encoder", "sentence_embedding"]
        assert not any(kind.task for kind in others)
    assert len(first) == len(models.TASK_MODELS)


@pytest.mark.parametrize(
    ("name", "outputs"),
    [
        ("question_answering", ("answer", "nbest_answers", "num_answers")),
        ("tagging", ("words", "tags", "starts", "ends", "probabilities")),
        ("tagging", ("tags", "probabilities")),  # The signature words.
        ("token_vectors", ("vectors",)),
        ("multiple_choice", ("choice", "ending", "probabilities", "logits")),
        ("ranking", ("ranked", "scores", "order")),
        ("fill_mask", ("tokens", "probabilities")),
        (
            "pseudo_log_likelihood",
            ("score", "tokens", "log_probabilities"),
        ),
        ("encoder", ("input_mask", "sequence_output", "encoder_outputs_0")),
        # One value or one row of them for each text: nothing is padded.
        ("", ("label", "probabilities", "logits")),
        ("", ("score",)),
        ("", ("embedding",)),
    ],
)
def test_an_export_without_its_model_json_is_known_by_its_outputs(
    name, outputs
):
    assert export_kinds.of_outputs(outputs).name == name


def test_a_model_that_was_trained_to_rank_ranks():
    model = types.SimpleNamespace(config=CONFIG, sentence_embedding=None)
    metadata = {"task": "regression", "ranking_loss": "binary", "num_texts": 2}
    find = functools.partial(export_kinds.choose, model=model)
    assert find(settings(), metadata).name == "ranking"
    assert find(settings(kind="regression"), metadata).name == "regression"
    head = ["regression/dense/kernel"]
    untrained = metadata | {"untrained": head}
    assert find(settings(), untrained).name == "encoder"


def test_a_model_of_single_texts_ranks_nothing():
    with pytest.raises(ValueError, match="kind=ranking needs .* pairs"):
        export_kinds.by_name("ranking")(
            None, None, 8, {"num_texts": 1}, settings()
        )


@pytest.mark.parametrize(
    ("num_texts", "names"),
    [(1, ["text_a"]), (2, ["text_a", "text_b"]), (None, ["text_a", "text_b"])],
)
def test_only_models_of_single_texts_have_no_second_text(num_texts, names):
    metadata = {"num_texts": num_texts} if num_texts else {}
    make = export_kinds.by_name("regression")
    found = make(None, None, 8, metadata, settings())
    assert list(found.inputs["text"]) == names


@pytest.mark.parametrize("name", ["classification", "tagging"])
def test_answers_with_labels_need_them(name):
    with pytest.raises(ValueError, match=f"no labels, which kind={name}"):
        export_kinds.by_name(name)(None, None, 8, {}, settings())


def test_a_model_whose_encoder_is_untrained_has_no_answers():
    layer = ("encoder/layer_0/attention/query/kernel",)
    with pytest.raises(ValueError, match="which every answer depends on"):
        find(settings(), "pretraining", (*layer, "masked_lm/dense/kernel"))


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ("spans", "question_answering"),
        ("tagging", "tagging"),
        ("multiple_choice", "multiple_choice"),
        ("pretraining", "fill_mask"),
    ],
)
def test_the_default_kind_needs_a_trained_head(task, kind):
    assert find(settings(), task) == kind
    head = export_kinds.by_name(kind).weights + "dense/kernel"
    assert find(settings(), task, (head,)) == "encoder"
    with pytest.raises(ValueError, match=f"kind={kind} does not fit .*{head}"):
        find(settings(kind=kind), task, (head,))


def test_without_a_pooler_only_kinds_that_use_it_are_unavailable():
    pooler = (contents.POOLER + "kernel",)
    for task, kind in (
        ("classification", "encoder"),
        ("multiple_choice", "encoder"),
        ("spans", "question_answering"),
        ("tagging", "tagging"),
    ):
        assert find(settings(), task, pooler) == kind
    # A model that reads pooled tokens does not use the pooler.
    pooled = dataclasses.replace(CONFIG, classifier_pooling="mean")
    found = find(settings(), "classification", pooler, pooled)
    assert found == "classification"


def test_masks_and_cls_do_not_fit_a_left_to_right_model():
    causal = dataclasses.replace(CONFIG, is_causal=True)
    assert find(settings(), "pretraining", (), causal) == "encoder"
    with pytest.raises(ValueError, match="fill_mask does not fit a left-to-ri"):
        find(settings(kind="fill_mask"), "pretraining", (), causal)
    given = settings(kind="sentence_embedding", pooling="cls")
    with pytest.raises(ValueError, match="pooling=cls does not fit a left"):
        find(given, "pretraining", (), causal)


def test_any_model_can_be_exported_for_embeddings():
    for task in models.TASK_MODELS:
        wanted = settings(kind="sentence_embedding")
        assert find(wanted, task) == "sentence_embedding"
        # Of a folder of sentence-transformers it is the default.
        auto = find(settings(), task, embedding=SentenceEmbedding())
        assert auto == "sentence_embedding"


def parse(*words):
    values = flags.FlagValues()
    common_flags.define(values, export_kinds.ExportConfig)
    values(["export", "--model_dir=m", "--export_dir=e", *words])
    return common_flags.config(export_kinds.ExportConfig, values)


def test_unknown_kinds_are_refused():
    with pytest.raises(ValueError, match="--kind=three: choose one of auto, "):
        settings(kind="three")


def test_precisions_are_the_same_as_in_training():
    field = export_kinds.ExportConfig.__dataclass_fields__["precision"]
    assert field.metadata["choices"] == tuple(loop.POLICIES)


def test_defaults_do_not_override_the_metadata_of_a_model():
    config = parse()
    for name in export_kinds.OPTIONS:
        assert getattr(config, name) in (None, ()), name


@pytest.mark.parametrize(
    ("word", "kind", "task"),
    [
        ("--top_k=3", "fill_mask", "pretraining"),
        ("--layers=-2", "sentence_embedding", "pretraining"),
        ("--prompt_name=", "sentence_embedding", "pretraining"),
        ("--doc_stride=8", "tagging", "tagging"),
        ("--noversion_2_with_negative", "question_answering", "spans"),
    ],
)
def test_flags_of_other_kinds_are_refused(word, kind, task):
    config = parse(word, f"--kind={kind}")
    assert find(config, task) == kind
    with pytest.raises(
        ValueError, match=f"{kind}.* but the kind in use is 'encoder'"
    ):
        config = parse(word, "--kind=encoder")
        find(config, task)


def test_an_option_of_one_kind_is_refused_for_another_with_options():
    config = parse("--top_k=3", "--kind=sentence_embedding")
    message = "top_k=3 is for kind=fill_mask, but .* 'sentence_embedding'"
    with pytest.raises(ValueError, match=message):
        find(config, "pretraining")


def test_every_setting_applies_to_all_kinds_or_to_some():
    general = {
        *["model_dir", "export_dir", "overwrite"],
        *["kind", "max_seq_length", "precision", "weights_dtype"],
        *["license", "accept_tokenizer_differences"],
    }
    fields = {f.name for f in dataclasses.fields(export_kinds.ExportConfig)}
    assert fields == general | set(export_kinds.OPTIONS)
    # absl defines some flags itself, common_flags that of copies.
    others = {*flags.FlagValues(), "cache_dir"}
    # Those of other formats than the SavedModel.
    others |= {f.name for f in dataclasses.fields(RuntimeConfig)} - fields
    assert set(export_savedmodel.FLAGS) - others == fields
    known = map(export_kinds.by_name, export_kinds.CLASSES)
    assert {x for kind in known for x in kind.options} == set(
        export_kinds.OPTIONS
    )

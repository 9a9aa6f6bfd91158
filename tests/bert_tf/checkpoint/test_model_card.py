"""model_card.py: cards that Hugging Face reads, of what is known and not."""

import dataclasses
import functools
import json
import math
import os

import exports
import pytest
from checkpoint_folders import write

import bert_tf
from bert_tf.checkpoint import (
    checksums,
    contents,
    model_card,
    model_folders,
    run_models,
)
from bert_tf.model import models
from bert_tf.serving import kinds
from bert_tf.workflows import conversion

RUN = {
    "task": "SST-2",
    "config": {"hidden_act": "gelu"},
    "init_checkpoint": "/home/someone/models/uncased_L-2",
    "records": "ab" * 32,
    "learning_rate": 5e-05,
    "seed": 12345,
    "precision": "float32",
    "lora_rank": None,
}
RESULTS = {
    "task_name": "SST-2",
    "step": 7,
    "best_metric": "accuracy",
    "dev": {"loss": 0.25, "accuracy": 0.9128},
    "majority_baseline": {"dev": {"accuracy": 0.5092}},
}
OF_PRETRAINING = {
    "step": 7,
    "records": "cd" * 32,
    "max_eval_steps": 0,
    "masked_lm_accuracy": 0.17,
    "perplexity": 253.0,
    "unigram_accuracy": 0.07,
}


model_of = functools.cache(exports.make_model)  # For tests that only save it.


def make_run(folder, inside="best", **files):
    """Writes a run folder with a classifier; returns the path of the model."""
    model = folder / inside
    exports.save_model(model_of("classification"), "classification", model)
    checksums.write_checksums(str(model), {"step": 7})
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return str(model)


def facts_of(config, task="classification", metadata=None, **more):
    own = {"task": task, "labels": ["no", "yes"], "do_lower_case": True}
    more = {"files": "bert_tf"} | more
    if kind := more.get("kind"):
        more["names"] = kinds.TITLES[kind.name]
    return model_card.Facts(
        config=config, metadata=own | (metadata or {}), **more
    )


@pytest.fixture
def card(tiny_config):
    """What is known of a model -> its card."""
    return lambda *facts, **more: model_card.text(
        facts_of(tiny_config, *facts, **more)
    )


def data_of(text):
    """Returns the front matter as Hugging Face's library reads it."""
    import huggingface_hub

    return huggingface_hub.ModelCard(text).data


def cells(text):
    """Returns the rows of all tables of a card."""
    lines = [line for line in text.split("\n") if line.startswith("| ")]
    return [tuple(line[2:-2].split(" | ")) for line in lines]


def test_scores_and_baselines_of_a_run_are_in_the_card(card):
    text = card(
        metadata={"task_name": "SST-2"},
        run=RUN,
        results=RESULTS,
        license="apache-2.0",
    )
    data = data_of(text)
    assert data.license == "apache-2.0"
    assert data.pipeline_tag == "text-classification"
    assert [
        (x.metric_type, x.metric_value, x.dataset_name, x.dataset_split)
        for x in data.eval_results
    ] == [
        ("loss", 0.25, "SST-2", "dev"),
        ("accuracy", 0.9128, "SST-2", "dev"),
    ]
    assert {
        ("dev", "accuracy", "0.9128", "0.5092"),
        ("sha256 of the records", RUN["records"]),
        ("learning_rate", "5e-05"),
        ("step of these weights", "7"),
    } <= set(cells(text))
    assert "None" not in text
    assert "# BERT, text classification: SST-2" in text


def test_folders_of_the_machine_are_left_out(card):
    source = "google /home/someone/models/uncased_L-2"
    text = card(run=RUN, metadata={"source": source})
    assert "someone" not in text
    assert ("init_checkpoint", "uncased_L-2") in cells(text)
    assert ("converted from", "google uncased_L-2") in cells(text)
    text = card(run=RUN | {"init_checkpoint": None})
    assert ("init_checkpoint", "none") in cells(text)


def test_what_is_not_known_is_said(card):
    text = card(metadata={"labels": None, "do_lower_case": None})
    data = data_of(text)
    assert data.license is None and data.eval_results is None
    assert "Data and settings are not known" in text
    assert "Not evaluated" in text
    assert "The licence is unknown: ask" in text
    assert {"labels", "do_lower_case"}.isdisjoint(dict(cells(text)))


@pytest.mark.parametrize("task", models.TASK_MODELS)
def test_the_number_of_parameters_is_that_of_the_model(task):
    model = exports.make_model(task)
    labels = exports.LABELS if task in contents.WITH_LABELS else []
    facts = facts_of(model.config, task, metadata={"labels": labels})
    assert facts.num_parameters() == model.count_params()
    data_of(model_card.text(facts))


def test_an_encoder_is_scored_without_its_head(tiny_config):
    facts = facts_of(
        tiny_config, results=RESULTS, kind=kinds.by_name("encoder")
    )
    text = model_card.text(facts)
    encoder = bert_tf.BertEncoder(tiny_config)
    assert facts.num_parameters() == encoder.count_params()
    assert data_of(text).eval_results is None
    assert data_of(text).pipeline_tag == "feature-extraction"
    assert "They are of the model with its head" in text


def test_a_preprocessor_has_neither_weights_nor_scores(card):
    kind = kinds.by_name("preprocessor")
    text = card(results=RESULTS, run=RUN, kind=kind)
    names = [name for name, *_ in cells(text)]
    assert "parameters" not in names and "hidden_size" not in names
    assert "vocab_size" in names
    assert "## Scores" not in text and "## Training" not in text


def test_pretraining_is_compared_with_the_most_frequent_token(card):
    text = card("pretraining", run=RUN, results=OF_PRETRAINING)
    assert {
        ("held out", "masked_lm_accuracy", "0.17", "0.07"),
        ("held out", "perplexity", "253", ""),
        ("sha256 of the held-out records", "cd" * 32),
    } <= set(cells(text))
    assert data_of(text).pipeline_tag == "fill-mask"


def test_a_left_to_right_model_fills_no_masks():
    config = bert_tf.BertConfig.from_name("tiny", is_causal=True)
    text = model_card.text(facts_of(config, "pretraining"))
    assert data_of(text).pipeline_tag == "text-generation"


def test_the_properties_are_those_of_the_files(card):
    metadata = {"untrained": ["tagging/bias"], "strip_accents": False}
    metadata["prompts"] = {"query": "find: ", "passage": ""}
    text = card("tagging", metadata=metadata, settings={"precision": "float32"})
    assert {
        ("do_lower_case", "True"),
        ("strip_accents", "False"),
        ("max_seq_length", "64"),  # All positions.
        ("newly initialized", "tagging/bias"),
        ("precision", "float32"),
        ("prompts", "query 'find: ', passage ''"),
    } <= set(cells(text))
    text = card(metadata={"max_seq_length": 40})
    assert ("max_seq_length", "40") in cells(text)
    settings = {"max_seq_length": 32}  # Of an export.
    text = card(metadata={"max_seq_length": 40}, settings=settings)
    assert ("max_seq_length", "32") in cells(text)


def test_names_of_a_foreign_model_are_text_everywhere(card):
    name = "<img src=x onerror=alert(1)> [a](http://b) **c** `d`\n# e"
    text = card(
        metadata={"task_name": name, "untrained": [name]},
        run={"precision": name},
        settings={"precision": "float32"},
    )
    escaped = (
        r"\<img src=x onerror=alert(1)> \[a\](http://b) \*\*c\*\* \`d\` # e"
    )
    body = text.split("\n---\n", 1)[1]
    assert f"# BERT, text classification: {escaped}" in body.split("\n")
    assert ("newly initialized", escaped) in cells(text)
    assert ("precision", escaped) in cells(text)
    assert "<img" not in body.replace(r"\<img", "")
    data_of(text)


def test_names_cannot_break_the_tables(card):
    labels = ["a|b", "c\nd", "<e>", "*f*"] + [f"l{i}" for i in range(40)]
    text = card(metadata={"labels": labels, "task_name": "a: 'b' # c"})
    (shown,) = [row[1] for row in cells(text) if row[0] == "labels"]
    assert shown.startswith(r"a\|b, c d, \<e>, \*f\*, l0, ")
    assert shown.endswith(", l25") and ("num_labels", "44") in cells(text)
    data_of(text)


def test_scores_that_are_no_numbers_are_left_to_the_text(card):
    text = card(results=RESULTS | {"dev": {"loss": math.nan, "accuracy": 1}})
    assert [x.metric_type for x in data_of(text).eval_results] == ["accuracy"]
    assert ("dev", "loss", "nan", "") in cells(text)


def test_an_undefined_score_is_in_the_text_with_the_reason(card, tmp_path):
    scores = {"loss": 0.5, "pearson": None, "spearman": 0.25}
    baseline = {"dev": {"pearson": None, "spearman": None}}
    results = RESULTS | {"dev": scores, "majority_baseline": baseline}
    results["best_metric"] = "spearman"
    text = card(results=results)
    metrics = [x.metric_type for x in data_of(text).eval_results]
    assert metrics == ["loss", "spearman"]
    assert ("dev", "pearson", "", "") in cells(text)
    reason = "missing where\nall predictions, or all labels, are the same."
    assert reason in text
    folder = make_run(tmp_path, run=RUN, eval_results=results)
    assert run_models.read_run(folder)["results"] == results


@pytest.mark.parametrize("license", ["Apache 2.0", "MIT", "", "-", "a\nb"])
def test_other_forms_of_licences_are_refused(license):
    with pytest.raises(ValueError, match="license=.*apache-2.0, mit"):
        model_card.check_license(license)


# Runs.


@pytest.mark.parametrize(
    ("inside", "step", "found"),
    [
        ("best", 7, {"run": RUN, "results": RESULTS}),
        ("checkpoints/step-00000007", 7, {"run": RUN, "results": RESULTS}),
        ("best", 6, {"run": RUN}),  # Scores of another step.
        ("model", 7, {}),
    ],
)
def test_a_model_in_a_run_has_its_settings_and_scores(
    tmp_path, inside, step, found
):
    results = RESULTS | {"step": step}
    folder = make_run(tmp_path, inside, run=RUN, eval_results=results)
    assert run_models.read_run(folder) == found


@pytest.mark.parametrize(
    "changes",
    [
        {"dev": {"accuracy": "high"}},
        {"dev": 0.5},
        {"majority_baseline": [0.5]},
        {"majority_baseline": {"dev": 0.5}},
        {"majority_baseline": {"dev": {"accuracy": "low"}}},
    ],
)
def test_damaged_scores_are_refused(tmp_path, changes):
    folder = make_run(tmp_path, run=RUN, eval_results=RESULTS | changes)
    with pytest.raises(
        ValueError, match="eval_results.json.*(dev|majority_baseline)"
    ):
        run_models.read_run(folder)


# Conversions.


def test_a_conversion_of_a_run_has_its_scores(tmp_path):
    make_run(tmp_path / "run", run=RUN, eval_results=RESULTS)
    for name, words in (("once", {}), ("erf", {"hidden_act": "gelu_erf"})):
        path = str(tmp_path / name)
        source = str(tmp_path / "run")
        conversion.convert(source, "bert_tf", path, **words)
        data = data_of((tmp_path / name / "README.md").read_text("utf-8"))
        # Of the other activation the scores are not known.
        assert (data.eval_results is None) == (name == "erf")


def test_only_our_own_card_is_replaced(tmp_path, make_checkpoint):
    source = write(make_checkpoint("regression"), tmp_path / "source")
    target = tmp_path / "target"
    conversion.convert(source, "google", str(target))
    again = dict(overwrite=True)
    conversion.convert(source, "hugging_face", str(target), **again)
    assert "format hugging_face" in (target / "README.md").read_text("utf-8")
    (target / "README.md").write_text("My notes.")
    with pytest.raises(ValueError, match="contains README.md, which a conv"):
        conversion.convert(source, "google", str(target), **again)
    assert (target / "README.md").read_text() == "My notes."


def test_an_invalid_licence_is_refused_before_anything_is_written(
    tmp_path, make_checkpoint
):
    source = write(make_checkpoint("regression"), tmp_path / "source")
    for call in (
        lambda path: conversion.convert(source, "google", path, license="A B"),
        lambda path: bert_tf.save(bert_tf.load(source)[0], path, license="A B"),
    ):
        with pytest.raises(ValueError, match="license='A B' should"):
            call(str(tmp_path / "target"))
    assert os.listdir(tmp_path) == ["source"]


@pytest.mark.parametrize("name", ["bert_tf", "hugging_face"])
def test_saved_models_have_a_card(tmp_path, name):
    folder = make_run(tmp_path / "run", run=RUN, eval_results=RESULTS)
    model, _ = bert_tf.load(folder)
    bert_tf.save(model, tmp_path / "saved", format=name, license="other")
    text = (tmp_path / "saved/README.md").read_text("utf-8")
    assert data_of(text).license == "other"
    assert "Data and settings are not known" in text


def test_a_converted_folder_with_a_step_may_have_its_card_edited(
    tmp_path, make_checkpoint
):
    given = dataclasses.replace(make_checkpoint("regression"), step=3)
    source = write(given, tmp_path / "source")
    target = tmp_path / "target"
    conversion.convert(source, "bert_tf", str(target))
    assert (target / "state.json").is_file()
    (target / "README.md").write_text("Mine.")
    assert model_folders.read(str(target)).step == 3

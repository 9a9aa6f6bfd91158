"""Facts of kinds: which a model has, and what each needs."""

import dataclasses

import pytest
from absl import flags

from bert_tf import config
from bert_tf.export import kinds as export_kinds
from bert_tf.model import models
from bert_tf.training import model_folders
from run_scripts.flags import export_flags

CONFIG = config.BertConfig(vocab_size=100)


def values(*words):
    found = flags.FlagValues()
    export_flags.define(found, export_kinds.NEEDED)
    found(["export", *words])
    return found


def test_every_task_has_a_kind_of_its_own():
    assert set(export_kinds.KINDS) == set(models.TASK_MODELS)
    first = [kinds[0] for kinds in export_kinds.KINDS.values()]
    assert len(set(first)) == len(first)
    for kinds in export_kinds.KINDS.values():
        assert set(kinds) <= set(export_kinds.NEEDED)
        assert kinds[1:] == ("encoder", "sentence_embedding")


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ("spans", "question_answering"),
        ("tagging", "tagging"),
        ("multiple_choice", "multiple_choice"),
        ("pretraining", "fill_mask"),
    ],
)
def test_a_kind_is_told_by_the_task(task, kind):
    assert export_kinds.find_kind(values(), task, (), CONFIG) == kind
    head = export_kinds.NEEDED[kind][0] + "dense/kernel"
    assert export_kinds.find_kind(values(), task, (head,), CONFIG) == "encoder"
    with pytest.raises(
        ValueError, match=f"--kind={kind} does not fit .*{head}"
    ):
        export_kinds.find_kind(values(f"--kind={kind}"), task, (head,), CONFIG)


def test_without_a_pooler_only_what_reads_it_is_missing():
    pooler = (model_folders.POOLER + "kernel",)
    for task, kind in (
        ("classification", "encoder"),
        ("multiple_choice", "encoder"),
        ("spans", "question_answering"),
        ("tagging", "tagging"),
    ):
        assert export_kinds.find_kind(values(), task, pooler, CONFIG) == kind
    # An LSTM reads every token in its place.
    lstm = dataclasses.replace(CONFIG, bilstm_units=8)
    found = export_kinds.find_kind(values(), "classification", pooler, lstm)
    assert found == "classification"


def test_a_question_must_leave_place_for_its_passage():
    def make(*words):
        model = tokenizer = None  # Neither is looked at.
        return export_kinds.make(
            values(*words), "question_answering", model, tokenizer, 16, {}
        )

    message = "--max_query_length={} leaves .* in --max_seq_length=16"
    for words, length in (
        ((), 64),
        (("--max_query_length=13",), 13),
    ):
        with pytest.raises(ValueError, match=message.format(length)):
            make(*words)
    assert "text" in make("--max_query_length=12").signatures


def test_any_model_gives_embeddings():
    for task in export_kinds.KINDS:
        wanted = values("--kind=sentence_embedding")
        assert (
            export_kinds.find_kind(wanted, task, (), CONFIG)
            == "sentence_embedding"
        )

"""Entries of model.json -> formats that lack them, and back: answers stay."""

import logging

import pytest
from checkpoint_folders import VOCABULARY, write

from bert_tf.checkpoint import detection

ENTRIES = {
    "spans": {
        "version_2_with_negative": True,
        "null_score_diff_threshold": 0.0,
        "doc_stride": 40,
        "max_query_length": 10,
        "n_best_size": 5,
        "max_answer_length": 12,
    },
    "tagging": {"tag_scheme": "bilou", "doc_stride": 7},
    "regression": {"score_range": [0.0, 5.0], "ranking_loss": "binary"},
    "multi_label": {"thresholds": [0.125, 0.25, 0.5]},
}


@pytest.mark.parametrize(
    ("name", "task"),
    [
        *(("hugging_face", task) for task in ENTRIES),
        *(("keras_hub", task) for task in ("regression", "multi_label")),
    ],
)
def test_entries_that_decide_answers_are_kept(
    tmp_path, make_checkpoint, caplog, name, task
):
    metadata = {"max_seq_length": 16} | ENTRIES[task]
    given = make_checkpoint(
        task, vocabulary=VOCABULARY, do_lower_case=True, metadata=metadata
    )
    with caplog.at_level(logging.WARNING, logger="absl"):
        folder = write(given, tmp_path / "model", name)
    found = detection.format_module(name).read(folder)
    assert found.metadata.items() >= metadata.items()
    if name == "hugging_face":  # Whose own readers have other answers.
        (named,) = [x for x in caplog.messages if "cannot hold" in x]
        assert all(entry in named for entry in ENTRIES[task])

"""Facts of weights that nobody trained."""

import dataclasses

import pytest

from bert_tf.training import model_folders, newly_initialized
from tfrecords.io import atomic_files

POOLER = (newly_initialized.POOLER,)
PAPER = {"untrained": list(POOLER)}


def test_only_pairs_train_the_pooler_of_a_pretraining(tiny_config):
    def find(task, is_causal=False, **papers):
        config = dataclasses.replace(tiny_config, is_causal=is_causal)
        return newly_initialized.find({"task": task} | papers, config)

    assert find("pretraining") == ()
    assert find("pretraining", pairs="sentence_order") == ()
    assert find("pretraining", pairs="none") == POOLER
    assert find("pretraining", is_causal=True) == POOLER
    # Fine-tuning trains it, whatever the encoder was pre-trained on.
    assert find("classification", is_causal=True) == ()
    assert find("regression", not_in_source=["a"]) == ("a",)
    assert find("tagging", not_in_source=["a"], **PAPER) == ("a", *POOLER)


@pytest.fixture
def folder_of(tmp_path, tiny_config):
    """Description -> a folder with the papers of a model, and no weights."""

    def write(**description):
        path = tmp_path / "bert_config.json"
        tiny_config.to_json_file(path)
        atomic_files.write_json(
            str(tmp_path / model_folders.DESCRIPTION), description
        )
        return str(tmp_path)

    return write


def test_tags_and_answers_leave_the_pooler_as_it_was(folder_of, tiny_config):
    def after(task, source, **sizes):
        config = dataclasses.replace(tiny_config, **sizes)
        return newly_initialized.after_fine_tuning(task, config, source)

    for task in ("tagging", "spans"):
        assert after(task, None) == PAPER
        assert after(task, folder_of(task="pretraining")) == {}
        assert after(task, folder_of(task="classification")) == {}
        alone = folder_of(task="pretraining", pairs="none")
        assert after(task, alone) == PAPER
        assert after(task, folder_of(task="spans", **PAPER)) == PAPER
        lacking = folder_of(
            task="tagging", not_in_source=["encoder/pooler/kernel"]
        )
        assert after(task, lacking) == PAPER
    for task in ("classification", "regression", "multiple_choice"):
        assert after(task, None) == {}
        assert after(task, alone) == {}
        assert after(task, alone, bilstm_units=4) == PAPER

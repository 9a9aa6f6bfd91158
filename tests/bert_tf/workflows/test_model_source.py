"""Where a model comes from -> its config, first weights and vocabulary."""

import dataclasses
import json
import logging as python_logging

import numpy as np
import pytest

from bert_tf import config
from bert_tf.conversion import checkpoint, google
from bert_tf.model import models
from bert_tf.training import model_folders
from bert_tf.workflows import model_source
from bert_tf.workflows.configs import ModelSource
from tfrecords.io import atomic_files


def write_google(folder, sizes, vocabulary=b"[PAD]\n[UNK]\nthe\nof\n"):
    """A TF1 checkpoint of a pre-trainer, its weights all different."""
    model = models.BertPretrainer(sizes)
    given = checkpoint.Checkpoint(
        source="test",
        config=sizes,
        task="pretraining",
        tensors={
            name: weight.numpy() + 0.01 * i
            for i, (name, weight) in enumerate(
                model_folders.weight_names(model).items()
            )
        },
        vocabulary=vocabulary,
    )
    with atomic_files.atomic_folder(str(folder)) as aside:
        google.write(given, aside)
    return given


def test_a_config_comes_from_a_file_a_name_or_the_model(tiny_config, tmp_path):
    path = tmp_path / "bert_config.json"
    tiny_config.to_json_file(path)
    source = ModelSource(bert_config_file=str(path))
    assert model_source.find_config(source, 100, None) == tiny_config
    found = model_source.find_config(ModelSource(), None, str(tmp_path))
    assert found == tiny_config
    source = ModelSource(bert_config_name="tiny")
    found = model_source.find_config(source, 77, str(tmp_path))
    assert found == config.BertConfig.from_name("tiny", vocab_size=77)
    found = model_source.find_config(source, None, None)
    assert found.vocab_size == config.UNCASED_VOCAB_SIZE


def test_a_config_file_that_says_another_activation_is_warned_of(
    tiny_config, tmp_path, caplog
):
    path = tmp_path / "other.json"
    tiny_config.to_json_file(path)
    erf = tiny_config.to_dict() | {"hidden_act": "gelu_erf"}
    (tmp_path / "bert_config.json").write_text(json.dumps(erf))
    source = ModelSource(bert_config_file=str(path))
    with caplog.at_level(python_logging.WARNING, logger="absl"):
        model_source.find_config(source, None, str(tmp_path))
    assert "hidden_act gelu; the weights were trained with gelu_erf" in (
        caplog.text
    )


def test_a_checkpoint_of_another_format_is_converted_once(
    tiny_config, tmp_path
):
    given = write_google(tmp_path / "google", tiny_config)
    source = ModelSource(init_checkpoint=str(tmp_path / "google"))
    output_dir = str(tmp_path / "run")
    folder = model_source.find_init_checkpoint(source, output_dir, True)
    assert folder == str(tmp_path / "run" / "init_checkpoint")
    found = checkpoint.read(folder)
    assert found.config == tiny_config
    for name, tensor in given.tensors.items():
        np.testing.assert_array_equal(found.tensors[name], tensor)
    vocab_file, do_lower_case = model_source.find_vocabulary(source, folder)
    assert vocab_file == f"{folder}/vocab.txt" and do_lower_case is True
    weights = tmp_path / "run" / "init_checkpoint" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    assert model_source.find_init_checkpoint(source, output_dir, True) == folder
    assert weights.stat().st_mtime_ns == before


def test_a_run_that_has_begun_keeps_the_model_it_began_with(
    tiny_config, tmp_path, caplog
):
    source, run = tmp_path / "google", tmp_path / "run"
    write_google(source, tiny_config)
    model = ModelSource(init_checkpoint=str(source))
    folder = model_source.find_init_checkpoint(model, str(run), True)
    write_google(source, tiny_config, b"[PAD]\n[UNK]\nother\n")
    step = run / "checkpoints" / "step-00000001"
    step.mkdir(parents=True)
    with caplog.at_level(python_logging.INFO, logger="absl"):
        assert (
            model_source.find_init_checkpoint(model, str(run), True) == folder
        )
    assert "which has changed since" in caplog.text
    assert b"of" in checkpoint.read(folder).vocabulary
    step.rmdir()
    assert model_source.find_init_checkpoint(model, str(run), True) == folder
    assert b"other" in checkpoint.read(folder).vocabulary


def test_without_the_flag_there_is_no_model_to_begin_with():
    assert model_source.find_init_checkpoint(ModelSource(), "run", True) is None
    assert model_source.find_vocabulary(ModelSource(), None) == (None, True)


# Mistakes.


def test_no_config_is_refused():
    with pytest.raises(ValueError, match="No model sizes: give --bert_config"):
        model_source.find_config(ModelSource(), None, None)


def test_two_configs_are_refused():
    source = ModelSource(bert_config_file="a.json", bert_config_name="tiny")
    with pytest.raises(ValueError, match="=a.json and .*=tiny: give only one"):
        model_source.find_config(source, None, None)


def test_a_vocabulary_larger_than_the_model_is_refused(tiny_config, tmp_path):
    tiny_config.to_json_file(tmp_path / "bert_config.json")
    message = "has 300 entries, the model only vocab_size=203. Use the vocab"
    with pytest.raises(ValueError, match=message):
        model_source.find_config(ModelSource(), 300, str(tmp_path))


def test_the_folder_of_another_run_is_left_as_it_was(tiny_config, tmp_path):
    write_google(tmp_path / "google", tiny_config)
    output = tmp_path / "run"
    (output / "checkpoints" / "step-00000001").mkdir(parents=True)
    (output / "run.json").write_text('{"init_checkpoint": "other"}')
    before = sorted(output.rglob("*"))
    source = ModelSource(init_checkpoint=str(tmp_path / "google"))
    output_dir = str(output)
    with pytest.raises(
        ValueError, match="another run:\n  init_checkpoint: 'ot"
    ):
        model_source.find_init_checkpoint(source, output_dir, True)
    assert sorted(output.rglob("*")) == before


def test_a_flag_wins_over_a_guess_of_the_case(tiny_config, tmp_path, caplog):
    thai = "[PAD]\n[UNK]\nน้ำ\n".encode()
    write_google(tmp_path / "google", tiny_config, thai)
    source = ModelSource(init_checkpoint=str(tmp_path / "google"))
    output_dir = str(tmp_path / "run")
    folder = model_source.find_init_checkpoint(source, output_dir, True)
    assert model_source.find_vocabulary(source, folder)[1] is False
    assert "is taken" not in caplog.text
    source = dataclasses.replace(source, do_lower_case=True)
    with caplog.at_level(python_logging.WARNING, logger="absl"):
        assert model_source.find_vocabulary(source, folder)[1] is True
    assert "--do_lower_case=True is taken; False of " in caplog.text


def test_the_wrong_case_is_refused(tiny_config, tmp_path):
    capitals = b"[PAD]\n[UNK]\nThe\nOf\n"
    write_google(tmp_path / "google", tiny_config, capitals)
    source = ModelSource(init_checkpoint=str(tmp_path / "google"))
    output_dir = str(tmp_path / "run")
    folder = model_source.find_init_checkpoint(source, output_dir, True)
    assert model_source.find_vocabulary(source, folder)[1] is False
    # As of a source that says so.
    path = tmp_path / "run" / "init_checkpoint" / "model.json"
    description = json.loads(path.read_text())
    assert description.pop("do_lower_case_inferred") is True
    path.write_text(json.dumps(description))
    source = dataclasses.replace(source, do_lower_case=True)
    with pytest.raises(ValueError, match="was trained with False. Omit the"):
        model_source.find_vocabulary(source, folder)

"""ModelSource -> config, initial weights and vocabulary."""

import dataclasses
import json
import logging as python_logging

import numpy as np
import pytest

from bert_tf import config
from bert_tf.checkpoint import checkpoint, model_folders
from bert_tf.checkpoint.google import tf1_checkpoint
from bert_tf.model import models
from bert_tf.workflows import model_source
from bert_tf.workflows.configs import ModelSource
from tfrecords.io import atomic_files

UNCASED, CASED = {"do_lower_case": True}, {"do_lower_case": False}


def write_google(folder, sizes, vocabulary=b"[PAD]\n[UNK]\nthe\nof\n"):
    """Writes a TF1 checkpoint of a BertPretrainer with different weights."""
    model = models.BertPretrainer(sizes)
    written = checkpoint.Checkpoint(
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
    with atomic_files.atomic_folder(str(folder)) as temporary:
        tf1_checkpoint.write(written, temporary)
    return written


def test_a_config_comes_from_a_file_a_name_or_the_model(tiny_config, tmp_path):
    path = tmp_path / "bert_config.json"
    tiny_config.to_json_file(path)
    source = ModelSource(bert_config_file=str(path))
    assert model_source.find_config(source, 100, None) == tiny_config
    result = model_source.find_config(ModelSource(), None, str(tmp_path))
    assert result == tiny_config
    source = ModelSource(bert_config_name="tiny")
    result = model_source.find_config(source, 77, str(tmp_path))
    assert result == config.BertConfig.from_name("tiny", vocab_size=77)
    result = model_source.find_config(source, None, None)
    assert result.vocab_size == config.UNCASED_VOCAB_SIZE


def test_a_config_file_with_another_activation_logs_a_warning(
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
    written = write_google(tmp_path / "google", tiny_config)
    source = ModelSource(init_checkpoint=str(tmp_path / "google"))
    output_dir = str(tmp_path / "run")
    folder = model_source.find_init_checkpoint(source, output_dir, True)
    assert folder == str(tmp_path / "run" / "init_checkpoint")
    converted = checkpoint.read(folder)
    assert converted.config == tiny_config
    for name, tensor in written.tensors.items():
        np.testing.assert_array_equal(converted.tensors[name], tensor)
    assert model_source.find_vocabulary(source, folder) == (
        f"{folder}/vocab.txt",
        {"do_lower_case": True},
    )
    weights = tmp_path / "run" / "init_checkpoint" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    assert model_source.find_init_checkpoint(source, output_dir, True) == folder
    assert weights.stat().st_mtime_ns == before


def test_a_run_with_checkpoints_keeps_its_initial_model(
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


def test_without_init_checkpoint_there_is_no_initial_model():
    assert model_source.find_init_checkpoint(ModelSource(), "run", True) is None
    assert model_source.find_rules(ModelSource(), {}) == {"do_lower_case": True}


# Errors.


def test_a_missing_config_is_rejected():
    with pytest.raises(ValueError, match="No model sizes: give --bert_config"):
        model_source.find_config(ModelSource(), None, None)


def test_two_configs_are_rejected():
    source = ModelSource(bert_config_file="a.json", bert_config_name="tiny")
    with pytest.raises(ValueError, match="=a.json and .*=tiny: give only one"):
        model_source.find_config(source, None, None)


def test_a_vocabulary_larger_than_the_model_is_rejected(tiny_config, tmp_path):
    tiny_config.to_json_file(tmp_path / "bert_config.json")
    message = "has 300 tokens, the model only vocab_size=203. Use the vocab"
    with pytest.raises(ValueError, match=message):
        model_source.find_config(ModelSource(), 300, str(tmp_path))


def test_the_folder_of_another_run_is_not_changed(tiny_config, tmp_path):
    write_google(tmp_path / "google", tiny_config)
    output = tmp_path / "run"
    (output / "checkpoints" / "step-00000001").mkdir(parents=True)
    (output / "run.json").write_text('{"init_checkpoint": "other"}')
    before = sorted(output.rglob("*"))
    source = ModelSource(init_checkpoint=str(tmp_path / "google"))
    output_dir = str(output)
    with pytest.raises(
        ValueError, match="settings:\n  init_checkpoint: was 'ot"
    ):
        model_source.find_init_checkpoint(source, output_dir, True)
    assert sorted(output.rglob("*")) == before


def test_a_flag_overrides_an_inferred_case(tiny_config, tmp_path, caplog):
    thai = "[PAD]\n[UNK]\nน้ำ\n".encode()
    write_google(tmp_path / "google", tiny_config, thai)
    source = ModelSource(init_checkpoint=str(tmp_path / "google"))
    output_dir = str(tmp_path / "run")
    folder = model_source.find_init_checkpoint(source, output_dir, True)
    assert model_source.find_rules(source, {}, folder) == CASED
    assert "using do_lower_case" not in caplog.text
    source = dataclasses.replace(source, do_lower_case=True)
    with caplog.at_level(python_logging.WARNING, logger="absl"):
        assert model_source.find_rules(source, {}, folder) == UNCASED
    assert "using do_lower_case=True; that of " in caplog.text


def test_a_case_that_contradicts_the_model_is_rejected(tiny_config, tmp_path):
    capitals = b"[PAD]\n[UNK]\nThe\nOf\n"
    write_google(tmp_path / "google", tiny_config, capitals)
    source = ModelSource(init_checkpoint=str(tmp_path / "google"))
    output_dir = str(tmp_path / "run")
    folder = model_source.find_init_checkpoint(source, output_dir, True)
    assert model_source.find_rules(source, {}, folder) == CASED
    # As if the source had specified the case.
    path = tmp_path / "run" / "init_checkpoint" / "model.json"
    metadata = json.loads(path.read_text())
    assert metadata.pop("do_lower_case_inferred") is True
    path.write_text(json.dumps(metadata))
    source = dataclasses.replace(source, do_lower_case=True)
    with pytest.raises(ValueError, match="=False. Use one value: omit the"):
        model_source.find_vocabulary(source, folder)


def test_the_case_of_records_is_the_default_and_is_not_overridden():
    source = ModelSource()
    assert model_source.find_vocabulary(source, None, CASED) == (None, CASED)
    source = ModelSource(do_lower_case=True)
    assert model_source.find_vocabulary(source, None) == (None, UNCASED)
    with pytest.raises(ValueError, match="made with do_lower_case=False. Use"):
        model_source.find_vocabulary(source, None, CASED)


def test_records_of_another_case_than_the_model_are_rejected(tmp_path):
    (tmp_path / "model.json").write_text(
        '{"task": "spans", "do_lower_case": true}'
    )
    path = str(tmp_path)
    message = "made with do_lower_case=False, but .* with do_lower_case=True. "
    with pytest.raises(ValueError, match=f"{message}Use one value: make them"):
        model_source.find_vocabulary(ModelSource(), path, CASED)
    # Both corrections are named at once.
    cased = ModelSource(do_lower_case=False)
    message = "^--do_lower_case=False, but .*: omit the flag, or make them ag"
    with pytest.raises(ValueError, match=f"{message}ain, or correct .*.json"):
        model_source.find_rules(cased, CASED, path)
    message = "^--do_lower_case=False, but .*=True and .* with .*=True. Use"
    with pytest.raises(ValueError, match=message):
        model_source.find_rules(cased, UNCASED, path)


def test_accents_and_chinese_characters_have_the_values_of_all(tmp_path):
    (tmp_path / "model.json").write_text(
        '{"task": "spans", "do_lower_case": true, "strip_accents": false}'
    )
    path = str(tmp_path)
    accents = UNCASED | {"strip_accents": False}
    assert model_source.find_rules(ModelSource(), {}, path) == accents
    source = ModelSource(strip_accents=False, tokenize_chinese_chars=True)
    assert model_source.find_rules(source, accents, path) == accents
    # What records or a model do not mention has the original's value.
    message = "made with strip_accents=True, but .* with strip_accents=False. "
    with pytest.raises(ValueError, match=message):
        model_source.find_rules(ModelSource(), UNCASED, path)
    source = ModelSource(tokenize_chinese_chars=False)
    message = "^--tokenize_chinese_chars=False, but .* was trained with token"
    with pytest.raises(ValueError, match=message):
        model_source.find_rules(source, {}, path)
    assert model_source.find_rules(source, {}) == UNCASED | {
        "tokenize_chinese_chars": False
    }
    # Of a case that was inferred, nothing more is known.
    (tmp_path / "model.json").write_text(
        '{"task": "spans", "do_lower_case": false, '
        '"do_lower_case_inferred": true}'
    )
    source = ModelSource(do_lower_case=True, strip_accents=False)
    assert model_source.find_rules(source, {}, path) == accents


def test_a_vocabulary_may_lack_its_last_newline(tiny_config, tmp_path):
    entries = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe"
    write_google(tmp_path / "google", tiny_config, entries)
    given = tmp_path / "vocab.txt"
    given.write_bytes(entries)
    source = ModelSource(
        init_checkpoint=str(tmp_path / "google"), vocab_file=str(given)
    )
    folder = model_source.find_init_checkpoint(
        source, str(tmp_path / "run"), True
    )
    assert model_source.find_vocabulary(source, folder)[0] == str(given)


def test_unused_entries_may_be_replaced_and_no_others(
    tiny_config, tmp_path, caplog
):
    lines = b"[PAD]\n[unused0]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n[unused1]\nthe\n"
    write_google(tmp_path / "google", tiny_config, lines)
    given = ModelSource(init_checkpoint=str(tmp_path / "google"))
    run = str(tmp_path / "run")
    folder = model_source.find_init_checkpoint(given, run, True)
    path = tmp_path / "vocab.txt"
    source = ModelSource(vocab_file=str(path))
    path.write_bytes(lines.replace(b"[unused0]", b"anfield"))
    assert model_source.find_vocabulary(source, folder)[0] == str(path)
    assert (
        "replaces 1 [unused] entries of the model, such as [unused0] by "
        "'anfield'" in caplog.text
    )
    message = (
        r"3 entries differ, the first is 'a' instead of '\[MASK\]' on line 6. "
        r"Only \[unused\] entries may be replaced. Omit the flag to use the"
    )
    path.write_bytes(lines.replace(b"[MASK]", b"a") + b"[MASK]\nof\n")
    with pytest.raises(ValueError, match=message):
        model_source.find_vocabulary(source, folder)

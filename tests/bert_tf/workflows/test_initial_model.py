"""ModelSource -> model to start from, its config and vocabulary."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from bert_tf import config
from bert_tf.checkpoint import contents, model_folders
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.checkpoint.formats.google import tf1_checkpoint
from bert_tf.model import models
from bert_tf.training.run_folder import RunFolder
from bert_tf.workflows import initial_model
from bert_tf.workflows.configs import ModelSource
from tfrecords.io import atomic_files
from tfrecords.text import vocab

UNCASED, CASED = {"do_lower_case": True}, {"do_lower_case": False}


def write_google(folder, sizes, vocabulary=b"[PAD]\n[UNK]\nthe\nof\n"):
    """Writes a TF1 checkpoint of a BertPretrainer with different weights."""
    model = models.BertPretrainer(sizes)
    written = contents.Contents(
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


@pytest.fixture
def open_google(tiny_config, tmp_path):
    """Vocabulary -> flags that start from a TF1 checkpoint, the model."""

    def opened(vocabulary):
        write_google(tmp_path / "google", tiny_config, vocabulary)
        source = ModelSource(init_checkpoint=str(tmp_path / "google"))
        run = str(tmp_path / "run")
        return source, initial_model.open_model(source, RunFolder(run), True)

    return opened


def model_with(
    sizes=None, do_lower_case=None, is_case_inferred=False, **metadata
):
    """Returns a Checkpoint without weights."""
    return Checkpoint(
        source="bert_tf somewhere",
        config=sizes or config.BertConfig.from_name("tiny"),
        task="spans",
        tensors={},
        do_lower_case=do_lower_case,
        is_case_inferred=is_case_inferred,
        metadata=metadata,
    )


def test_a_config_comes_from_a_file_a_name_or_the_model(tiny_config, tmp_path):
    path = tmp_path / "bert_config.json"
    tiny_config.to_json_file(path)
    source = ModelSource(bert_config_file=str(path))
    assert initial_model.choose_config(source, 100, None) == tiny_config
    model = model_with(tiny_config)
    result = initial_model.choose_config(ModelSource(), None, model)
    assert result == tiny_config
    source = ModelSource(bert_config_name="tiny")
    result = initial_model.choose_config(source, 77, model)
    assert result == config.BertConfig.from_name("tiny", vocab_size=77)
    result = initial_model.choose_config(source, None, None)
    assert result.vocab_size == config.UNCASED_VOCAB_SIZE


def test_a_config_file_with_another_activation_logs_a_warning(
    tiny_config, tmp_path, caplog
):
    path = tmp_path / "other.json"
    tiny_config.to_json_file(path)
    erf = dataclasses.replace(tiny_config, hidden_act="gelu_erf")
    source = ModelSource(bert_config_file=str(path))
    initial_model.choose_config(source, None, model_with(erf))
    assert "hidden_act gelu; the weights were trained with gelu_erf" in (
        caplog.text
    )


def checkpoint_of_run(output, sizes, vocabulary):
    """Writes a checkpoint of a run after its first update."""
    folder = output / "checkpoints" / "step-00000001"
    folder.parent.mkdir(parents=True, exist_ok=True)
    model = models.BertPretrainer(sizes)
    with atomic_files.atomic_folder(str(folder)) as aside:
        model_folders.save_model(
            aside,
            model,
            metadata={"task": "pretraining", "do_lower_case": True},
            vocabulary=vocabulary,
        )
    return model_folders.weight_names(model)


def test_a_run_with_checkpoints_reads_its_own(tiny_config, tmp_path, caplog):
    source, run = tmp_path / "google", tmp_path / "run"
    write_google(source, tiny_config)
    given, folder = (
        ModelSource(init_checkpoint=str(source)),
        RunFolder(str(run)),
    )
    model = initial_model.open_model(given, folder, True)
    began_with = initial_model.identity(model, given, folder)
    assert began_with == {"init_checkpoint_sha256": model.sha256()}
    run.mkdir()
    run_json = began_with | {"init_checkpoint": str(source)}
    (run / "run.json").write_text(json.dumps(run_json))
    assert (
        initial_model.identity(model, given, RunFolder(str(run))) == began_with
    )
    assert "has changed" not in caplog.text
    # Before its first checkpoint, the run begins again with new weights.
    write_google(source, tiny_config)
    model = initial_model.open_model(given, folder, True)
    changed = initial_model.identity(model, given, folder)
    assert changed == {"init_checkpoint_sha256": model.sha256()} != began_with
    assert f"{source} has changed since this run was started" in caplog.text
    # Afterwards, its own files count, and the source may be gone.
    weights = checkpoint_of_run(run, tiny_config, b"its own\n")
    shutil.rmtree(source)
    model = initial_model.open_model(given, RunFolder(str(run)), True)
    assert model.config == tiny_config and model.vocabulary == b"its own\n"
    for name, weight in weights.items():
        np.testing.assert_array_equal(model.tensors[name], weight)
    assert (
        initial_model.identity(model, given, RunFolder(str(run))) == began_with
    )


def test_a_run_that_resumes_does_not_open_its_weights(tiny_config, tmp_path):
    # They may be damaged: the checkpoint before is used then. The task may be
    # of a class that is not ours.
    checkpoint_of_run(tmp_path, tiny_config, b"its own\n")
    folder = tmp_path / "checkpoints/step-00000001"
    (folder / "model.safetensors").write_bytes(b"damaged")
    (folder / "model.json").write_text('{"task": "mine", "labels": ["a"]}')
    source = ModelSource(init_checkpoint=str(tmp_path / "gone"))
    model = initial_model.open_model(source, RunFolder(str(tmp_path)), True)
    assert (model.task, model.labels) == ("mine", ("a",))
    assert model.vocabulary == b"its own\n"
    with pytest.raises(ValueError, match="model.safetensors is missing or dam"):
        model.tensors["encoder/pooler/bias"]


def test_a_faulty_model_of_the_run_is_not_replaced_by_another(
    tiny_config, tmp_path
):
    write_google(tmp_path / "google", tiny_config)
    run = tmp_path / "run"
    checkpoint_of_run(run, tiny_config, b"its own\n")
    metadata = run / "checkpoints/step-00000001/model.json"
    metadata.write_text('{"task": "other"}')
    source = ModelSource(init_checkpoint=str(tmp_path / "google"))
    with pytest.raises(ValueError, match="model.json has task 'other'"):
        initial_model.open_model(source, RunFolder(str(run)), False)


def test_missing_heads_are_newly_initialized_with_a_warning(
    tiny_config, tmp_path, caplog
):
    written = write_google(tmp_path / "google", tiny_config)
    bare = dataclasses.replace(written, tensors=written.without_head().tensors)
    with atomic_files.atomic_folder(str(tmp_path / "google")) as aside:
        tf1_checkpoint.write(bare, aside)
    model = models.BertPretrainer(tiny_config)
    before = model.masked_lm.transform.kernel.numpy()
    source = ModelSource(init_checkpoint=str(tmp_path / "google"))
    given = initial_model.open_model(
        source, RunFolder(str(tmp_path / "run")), True
    )
    initial_model.load_initial_weights(given, model)
    assert "google has no masked_lm/bias" in caplog.text
    np.testing.assert_array_equal(model.masked_lm.transform.kernel, before)
    for name, weight in model_folders.weight_names(model).items():
        if name.startswith("encoder/"):
            np.testing.assert_array_equal(weight, written.tensors[name], name)
    caplog.clear()
    initial_model.load_initial_weights(given, model.encoder)
    assert not caplog.text


# Errors.


@pytest.mark.parametrize(
    ("flags", "model", "message"),
    [
        ({}, None, "No model sizes: give --bert_config"),
        (
            {"bert_config_file": "a.json", "bert_config_name": "tiny"},
            None,
            "=a.json and .*=tiny: give only one",
        ),
        (
            {},
            model_with(config.BertConfig(vocab_size=203)),
            "has 300 tokens, the model only vocab_size=203. Use the vocab",
        ),
    ],
)
def test_a_config_that_is_missing_or_contradicted_is_refused(
    flags, model, message
):
    with pytest.raises(ValueError, match=message):
        initial_model.choose_config(ModelSource(**flags), 300, model)


def test_the_folder_of_another_run_is_not_changed(tiny_config, tmp_path):
    write_google(tmp_path / "google", tiny_config)
    output = tmp_path / "run"
    (output / "checkpoints" / "step-00000001").mkdir(parents=True)
    (output / "run.json").write_text('{"init_checkpoint": "other"}')
    before = sorted(output.rglob("*"))
    source = ModelSource(init_checkpoint=str(tmp_path / "google"))
    message = "settings:\n  init_checkpoint: was 'ot"
    with pytest.raises(ValueError, match=message):
        initial_model.open_model(source, RunFolder(str(output)), True)
    assert sorted(output.rglob("*")) == before


def test_a_flag_overrides_an_inferred_case(open_google, caplog):
    source, model = open_google("[PAD]\n[UNK]\nน้ำ\n".encode())
    assert initial_model.choose_rules(source, {}, model) == CASED
    assert "using do_lower_case" not in caplog.text
    source = dataclasses.replace(source, do_lower_case=True)
    assert initial_model.choose_rules(source, {}, model) == UNCASED
    assert "using do_lower_case=True; that of " in caplog.text


def test_a_case_that_contradicts_the_model_is_rejected(open_google):
    source, model = open_google(b"[PAD]\n[UNK]\nThe\nOf\n")
    assert initial_model.choose_rules(source, {}, model) == CASED
    # As if the source had specified the case.
    model = dataclasses.replace(model, is_case_inferred=False)
    source = dataclasses.replace(source, do_lower_case=True)
    with pytest.raises(ValueError, match="=False. Use one value: omit the"):
        initial_model.choose_vocabulary(source, model)


def test_the_case_of_records_is_the_default():
    source = ModelSource()
    assert initial_model.choose_vocabulary(source, None, CASED) == (None, CASED)
    source = ModelSource(do_lower_case=True)
    assert initial_model.choose_vocabulary(source, None) == (None, UNCASED)


def test_records_of_another_case_than_the_model_are_rejected():
    model = model_with(do_lower_case=True)
    message = "made with do_lower_case=False, but .* with do_lower_case=True. "
    with pytest.raises(ValueError, match=f"{message}Use one value: make them"):
        initial_model.choose_vocabulary(ModelSource(), model, CASED)
    # Both corrections are named at once.
    cased = ModelSource(do_lower_case=False)
    message = "^--do_lower_case=False, but .*: omit the flag, or make them ag"
    with pytest.raises(
        ValueError, match=f"{message}ain, or correct do_lower_case in somewh"
    ):
        initial_model.choose_rules(cased, CASED, model)
    message = "^--do_lower_case=False, but .*=True and .* with .*=True. Use"
    with pytest.raises(ValueError, match=message):
        initial_model.choose_rules(cased, UNCASED, model)


def test_accents_and_chinese_characters_have_the_values_of_all():
    model = model_with(do_lower_case=True, strip_accents=False)
    accents = UNCASED | {"strip_accents": False}
    assert initial_model.choose_rules(ModelSource(), {}, model) == accents
    source = ModelSource(strip_accents=False, tokenize_chinese_chars=True)
    assert initial_model.choose_rules(source, accents, model) == accents
    # What records or a model do not mention has the original's value.
    message = "made with strip_accents=True, but .* with strip_accents=False. "
    with pytest.raises(ValueError, match=message):
        initial_model.choose_rules(ModelSource(), UNCASED, model)
    source = ModelSource(tokenize_chinese_chars=False)
    message = "^--tokenize_chinese_chars=False, but .* was trained with token"
    with pytest.raises(ValueError, match=message):
        initial_model.choose_rules(source, {}, model)
    assert initial_model.choose_rules(source, {}) == UNCASED | {
        "tokenize_chinese_chars": False
    }
    # Of a case that was inferred, nothing more is known.
    model = model_with(do_lower_case=False, is_case_inferred=True)
    source = ModelSource(do_lower_case=True, strip_accents=False)
    assert initial_model.choose_rules(source, {}, model) == accents


def test_records_decide_whether_special_tokens_are_split(caplog):
    kept = UNCASED | {"split_special_tokens": False}
    model = model_with(**kept)
    assert initial_model.choose_rules(ModelSource(), {}, model) == kept
    assert initial_model.choose_rules(ModelSource(), kept, model) == kept
    assert not caplog.text
    # Records of the first release do not mention it.
    assert initial_model.choose_rules(ModelSource(), UNCASED, model) == UNCASED
    assert "using split_special_tokens=True; that of some" in caplog.text
    model = model_with(**UNCASED)
    assert initial_model.choose_rules(ModelSource(), kept, model) == kept


def test_a_vocabulary_may_lack_its_last_newline(open_google, tmp_path):
    entries = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe"
    source, model = open_google(entries)
    given = tmp_path / "vocab.txt"
    given.write_bytes(entries)
    source = dataclasses.replace(source, vocab_file=str(given))
    vocabulary, _ = initial_model.choose_vocabulary(source, model)
    assert vocabulary == vocab.Vocabulary(entries, str(given))


def test_unused_entries_may_be_replaced_and_no_others(
    open_google, tmp_path, caplog
):
    lines = b"[PAD]\n[unused0]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n[unused1]\nthe\n"
    _, model = open_google(lines)
    path = tmp_path / "vocab.txt"
    source = ModelSource(vocab_file=str(path))
    path.write_bytes(lines.replace(b"[unused0]", b"anfield"))
    vocabulary, _ = initial_model.choose_vocabulary(source, model)
    assert vocabulary.path == str(path)
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
        initial_model.choose_vocabulary(source, model)

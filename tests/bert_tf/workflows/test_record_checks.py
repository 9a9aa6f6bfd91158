"""record_checks.py: diagnostics of records, vocabulary, model and memory."""

import dataclasses

import numpy as np
import planted_records as planted
import pytest

from bert_tf import config
from bert_tf.training import run_folder
from bert_tf.workflows import estimates, record_checks
from bert_tf.workflows.pretraining.config import PretrainingConfig
from tfrecords.io import records
from tfrecords.pretraining import packing
from tfrecords.text import vocab

SIZES = config.BertConfig(
    vocab_size=len(planted.UNCASED),
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=64,
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Valid records, and their vocabulary."""
    folder, vocab_file = planted.write(
        tmp_path_factory.mktemp("sound") / "train", planted.make_batch(200)
    )
    vocabulary = vocab.Vocabulary.open(vocab_file)
    return records.Records.open(folder), vocabulary


def training_of(output_dir="unused", **fields):
    return PretrainingConfig(
        output_dir=str(output_dir), train_batch_size=8, **fields
    )


def check_sizes(opened, sizes=SIZES, vocabulary=None, **flags):
    """Returns check and text of each diagnostic."""
    return [
        (diagnostic.check, diagnostic.text)
        for diagnostic in record_checks.check_sizes(
            opened, sizes, vocabulary, flags
        )
    ]


def test_matching_sizes_have_no_diagnostics(sound):
    opened, vocabulary = sound
    assert check_sizes(opened, SIZES, vocabulary, max_seq_length=32) == []
    assert check_sizes(opened, None, None) == []


def test_lengths_that_differ_from_flags_or_exceed_the_model(sound):
    opened, _ = sound
    ((name, text),) = check_sizes(opened, max_seq_length=64)
    assert name == "lengths"
    assert text.startswith("--max_seq_length=64, but the records were made")
    ((_, text),) = check_sizes(opened, max_predictions_per_seq=20)
    assert text.startswith("--max_predictions_per_seq=20")
    short = dataclasses.replace(SIZES, max_position_embeddings=16)
    ((name, text),) = check_sizes(opened, short)
    assert name == "lengths"
    assert "32 tokens" in text and "max_position_embeddings=16" in text


def test_records_that_contradict_their_manifest(tmp_path):
    planted.write(tmp_path / "train", planted.make_batch(20))
    manifest = records.Manifest.read(str(tmp_path / "train"))
    dataclasses.replace(
        manifest, sizes=planted.SIZES | {"max_seq_length": 48}
    ).write(str(tmp_path / "train"))
    opened = records.Records.open(str(tmp_path / "train"))
    ((name, text),) = check_sizes(opened)
    assert name == "lengths"
    assert "has 32 values" in text and "max_seq_length=48" in text
    diagnostics, statistics = record_checks.check_examples(
        opened, SIZES, None, None
    )
    assert statistics is None
    assert "not have the sizes" in diagnostics[0].text


def test_another_vocabulary(sound):
    opened, _ = sound
    entries = [*planted.UNCASED[:-1], "other"]
    other = vocab.Vocabulary(vocab.to_bytes(entries), "vocab.txt")
    ((name, text),) = check_sizes(opened, SIZES, other)
    assert name == "vocabulary" and "of sha256" in text
    small = dataclasses.replace(SIZES, vocab_size=100)
    ((name, text),) = check_sizes(opened, small)
    assert "made with 155 tokens; the model has vocab_size=100" in text


def test_segment_types_that_the_model_does_not_have(sound):
    opened, _ = sound
    one = dataclasses.replace(SIZES, type_vocab_size=1)
    diagnostics, _ = record_checks.check_examples(opened, one, None, None)
    (diagnostic,) = diagnostics
    message = "largest of input_type_ids is 1; the model has type_voc"
    assert message in diagnostic.text
    none = dataclasses.replace(SIZES, type_vocab_size=0)  # It ignores them.
    assert not record_checks.check_examples(opened, none, None, None)[0]


def test_an_invalid_vocabulary_is_a_diagnostic(sound):
    short = vocab.Vocabulary(b"[PAD]\n", "vocab.txt")
    diagnostics, statistics = record_checks.check_examples(
        sound[0], SIZES, short, None
    )
    assert [diagnostic.check for diagnostic in diagnostics] == ["vocabulary"]
    assert statistics.num_examples == 200


@pytest.mark.parametrize(
    "free, total, severities",
    [
        (0, 0, []),  # Unknown.
        (1e8, 1e10, ["warning"]),  # Other processes use it.
        (-1e8, 8e8, ["warning"]),  # An estimate of 0.8 GB may be wrong.
        (1e8, 1e8, ["error"]),
        (1e10, 1e10, []),
    ],
)
def test_memory_that_is_in_use_is_a_warning_and_too_little_an_error(
    sound, monkeypatch, free, total, severities
):
    step = record_checks.step_of(training_of(), SIZES, sound[0])
    assert (step.batch_size, step.max_predictions_per_seq) == (8, 5)
    memory = estimates.Memory("memory of this host", free, total)
    monkeypatch.setattr(estimates, "read_memory", lambda: memory)
    diagnostics = record_checks.check_memory(step)
    assert [diagnostic.severity for diagnostic in diagnostics] == severities
    for diagnostic in diagnostics:
        text = f"of this host, {free / 1e9:.1f} of {total / 1e9:.1f} GB are"
        assert f"{text} free. Raise --gradient" in diagnostic.text


def test_packed_rows_have_max_predictions_per_row(tmp_path):
    sizes = {
        "max_seq_length": 64,
        "max_predictions_per_seq": 5,
        "max_predictions_per_row": 10,
        "max_examples_per_row": 2,
    }
    rows = packing.join(planted.make_batch(8), np.full(4, 2), sizes)
    folder, _ = planted.write(
        tmp_path / "train", rows, sizes=sizes, schema_name="packed_pretraining"
    )
    opened = records.Records.open(folder)
    step = record_checks.step_of(training_of(), SIZES, opened)
    assert (step.task, step.max_predictions_per_seq) == ("pretraining", 10)


def refuse(folder_and_vocabulary, output_dir, **fields):
    folder, vocab_file = folder_and_vocabulary
    record_checks.refuse_bad_records(
        training_of(output_dir, **fields),
        run_folder.RunFolder(str(output_dir)),
        [records.Records.open(folder)],
        SIZES,
        vocab.Vocabulary.open(vocab_file),
    )


def test_bad_records_are_rejected_with_all_errors(tmp_path):
    batch = planted.make_batch(unk_share=0.05, random_next_share=0.0)
    bad = planted.write(tmp_path / "train", batch)
    with pytest.raises(ValueError) as caught:
        refuse(bad, tmp_path)
    lines = str(caught.value).splitlines()
    assert [line.split(": ")[1] for line in lines[:2]] == ["[UNK]", "pairs"]
    assert lines[0].startswith(str(tmp_path / "train"))
    assert lines[-1].endswith("--nodoctor skips this check.")
    refuse(bad, tmp_path, doctor=False)
    # A run that resumes is not checked.
    (tmp_path / "checkpoints/step-00000007").mkdir(parents=True)
    refuse(bad, tmp_path)


def test_warnings_are_logged_and_do_not_prevent_training(tmp_path, caplog):
    batch = planted.make_batch(random_next_share=0.82)
    with caplog.at_level("WARNING", logger="absl"):
        refuse(planted.write(tmp_path / "train", batch), tmp_path)
    assert "random next sentences" in caplog.text


def test_only_a_sample_is_read_before_training(sound, tmp_path, monkeypatch):
    monkeypatch.setattr(record_checks, "QUICK_EXAMPLES", 64)
    counts = []
    check = record_checks.check_examples

    def spy(*arguments):
        diagnostics, statistics = check(*arguments)
        counts.append(statistics.num_examples)
        return diagnostics, statistics

    monkeypatch.setattr(record_checks, "check_examples", spy)
    record_checks.refuse_bad_records(
        training_of(tmp_path),
        run_folder.RunFolder(str(tmp_path)),
        [sound[0]],
        SIZES,
        sound[1],
    )
    assert counts == [64]

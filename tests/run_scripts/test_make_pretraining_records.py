"""make_pretraining_records: text -> records, and bad input is named."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from absl import flags

from run_scripts import make_pretraining_records
from tfrecords import schema
from tfrecords.io import records
from tfrecords.reading import batches

TEXT = pathlib.Path(__file__).parents[1] / "data" / "sentences.txt"
SIZES = {"max_seq_length": 32, "max_predictions_per_seq": 5}


@pytest.fixture
def argv(tmp_path, tiny_vocab_file):
    return [
        "make_pretraining_records",
        f"--input_file={TEXT}",
        f"--vocab_file={tiny_vocab_file}",
        f"--output_dir={tmp_path / 'out'}",
        "--max_seq_length=32",
        "--max_predictions_per_seq=5",
        "--num_processes=1",
    ]


def test_token_files_left_by_a_kill_are_removed(argv, tmp_path):
    make_pretraining_records.main(argv)
    work = tmp_path / "out/work"
    work.mkdir()
    (work / "a.tokens").touch()
    make_pretraining_records.main(argv)
    assert not work.exists()


def test_text_becomes_batches(argv, tmp_path):
    make_pretraining_records.main([*argv, "--held_out_prob=0.2"])
    for name in ("train", "held_out"):
        found = records.Records.open(str(tmp_path / "out" / name))
        size = found.manifest.vocabulary["size"]
        found.check(schema.PRETRAINING, SIZES, size)
        dataset = batches.training_batches(
            found,
            schema.PRETRAINING,
            SIZES,
            batch_size=8,
            seed=1,
            vocab_size=size,
        )
        batch = next(iter(dataset))
        assert batch["input_word_ids"].shape == (8, 32)
    assert found.manifest.flags["dupe_factor"] == 10


def test_without_held_out_prob_only_train_is_written(argv, tmp_path):
    make_pretraining_records.main(argv)
    assert sorted(os.listdir(tmp_path / "out")) == ["progress.jsonl", "train"]


def test_the_originals_flags_are_accepted(argv, tmp_path):
    make_pretraining_records.main(
        [
            *argv,
            "--do_whole_word_mask",
            "--random_seed=3",
            "--dupe_factor=2",
            "--masked_lm_prob=0.2",
            "--short_seq_prob=0.5",
            "--nodo_lower_case",
        ]
    )
    made_with = records.Manifest.read(str(tmp_path / "out" / "train")).flags
    expected = {
        "do_whole_word_mask": True,
        "random_seed": 3,
        "dupe_factor": 2,
        "masked_lm_prob": 0.2,
        "short_seq_prob": 0.5,
        "do_lower_case": False,
        "max_seq_length": 32,
    }
    assert expected.items() <= made_with.items()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--pairs=none", "--mask_mix=mask:1"], "masked_lm"),
        (["--pairs=sentence_order", "--masking=spans"], "pretraining"),
        (["--masking_time=dynamic", "--masking=words"], "unmasked_pairs"),
        (["--masking_time=dynamic", "--pairs=none"], "unmasked_segments"),
    ],
)
def test_each_schema_can_be_batched(argv, tmp_path, words, name):
    make_pretraining_records.main([*argv, *words])
    found = records.Records.open(str(tmp_path / "out" / "train"))
    assert found.manifest.schema_name == name
    assert found.manifest.flags["dupe_factor"] == (
        1 if name.startswith("unmasked") else 10
    )
    found.check(schema.SCHEMAS[name], SIZES)
    features = schema.of_batch(name)
    dataset = batches.training_batches(
        found, features, SIZES, batch_size=4, seed=1, vocab_size=1000
    )
    batch = next(iter(dataset))
    assert set(batch) == {*features, "is_real_example"}
    assert batch["masked_lm_weights"].numpy().sum() >= 4


def test_other_flags_in_the_same_folder_are_refused(argv):
    make_pretraining_records.main(argv)
    with pytest.raises(ValueError, match="made with dupe_factor=10; now"):
        make_pretraining_records.main([*argv, "--dupe_factor=3"])


def test_a_missing_flag_is_named(argv):
    with pytest.raises(flags.Error, match="vocab_file"):
        make_pretraining_records.main([argv[0], argv[1], argv[3]])


def test_a_missing_input_is_named(argv):
    with pytest.raises(ValueError, match="matches no file"):
        make_pretraining_records.main([*argv, "--input_file=nowhere/*.txt"])


def test_an_empty_file_is_named(argv, tmp_path):
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(ValueError, match="no sentence"):
        make_pretraining_records.main(
            [*argv, f"--input_file={tmp_path / 'empty.txt'}"]
        )


def test_records_of_the_original_load_as_batches(argv, tmp_path):
    make_pretraining_records.main([*argv, "--compat=original"])
    found = records.Records.open(str(tmp_path / "out" / "train"))
    assert len(found.paths) == 1
    assert found.manifest.flags["compat"] == "original"
    size = found.manifest.vocabulary["size"]
    found.check(schema.PRETRAINING, SIZES, size)
    dataset = batches.training_batches(
        found,
        schema.PRETRAINING,
        SIZES,
        batch_size=8,
        seed=1,
        vocab_size=size,
    )
    assert next(iter(dataset))["input_word_ids"].shape == (8, 32)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--held_out_prob=0.1", "held_out_prob=0.1 cannot be combined with"),
        ("--num_processes=2", "num_processes=2 cannot be combined with"),
        ("--input_format=text", "input_format=text cannot be combined with"),
        (
            "--drop_duplicates=lines",
            "drop_duplicates=lines cannot be combined",
        ),
        (
            "--output_dir=gs://b/out",
            "output_dir=gs://b/out is not a path on a disk",
        ),
    ],
)
def test_flags_that_contradict_compat_are_refused(argv, flag, message):
    with pytest.raises(ValueError, match=message):
        make_pretraining_records.main([*argv, "--compat=original", flag])


def test_a_runner_that_contradicts_compat_is_refused(argv):
    argv = [word for word in argv if "num_processes" not in word]
    with pytest.raises(
        ValueError, match="runner=spark cannot be combined with"
    ):
        make_pretraining_records.main(
            [*argv, "--compat=original", "--runner=spark"]
        )


def test_json_rows_are_documents_and_duplicates_are_dropped(argv, tmp_path):
    texts = TEXT.read_text().split("\n\n")
    rows = [json.dumps({"body": text}) for text in [*texts, texts[0]]]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(rows))
    make_pretraining_records.main(
        [
            *argv,
            f"--input_file={path}",
            "--text_field=body",
            "--drop_duplicates=documents",
        ]
    )
    manifest = records.Manifest.read(str(tmp_path / "out" / "train"))
    assert manifest.statistics["documents"] == len(texts)
    assert manifest.statistics["corpus"]["duplicate_documents"] == 1
    assert manifest.flags["text_field"] == "body"


def test_an_unknown_compat_is_named(argv):
    with pytest.raises(flags.Error, match="compat"):
        make_pretraining_records.main([*argv, "--compat=google"])


@pytest.fixture
def big_text(tmp_path):
    """Files that keep two workers busy for some seconds."""
    folder = tmp_path / "text"
    folder.mkdir()
    for number in range(10):
        (folder / f"{number}.txt").write_text(TEXT.read_text() * 100)
    return f"--input_file={folder}/*.txt"


def _start(argv):
    return subprocess.Popen(
        [sys.executable, "-m", "run_scripts.make_pretraining_records"]
        + argv[1:],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A background job of a shell inherits an ignored SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        cwd=pathlib.Path(__file__).parents[2],
    )


def _wait_for(folder, pattern, seconds=600):
    for _ in range(seconds * 100):
        if list(folder.glob(pattern)):
            return
        time.sleep(0.01)
    raise TimeoutError(pattern)


def _group_is_gone(group, seconds=600):
    for _ in range(seconds * 10):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, to_group, code",
    [
        (signal.SIGINT, True, 130),  # As a terminal does it.
        (signal.SIGTERM, True, 75),
        (signal.SIGHUP, True, 75),
        (signal.SIGTERM, False, 75),
        (signal.SIGKILL, False, -signal.SIGKILL),
    ],
)
def test_a_stopped_run_leaves_no_process_and_resumes(
    argv, big_text, tmp_path, kind, to_group, code
):
    argv = [*argv, big_text, "--num_processes=2", "--num_shards=24"]
    argv.append("--dupe_factor=6")
    process = _start(argv)
    _wait_for(tmp_path / "out", "train/*.tfrecord")
    (os.killpg if to_group else os.kill)(process.pid, kind)
    _, errors = process.communicate(timeout=600)
    assert _group_is_gone(process.pid)
    assert process.returncode == code
    if kind != signal.SIGKILL:
        assert "the same command resumes" in errors
        assert "Traceback" not in errors
        assert "leaked semaphore" not in errors
        assert not list((tmp_path / "out").rglob("*.tmp"))
    assert not (tmp_path / "out" / "train" / "manifest.json").exists()
    make_pretraining_records.main([*argv, "--num_processes=1"])
    assert len(records.Records.open(str(tmp_path / "out" / "train"))) > 0
    assert not list((tmp_path / "out").rglob("*.tmp"))


@pytest.mark.slow
def test_an_input_error_in_a_worker_is_printed_in_one_line(argv, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_bytes(b"\xff\xfeT\0h\0e\0")
    argv = [*argv, f"--input_file={tmp_path}/*.txt", "--num_processes=2"]
    process = _start(argv)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 1
    assert "error: " in errors and "the file is UTF-16" in errors
    assert "Traceback" not in errors
    assert _group_is_gone(process.pid)

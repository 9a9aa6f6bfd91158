"""data.py: phases, and errors in settings and records."""

import types

import numpy as np
import pytest

from bert_tf.workflows import training_phases
from bert_tf.workflows.pretraining import data
from bert_tf.workflows.pretraining.config import PretrainingConfig
from tfrecords import schema
from tfrecords.io import records

CONFIG = types.SimpleNamespace(
    vocab_size=100, max_position_embeddings=64, is_causal=False
)
SHA256 = "aa"


def write_records(folder, length, sha256=SHA256, do_lower_case=True):
    """Writes a folder with one example of `length` tokens."""
    folder.mkdir()
    sizes = {"max_seq_length": length, "max_predictions_per_seq": 2}
    example = {
        name: np.zeros(schema.shape_of(feature, sizes), feature.dtype)
        for name, feature in schema.PRETRAINING.items()
    }
    example = schema.serialize(example, schema.PRETRAINING, sizes)
    name = records.shard_name("train", 0, 1)
    shard = records.write_shard(str(folder / name), [example])
    records.Manifest(
        schema_name="pretraining",
        sizes=sizes,
        flags={},
        vocabulary={
            "size": 100,
            "sha256": sha256,
            "do_lower_case": do_lower_case,
        },
        statistics={},
        shards=[shard],
    ).write(str(folder))
    return str(folder)


@pytest.fixture
def folders(tmp_path):
    """Length -> folder of records of that length."""
    return {
        length: write_records(tmp_path / f"of_{length}", length)
        for length in (8, 16, 32)
    }


def config_of(input_file, num_train_steps=10, **fields):
    return PretrainingConfig(
        output_dir="unused",
        input_file=input_file,
        num_train_steps=num_train_steps,
        **fields,
    )


def open_phases(folders, lengths, phases=None, **fields):
    """Returns (length, steps, path of the first shard) of each phase."""
    paths = ",".join(folders.get(length, str(length)) for length in lengths)
    if phases is not None:
        fields["phases"] = tuple(phases.split(","))
    config = config_of(paths, **fields)
    return [
        (phase.sizes["max_seq_length"], phase.num_steps, phase.records.paths[0])
        for phase in data.open_phases(config, CONFIG, SHA256)
    ]


def test_one_folder_is_one_phase(folders):
    expected = [(16, 10, f"{folders[16]}/train-00000-of-00001.tfrecord")]
    assert open_phases(folders, [16]) == expected
    assert open_phases(folders, [16], "16:1") == expected


def test_with_two_folders_the_shorter_gets_nine_tenths_of_steps(folders):
    for lengths in ([8, 32], [32, 8]):
        phases = open_phases(folders, lengths)
        assert [phase[:2] for phase in phases] == [(8, 9), (32, 1)]
        for length, _, path in phases:
            assert path.startswith(folders[length] + "/")


def test_the_flag_sets_order_and_fractions(folders):
    phases = open_phases(folders, [8, 16, 32], "32:0.2,8:0.5,16:0.3")
    assert [phase[:2] for phase in phases] == [(32, 2), (8, 5), (16, 3)]


@pytest.mark.parametrize(
    "total, steps", [(10, [3, 4, 3]), (11, [4, 3, 4]), (1000, [333, 334, 333])]
)
def test_fractions_are_rounded_to_steps_with_the_right_sum(
    folders, total, steps
):
    flag = f"8:{1 / 3},16:{1 / 3},32:{1 / 3}"
    phases = open_phases(folders, [8, 16, 32], flag, num_train_steps=total)
    assert [phase[1] for phase in phases] == steps
    assert sum(steps) == total


def ramp(folders, text, *lengths, **fields):
    """Returns (batch size, steps, first batch) of each part."""
    paths = ",".join(folders[length] for length in lengths or [16])
    config = config_of(paths, batch_size_ramp=tuple(text.split(",")), **fields)
    return [
        (phase.batch_size, phase.num_steps, phase.first_batch)
        for phase in data.open_phases(config, CONFIG, SHA256)
    ]


def test_a_ramp_goes_on_where_smaller_batches_ended(folders):
    parts = ramp(folders, "4:0.3,10:0.2", num_train_steps=100)
    # 30 batches of 4 end at example 120; 20 of 10 at 320.
    assert parts == [(4, 30, 0), (10, 20, 12), (32, 50, 10)]
    # 3 batches of 5 end at example 15: the next of 32 starts at example 32.
    assert ramp(folders, "5:0.3") == [(5, 3, 0), (32, 7, 1)]


def test_a_batch_of_a_later_phase_is_described_by_its_own_records(tmp_path):
    opened = records.Records.open(write_records(tmp_path / "records", 8))
    phase = training_phases.make_phase(
        opened,
        schema.PRETRAINING,
        opened.manifest.sizes,
        num_steps=2,
        vocab_size=100,
        first_batch=3,
        batch_size=2,
        seed=1,
    )
    # The only record, in batches 3 and 4 of two rows: epochs 7 to 10.
    assert phase.describe(1).startswith("Batch 4, length 8, epochs 9 to 10")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4:0.5,8:0.5", "above 0, with a sum below 1"),
        ("4:0.5,8:nan", "should have the form 32:0.2"),
        ("4:-0.5", "above 0, with a sum below 1"),
        ("8:0.2,4:0.2", "should grow, up to --train_batch_size=32"),
        ("64:0.2", "should grow, up to --train_batch_size=32"),
        ("4:0.2,4:0.3", "give each of the sizes once"),
        ("4=0.5", "should have the form 32:0.2,128:0.3: sizes, and fractions"),
        ("4:0.01", "batch_size_ramp=4:0.01 of --num_train_steps=10 is less"),
    ],
)
def test_a_malformed_ramp_is_rejected(folders, text, message):
    with pytest.raises(ValueError, match=message):
        ramp(folders, text)


@pytest.mark.parametrize(
    ("lengths", "more"), [([8, 16], {}), ([8], {"phases": ("8:1",)})]
)
def test_a_ramp_has_one_folder(folders, lengths, more):
    with pytest.raises(ValueError, match="combined with several folders"):
        ramp(folders, "4:0.5", *lengths, **more)


def test_files_and_globs_are_one_phase(folders, tmp_path):
    again = write_records(tmp_path / "again", 8)
    shards = ",".join(f"{folder}/train*" for folder in (folders[8], again))
    config = config_of(shards, max_seq_length=8, max_predictions_per_seq=2)
    (phase,) = data.open_phases(config, CONFIG, None)
    assert phase.num_steps == 10
    assert len(phase.records) == 2


FORM = "should have the form 128:0.9,512:0.1"
SUM = "above 0, with a sum of 1"


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("8", FORM),
        ("8:a", FORM),
        ("a:1", FORM),
        ("8:0.5:0.5,16:0.5", FORM),
        ("8:0.9,,16:0.1", FORM),
        ("8:0.9,16:0.2", SUM),
        ("8:0.9,16:0.05", SUM),
        ("8:1,16:0", SUM),
        ("8:1.5,16:-0.5", SUM),
        ("8:nan,16:0.1", FORM),
        ("8:0.9,16:nan", FORM),
        ("8:inf,16:0.1", FORM),
        ("8:1", r"of \[8, 16\] tokens. Give each"),
        ("8:0.5,32:0.5", r"of \[8, 16\] tokens. Give each"),
        ("8:0.5,8:0.5,16:0.5", "give each of the lengths once"),
    ],
)
def test_phases_that_do_not_fit_are_refused(folders, flag, message):
    with pytest.raises(ValueError, match=message) as error:
        open_phases(folders, [8, 16], flag)
    assert f"--phases={flag}" in str(error.value)


@pytest.mark.parametrize(
    ("lengths", "steps", "message"),
    [
        ([8, 16, 32], 10, "3 folders.*Give .* with --phases="),
        ([8, 8], 10, r"2 folders, but only examples of \[8\]"),
        (
            [8, 16],
            3,
            "^--phases=16:0.1 of --num_train_steps=3 is less than one",
        ),
    ],
)
def test_folders_without_phases_are_refused(folders, lengths, steps, message):
    with pytest.raises(ValueError, match=message):
        open_phases(folders, lengths, num_train_steps=steps)


def test_a_missing_folder_among_folders_is_rejected(folders, tmp_path):
    typo = str(tmp_path / "of_61")
    for lengths in ([8, typo], [typo, 8]):
        with pytest.raises(ValueError, match="are folders, but not [^ ]*of_61"):
            open_phases(folders, lengths)
    config = config_of(f"{folders[8]},{typo}")
    with pytest.raises(ValueError, match="are folders, but not [^ ]*of_61"):
        data.read_vocabulary_of_records(config)
    # A single missing path has its own message.
    with pytest.raises(ValueError, match="No records at '.*of_61'"):
        open_phases(folders, [typo])


def test_each_phase_must_match_the_model_and_its_vocabulary(folders, tmp_path):
    other = write_records(tmp_path / "other", 12, sha256="bb")
    with pytest.raises(ValueError, match="other.*a vocabulary of sha256"):
        open_phases(folders, [8, other])
    long = write_records(tmp_path / "long", 128)
    with pytest.raises(ValueError, match="of 128 tokens; the model accepts"):
        open_phases(folders, [8, long])


def test_the_vocabulary_of_records_has_all_rules(tmp_path):
    cased = write_records(tmp_path / "cased", 8, do_lower_case=False)
    config = config_of(cased)
    made_with = data.read_vocabulary_of_records(config)
    rules = {"strip_accents": False, "tokenize_chinese_chars": True}
    rules["split_special_tokens"] = True
    assert made_with == (100, SHA256, {"do_lower_case": False} | rules)


def test_the_case_of_held_out_records_is_that_of_files_without_manifest(
    folders, tmp_path
):
    cased = write_records(tmp_path / "cased", 8, do_lower_case=False)
    config = config_of(f"{folders[8]}/*.tfrecord", eval_input_file=cased)
    made_with = data.read_vocabulary_of_records(config)
    assert made_with[:2] == (None, None)
    assert made_with.rules["do_lower_case"] is False

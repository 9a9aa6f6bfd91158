"""Text in packed rows -> the same model as from unpacked rows."""

import pytest
import run_processes

from bert_tf.workflows import training_phases
from run_scripts import make_pretraining_records, run_pretraining
from tfrecords.io import json_files, records


def make_records(folder, *more):
    words = [
        *run_processes.record_arguments(folder, dupe_factor=3),
        *("--held_out_prob=0.4", "--short_seq_prob=0.5"),
        *("--max_seq_length=64", "--max_predictions_per_seq=10"),
    ]
    words = ["make_pretraining_records", *words, *more]
    make_pretraining_records.main(words)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder of the same examples, packed and unpacked, and a config."""
    folder = tmp_path_factory.mktemp("packed")
    make_records(folder / "alone")
    make_records(folder / "packed", "--max_examples_per_row=4")
    run_processes.write_config(folder)
    return folder


def run(folder, output_dir, *more):
    words = [
        f"--bert_config_file={folder}/bert_config.json",
        f"--output_dir={output_dir}",
        *("--num_train_steps=4", "--num_warmup_steps=2"),
        *("--train_batch_size=4", "--eval_batch_size=3"),
        *("--learning_rate=1e-2", "--save_checkpoints_steps=4"),
        "--log_every_steps=2",
    ]
    run_pretraining.main(["run_pretraining", *words, *more])
    return json_files.read(output_dir / "eval_results.json")


def test_the_manifest_has_the_padding_shares(folder):
    alone, packed = (
        records.Manifest.read(str(folder / name / "train"))
        for name in ("alone", "packed")
    )
    assert packed.schema_name == "packed_pretraining"
    before, after = alone.statistics, packed.statistics
    assert before["rows"] == before["examples"] == after["examples"]
    assert after["rows"] == packed.num_examples < 0.8 * after["examples"]
    share = before["padding_share"]
    assert before["unpacked_padding_share"] == share
    assert after["unpacked_padding_share"] == share
    num_positions = 64 * after["rows"]
    assert after["padding_share"] == pytest.approx(
        1 - after["example_tokens"] / num_positions
    )
    assert after["padding_share"] < share - 0.2


def test_the_padding_is_logged(tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")
    make_records(tmp_path, "--max_examples_per_row=3")
    for name in ("train", "held_out"):
        found = records.Manifest.read(str(tmp_path / name)).statistics
        assert any(
            f"{name}  rows {found['rows']}  "
            f"padding {100 * found['padding_share']:.1f} %" in text
            for text in caplog.messages
        )


def test_examples_per_row_are_computed_from_the_manifest(folder):
    alone, packed = (
        records.Records.open(str(folder / name / "train"))
        for name in ("alone", "packed")
    )
    assert training_phases.examples_per_row(alone) == 1
    each = training_phases.examples_per_row(packed)
    assert each == pytest.approx(len(alone) / len(packed))
    assert training_phases.examples_per_row(records.Records(alone.paths)) == 1


def test_candidates_are_more_than_the_masked_slots_of_packed_rows(
    folder, tmp_path
):
    with pytest.raises(ValueError, match="from 45, .*max_predictions_per_row="):
        run(
            folder,
            tmp_path / "run",
            f"--vocab_file={run_processes.VOCAB_FILE}",
            f"--input_file={folder}/packed/train",
            "--masked_lm_candidates=44",
        )


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_a_model_trained_on_packed_rows_reads_unpacked_ones(
    folder, tmp_path, caplog
):
    caplog.set_level("INFO", logger="absl")
    packed = run(
        folder,
        tmp_path / "run",
        f"--vocab_file={run_processes.VOCAB_FILE}",
        f"--input_file={folder}/packed/train",
        f"--eval_input_file={folder}/packed/held_out",
        "--gradient_accumulation_steps=2",
    )
    assert packed["step"] == 4
    # The same model, evaluated on the same examples unpacked.
    alone = run(
        folder,
        tmp_path / "alone",
        "--nodo_train",
        f"--init_checkpoint={tmp_path}/run",
        f"--eval_input_file={folder}/alone/held_out",
    )
    for name, value in packed.items():
        if name != "records":
            assert alone[name] == pytest.approx(value, rel=1e-4), name
    # Rates count examples, of which there are more than rows.
    line = next(text for text in caplog.messages if "examples/s" in text)
    words = line.split()
    rates = [
        float(words[words.index(name) + 1])
        for name in ("examples/s", "tokens/s")
    ]
    found = records.Records.open(str(folder / "packed" / "train"))
    each = training_phases.examples_per_row(found)
    assert rates[0] == pytest.approx(each * rates[1] / 64, rel=2e-3)


@pytest.mark.slow
def test_two_devices_train_on_packed_rows_like_one(folder, tmp_path):
    logs = []
    devices = {
        "distribution_strategy": "mirrored",
        "virtual_devices": 2,
        "gradient_accumulation_steps": 2,
    }
    for name, more in (("one", {}), ("two", devices)):
        arguments = run_processes.training_arguments(
            folder,
            tmp_path / name,
            input_file=folder / "packed" / "train",
            num_train_steps=6,
            num_warmup_steps=2,
            learning_rate=1e-2,
            do_eval=False,
            **more,
        )
        logs.append(run_processes.train(arguments, tmp_path / name))
    assert len(logs[0]) == 6
    for one, two in zip(*logs, strict=True):
        for value in ("loss", "next_sentence_loss", "gradient_norm"):
            assert two[value] == pytest.approx(one[value], rel=1e-5), value

"""run_glue: what is of GLUE alone, and errors; see tests/contracts too."""

import dataclasses
import re

import numpy as np
import planted_data
import pytest
import safetensors.numpy

import bert_tf
from bert_tf.checkpoint import checksums
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.training import reporting, stopping
from run_scripts import run_glue
from tfrecords.io import json_files

pytestmark = pytest.mark.usefixtures("eagerly_in_module")


@pytest.fixture(scope="module")
def base_flags(tiny_model_flags):
    """Flags that every run from scratch needs."""
    return [
        *tiny_model_flags,
        *("--train_batch_size=4", "--eval_batch_size=5"),
        *("--learning_rate=1e-3", "--num_train_epochs=2"),
        "--log_every_steps=2",
    ]


def flags_of(task_name, data, output_dir, *more):
    return [
        f"--task_name={task_name}",
        f"--data_dir={data / task_name}",
        f"--output_dir={output_dir}",
        "--max_seq_length=24",
        *more,
    ]


def run(*flags):
    run_glue.main(["run_glue", *map(str, flags)])


def read_predictions(path):
    header, *lines = path.read_text().splitlines()
    assert header == "index\tprediction"
    rows = [line.split("\t") for line in lines]
    assert [row[0] for row in rows] == [str(n) for n in range(len(rows))]
    return [row[1] for row in rows]


@pytest.fixture(scope="module")
def cola_run(tmp_path_factory, base_flags):
    """A finished CoLA run: its flags and its output folder."""
    folder = tmp_path_factory.mktemp("cola")
    planted_data.write_glue(folder)
    output = folder / "run"
    goals = "--do_train", "--do_eval", "--do_predict"
    flags = flags_of("CoLA", folder, output, *goals, *base_flags)
    run(*flags)
    return flags, output


@pytest.mark.slow
def test_a_streamed_run_has_the_same_weights_and_scores(cola_run, tmp_path):
    flags, trained = cola_run
    run(*flags, f"--output_dir={tmp_path}", "--input_mode=stream")
    for name in (
        "eval_results.json",
        "run.json",
        "best/state.json",  # Has the sha256 of the weights.
        "predictions/CoLA.tsv",
    ):
        assert (tmp_path / name).read_bytes() == (trained / name).read_bytes()


def test_dev_scores_do_not_depend_on_bucket_lengths(cola_run, tmp_path):
    _, trained = cola_run
    # Rows are short, so training used shorter batches.
    assert max(json_files.read(trained / "run.json")["bucket_lengths"]) < 24
    found = {}
    for lengths in ("auto", "none"):
        output = tmp_path / lengths
        flags = flags_of("CoLA", trained.parent, output, "--do_eval")
        run(
            *(*flags, f"--bucket_lengths={lengths}"),
            f"--init_checkpoint={trained}",
            f"--records_dir={trained}/records",
        )
        found[lengths] = json_files.read(output / "eval_results.json")
    assert set(found["auto"]["dev"]) == {"loss", "matthews_correlation"}
    # Each of the twelve rows counts once.
    assert found["none"]["dev"] == pytest.approx(found["auto"]["dev"], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("task_name", ["CoLA", "STS-B"])
def test_a_run_starts_from_the_best_encoder_of_another_run(
    cola_run, tmp_path, task_name
):
    first, output = cola_run[1], tmp_path / "second"
    run(
        *flags_of(task_name, first.parent, output, "--do_train"),
        *(f"--init_checkpoint={first}", "--dev_share=0", "--learning_rate=0"),
        "--num_train_epochs=0",  # One step.
    )

    def weights(folder):
        return safetensors.numpy.load_file(folder / "model.safetensors")

    before = weights(first / "best")
    after = weights(output / "checkpoints/step-00000001")
    for name, weight in before.items():
        is_same = np.array_equal(weight, after.get(name))
        if name.startswith("encoder/"):
            assert is_same, name
        elif name.endswith("kernel"):
            assert not is_same, name


@pytest.mark.slow
def test_mnli_has_two_dev_and_test_sets_and_predicts_ax(
    tmp_path, base_flags, tiny_config
):
    # Predictions differ between texts.
    large = tmp_path / "large.json"
    dataclasses.replace(tiny_config, initializer_range=1.0).to_json_file(large)
    planted_data.write_glue(tmp_path)
    path = tmp_path / "MNLI/test_matched.tsv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]))
    output = tmp_path / "run"
    goals = "--do_train", "--do_eval", "--do_predict"
    flags = flags_of("MNLI", tmp_path, output, *goals, *base_flags)
    run(*flags, f"--bert_config_file={large}")
    results = json_files.read(output / "eval_results.json")
    assert results["dev_matched"] == results["dev_mismatched"]
    matched = read_predictions(output / "predictions/MNLI-m.tsv")
    mismatched = read_predictions(output / "predictions/MNLI-mm.tsv")
    assert matched == mismatched[:2]
    assert len(mismatched) == 4
    assert set(mismatched) <= {"neutral", "contradiction", "entailment"}
    assert len(set(mismatched)) > 1
    # Its first texts are the same.
    flags = flags_of("AX", tmp_path, tmp_path / "ax", "--do_predict")
    run(*flags, f"--init_checkpoint={output}")
    predicted = read_predictions(tmp_path / "ax/predictions/AX.tsv")
    assert predicted[:4] == mismatched


@pytest.mark.slow
def test_a_stopped_run_resumes_to_the_same_weights(
    cola_run, tmp_path, monkeypatch
):
    flags, uninterrupted = cola_run
    output = tmp_path / "stopped"
    flags = [*flags, f"--output_dir={output}"]
    write = reporting.Writer.write

    def stop(self, step, values):
        write(self, step, values)
        if step == 6 and "matthews_correlation" in values:
            raise KeyboardInterrupt

    monkeypatch.setattr(reporting.Writer, "write", stop)
    with pytest.raises(KeyboardInterrupt):
        run(*flags)
    assert not (output / "eval_results.json").exists()
    monkeypatch.undo()
    run(*flags)
    for name in (
        "eval_results.json",
        "checkpoints/step-00000006/state.json",
        "logs/dev/steps.jsonl",
    ):
        expected = (uninterrupted / name).read_bytes()
        assert (output / name).read_bytes() == expected, name


@pytest.mark.slow
@pytest.mark.parametrize("byte", [-1, 11])
def test_a_run_whose_newest_checkpoint_is_damaged_uses_the_one_before(
    cola_run, tmp_path, monkeypatch, caplog, byte
):
    output = tmp_path / "run"
    flags = [*cola_run[0], f"--output_dir={output}", "--nodo_eval"]
    flags += ["--nodo_predict", f"--init_checkpoint={cola_run[1]}"]
    flags += ["--save_checkpoints_steps=2"]
    with pytest.raises(stopping.Stopped):
        run(*flags, "--stop_at_step=4")
    newest = output / "checkpoints/step-00000004"
    weights = bytearray((newest / "model.safetensors").read_bytes())
    weights[byte] ^= 1  # Of the last weight, or of a name.
    (newest / "model.safetensors").write_bytes(weights)
    # As for large files: seen when the weights are read.
    monkeypatch.setattr(checksums, "_QUICK_BYTES", 0)
    run(*flags)
    assert "step-00000004 is damaged: model.safetensors has b" in caplog.text
    assert "checkpoints/damaged-step-00000004" in caplog.text
    assert (output / "checkpoints/step-00000006").is_dir()


def test_a_model_without_a_trained_head_is_not_evaluated(cola_run, tmp_path):
    encoder = tmp_path / "encoder"
    flags = [x for x in cola_run[0] if "do_train" not in x]
    bert_tf.save(bert_tf.load(str(cola_run[1]))[0].encoder, encoder)
    given = Checkpoint.open(encoder).with_head("classification", ["0", "1"])
    given.save(str(tmp_path / "headless"))
    mistake(
        "headless has no trained classification/dense/kernel.*random. Add --do",
        *flags,
        f"--init_checkpoint={tmp_path / 'headless'}",
        f"--output_dir={tmp_path / 'run'}",
    )


def mistake(message, *flags):
    with pytest.raises(ValueError, match=message):
        run(*flags)


@pytest.mark.slow
def test_training_on_without_evaluation_is_refused(cola_run, tmp_path):
    flags = [*cola_run[0], f"--output_dir={tmp_path}"]
    with pytest.raises(stopping.Stopped):
        run(*flags, "--stop_at_step=4")
    message = "best has the best model so far of a run with --do_eval"
    mistake(message, *flags, "--nodo_eval")
    run(*flags)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Nothing to do: add one or more of --do_train"),
        (["--do_train", "--vocab_file="], "No vocabulary: give --vocab_file"),
        (["--do_eval"], "contains no model.*Give the output_dir"),
        (
            ["--do_train", "--max_seq_length=65"],
            "max_seq_length=65 exceeds .*max_position_embeddings=64",
        ),
        (
            ["--do_train", "--do_eval", "--dev_share=0"],
            "--do_eval needs a dev file of CoLA; there is only train, test",
        ),
    ],
)
def test_bad_flags_are_refused(tmp_path, base_flags, words, message):
    planted_data.write_glue(tmp_path)
    (tmp_path / "CoLA/dev.tsv").unlink()
    flags = flags_of("CoLA", tmp_path, tmp_path / "run", *base_flags)
    mistake(message, *flags, *words)
    # Nothing is trained.
    assert not list(tmp_path.glob("run/*.json*"))


def test_other_labels_than_those_of_the_model_are_refused(cola_run, tmp_path):
    flags = flags_of("RTE", cola_run[1].parent, tmp_path, "--do_predict")
    message = re.escape("is a model with labels ['0', '1']; RTE has")
    mistake(message, *flags, f"--init_checkpoint={cola_run[1]}")

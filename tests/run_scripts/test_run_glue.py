"""run_glue: what is of GLUE alone, and errors; see tests/contracts too."""

import dataclasses
import re

import numpy as np
import pytest
import safetensors.numpy

import bert_tf
from bert_tf.checkpoint import checksums
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.training import reporting, stopping
from run_scripts import run_glue
from tfrecords.io import json_files

pytestmark = pytest.mark.usefixtures("eagerly_in_module")
SAILING = ["The ship", "A white sail", "The captain", "The crew", "The sea"]
SAYING = ["was coming", "looked", "told them", "came near", "was lost"]


@pytest.fixture(scope="module")
def base_flags(tiny_model_flags):
    """Flags that every run from scratch needs."""
    return [
        *tiny_model_flags,
        "--max_seq_length=16",
        "--train_batch_size=8",
        "--eval_batch_size=4",
        "--learning_rate=1e-3",
        "--num_train_epochs=2",
        "--log_every_steps=2",
    ]


def write_cola(folder, with_dev=True):
    folder.mkdir()
    rows = [
        f"made\t{n % 2}\t\t{' '.join((a, b) if n % 2 else (b, a))} .\n"
        for n, (a, b) in enumerate((a, b) for a in SAILING for b in SAYING)
    ]
    (folder / "train.tsv").write_text("".join(rows))
    if with_dev:
        (folder / "dev.tsv").write_text("".join(rows[:9]))
    (folder / "test.tsv").write_text(
        "index\tsentence\n0\tThe sea\n1\tsea The\n2\tThe ship\n"
    )
    return folder


def write_pairs(folder, header, rows, **files):
    folder.mkdir()
    for split, file in files.items():
        lines = ["\t".join(header if split != "test" else header[:-1])]
        lines += [
            "\t".join(row if split != "test" else row[:-1]) for row in rows
        ]
        (folder / file).write_text("\n".join(lines) + "\n")
    return folder


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
    output = folder / "run"
    flags = [
        "--task_name=cola",
        f"--data_dir={write_cola(folder / 'CoLA')}",
        f"--output_dir={output}",
        "--do_train",
        "--do_eval",
        "--do_predict",
        *base_flags,
    ]
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
    (task_name, data_dir, *_), trained = cola_run
    # Rows are short, so training used shorter batches.
    assert max(json_files.read(trained / "run.json")["bucket_lengths"]) < 16
    found = {}
    for lengths in ("auto", "none"):
        output = tmp_path / lengths
        run(
            task_name,
            data_dir,
            f"--output_dir={output}",
            f"--init_checkpoint={trained}",
            f"--records_dir={trained}/records",
            "--max_seq_length=16",
            "--do_eval",
            f"--bucket_lengths={lengths}",
        )
        found[lengths] = json_files.read(output / "eval_results.json")
    assert set(found["auto"]["dev"]) == {"loss", "matthews_correlation"}
    # Each of the nine rows counts once.
    assert found["none"]["dev"] == pytest.approx(found["auto"]["dev"], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("task_name", ["CoLA", "STS-B"])
def test_a_run_starts_from_the_best_encoder_of_another_run(
    cola_run, tmp_path, task_name
):
    (_, data_dir, *_), first = cola_run
    if task_name == "STS-B":
        rows = [["0", "The sea", "The ship", "2.5"]] * 8
        header = ["index", "sentence1", "sentence2", "score"]
        data = write_pairs(tmp_path / "data", header, rows, train="train.tsv")
        data_dir = f"--data_dir={data}"
    output = tmp_path / "second"
    run(
        f"--task_name={task_name}",
        data_dir,
        f"--output_dir={output}",
        f"--init_checkpoint={first}",
        "--do_train",
        "--max_seq_length=16",
        "--dev_share=0",
        "--num_train_epochs=0",  # One step.
        "--learning_rate=0",
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
    dataclasses.replace(tiny_config, initializer_range=0.5).to_json_file(large)
    labels = ["neutral", "contradiction", "entailment"]
    rows = [
        [str(n), SAILING[n % 5], SAYING[n % 4], labels[n % 3]]
        for n in range(12)
    ]
    header = ["index", "sentence1", "sentence2", "gold_label"]
    files = {
        name: f"{name}.tsv"
        for name in ("train", "dev_matched", "dev_mismatched")
    }
    folder = write_pairs(tmp_path / "MNLI", header, rows, **files)
    for split, count in (("matched", 4), ("mismatched", 12)):
        lines = ["\t".join(row[:-1]) for row in [header, *rows[:count]]]
        (folder / f"test_{split}.tsv").write_text("\n".join(lines) + "\n")
    output = tmp_path / "run"
    run(
        "--task_name=MNLI",
        f"--data_dir={folder}",
        f"--output_dir={output}",
        "--do_train",
        "--do_eval",
        "--do_predict",
        *base_flags,
        f"--bert_config_file={large}",
    )
    results = json_files.read(output / "eval_results.json")
    assert results["dev_matched"] == results["dev_mismatched"]
    matched = read_predictions(output / "predictions/MNLI-m.tsv")
    mismatched = read_predictions(output / "predictions/MNLI-mm.tsv")
    assert matched == mismatched[:4]
    assert len(mismatched) == 12
    assert set(mismatched) <= set(labels)
    assert len(set(mismatched)) > 1

    diagnostic = write_pairs(
        tmp_path / "AX", header, rows, test="diagnostic.tsv"
    )
    run(
        "--task_name=AX",
        f"--data_dir={diagnostic}",
        f"--init_checkpoint={output}",
        f"--output_dir={tmp_path / 'ax'}",
        "--max_seq_length=16",
        "--do_predict",
    )
    predicted = read_predictions(tmp_path / "ax/predictions/AX.tsv")
    assert predicted == mismatched
    with pytest.raises(ValueError, match="--do_train needs a train file of AX"):
        run(
            "--task_name=AX",
            f"--data_dir={diagnostic}",
            f"--output_dir={tmp_path / 'ax2'}",
            "--do_train",
            *base_flags,
        )


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
    for name in ("eval_results.json", "checkpoints/step-00000006/state.json"):
        assert json_files.read(output / name) == json_files.read(
            uninterrupted / name
        )
    lines = (output / "logs/dev/steps.jsonl").read_text()
    assert lines == (uninterrupted / "logs/dev/steps.jsonl").read_text()


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


def test_bad_flags_are_refused(tmp_path, base_flags):
    data = [
        "--task_name=CoLA",
        f"--data_dir={write_cola(tmp_path / 'CoLA', with_dev=False)}",
        f"--output_dir={tmp_path / 'run'}",
    ]
    mistake("Nothing to do: add one or more of --do_train", *data, *base_flags)
    mistake("No vocabulary: give --vocab_file", *data, "--do_train")
    mistake(
        "contains no model.*Give the output_dir",
        *data,
        *base_flags,
        "--do_eval",
    )
    mistake(
        "max_seq_length=65 exceeds .*max_position_embeddings=64",
        *data,
        *base_flags,
        "--do_train",
        "--max_seq_length=65",
    )
    assert not (tmp_path / "run").exists()
    mistake(
        "--do_eval needs a dev file of CoLA; there is only train, test",
        *data,
        *base_flags,
        "--do_train",
        "--do_eval",
        "--dev_share=0",
    )
    (tmp_path / "CoLA/dev.tsv").write_text("gj04\t1\t\tthe cat\n")
    mistake(
        "dev.tsv: dev has 1 labelled row; matthews_correlation needs at least",
        *data,
        *base_flags,
        "--do_train",
        "--do_eval",
        f"--records_dir={tmp_path / 'records'}",
    )
    assert not list((tmp_path / "run").glob("*.json*"))  # Nothing is trained.


def test_other_labels_than_those_of_the_model_are_refused(cola_run, tmp_path):
    mistake(
        re.escape("is a model with labels ['0', '1']; RTE has"),
        "--task_name=RTE",
        f"--data_dir={write_rte(tmp_path / 'RTE')}",
        f"--output_dir={tmp_path / 'rte'}",
        f"--init_checkpoint={cola_run[1]}",
        "--max_seq_length=16",
        "--do_predict",
    )


def write_rte(folder):
    rows = [["0", "The sea", "The ship", "entailment"]] * 3
    header = ["index", "sentence1", "sentence2", "label"]
    return write_pairs(folder, header, rows, test="test.tsv")

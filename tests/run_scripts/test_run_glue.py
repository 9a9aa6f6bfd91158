"""run_glue end to end with a two-layer model, and errors."""

import dataclasses
import json
import re

import pytest
import safetensors.numpy
import served

import bert_tf
from bert_tf.checkpoint import checksums
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.training import reporting, stopping
from run_scripts import run_glue
from tfrecords.io import json_files

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


def test_cola_end_to_end(cola_run, tiny_vocab_file):
    flags, output = cola_run
    results = json_files.read(output / "eval_results.json")
    assert set(results["dev"]) == {"loss", "matthews_correlation"}
    steps = [
        json.loads(line)["step"]
        for line in (output / "logs/dev/steps.jsonl").read_text().splitlines()
    ]
    # 25 rows in batches of 8 are 3.1 steps; 2 epochs are 6 steps.
    assert steps == [4, 6]
    assert results["step"] in steps
    best = json_files.read(output / "best/state.json")
    assert best["step"] == results["step"]
    assert best["value"] == results["dev"]["matthews_correlation"]
    description = json_files.read(output / "best/model.json")
    assert description["labels"] == ["0", "1"]
    assert description["task_name"] == "CoLA"
    vocabulary = (output / "best/vocab.txt").read_bytes()
    with open(tiny_vocab_file, "rb") as file:
        assert vocabulary == file.read()
    predictions = read_predictions(output / "predictions/CoLA.tsv")
    assert len(predictions) == 3
    assert set(predictions) <= {"0", "1"}

    # Neither the same command nor --do_predict alone changes the results.
    (output / "predictions/CoLA.tsv").unlink()
    run(*flags)
    assert json_files.read(output / "eval_results.json") == results
    assert read_predictions(output / "predictions/CoLA.tsv") == predictions
    (output / "predictions/CoLA.tsv").unlink()
    run(
        "--task_name=CoLA",
        flags[1],
        flags[2],
        "--max_seq_length=16",
        "--do_predict",
    )
    assert read_predictions(output / "predictions/CoLA.tsv") == predictions


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
@pytest.mark.usefixtures("eagerly")
def test_a_run_starts_from_the_encoder_of_another_run(cola_run, tmp_path):
    (task_name, data_dir, *_), first = cola_run
    output = tmp_path / "second"
    run(
        task_name,
        data_dir,
        f"--output_dir={output}",
        f"--init_checkpoint={first}",
        "--do_train",
        "--max_seq_length=16",
        "--num_train_epochs=0",  # One step.
        "--learning_rate=0",
    )

    def weights(folder):
        return safetensors.numpy.load_file(folder / "model.safetensors")

    before = weights(first / "best")
    after = weights(output / "checkpoints/step-00000001")
    for name, weight in before.items():
        is_same = (weight == after[name]).all()
        if name.startswith("encoder/"):
            assert is_same, name
        elif name.endswith("kernel"):
            assert not is_same, name


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_a_run_with_other_labels_provides_its_best_encoder(cola_run, tmp_path):
    _, first = cola_run
    rows = [["0", "The sea", "The ship", "2.5"]] * 8
    header = ["index", "sentence1", "sentence2", "score"]
    folder = write_pairs(tmp_path / "STS-B", header, rows, train="train.tsv")
    output = tmp_path / "run"
    run(
        "--task_name=STS-B",
        f"--data_dir={folder}",
        f"--init_checkpoint={first}",
        f"--output_dir={output}",
        "--do_train",
        "--max_seq_length=16",
        "--dev_share=0",
        "--num_train_epochs=0",  # One step.
        "--learning_rate=0",
    )
    load = safetensors.numpy.load_file
    before = load(first / "best/model.safetensors")
    after = load(output / "checkpoints/step-00000001/model.safetensors")
    encoder = {name for name in before if name.startswith("encoder/")}
    for name in encoder:
        assert (before[name] == after[name]).all(), name
    heads = [{*weights} - encoder for weights in (before, after)]
    assert not heads[0] & heads[1]


@pytest.fixture
def large_weights(tmp_path, tiny_config):
    """Flag of a model whose predictions differ between texts."""
    path = tmp_path / "large.json"
    dataclasses.replace(tiny_config, initializer_range=0.5).to_json_file(path)
    return f"--bert_config_file={path}"


def answers_to_pairs(output, rows, folder):
    pairs = [{"text_a": row[1], "text_b": row[2]} for row in rows]
    return served.answers(output, pairs, folder)


@pytest.mark.slow
def test_sts_b_end_to_end_without_a_dev_file(
    tmp_path, base_flags, large_weights
):
    rows = [
        [str(n), f"{SAILING[n % 5]} .", f"{SAYING[n % 4]} .", f"{n % 6}"]
        for n in range(40)
    ]
    folder = write_pairs(
        tmp_path / "STS-B",
        ["index", "sentence1", "sentence2", "score"],
        rows,
        train="train.tsv",
        test="test.tsv",
    )
    output = tmp_path / "run"
    run(
        "--task_name=STS-B",
        f"--data_dir={folder}",
        f"--output_dir={output}",
        "--do_train",
        "--do_eval",
        "--do_predict",
        "--dev_share=0.3",
        *base_flags,
        large_weights,
        "--bucket_lengths=none",  # Each length is traced.
    )
    results = json_files.read(output / "eval_results.json")
    assert set(results["dev"]) == {"loss", "pearson", "spearman"}
    assert results["best_metric"] == "spearman"
    scores = read_predictions(output / "predictions/STS-B.tsv")
    assert len(scores) == 40
    assert all(0 <= float(score) <= 5 for score in scores)

    # The export gives the scores of the file, which have four digits.
    answers = answers_to_pairs(output, rows, tmp_path)
    assert [row["score"] for row in answers] == (
        pytest.approx(list(map(float, scores)), abs=1e-4)
    )
    assert len(set(scores)) > 10


@pytest.mark.usefixtures("eagerly")
def test_a_regression_is_evaluated_after_its_run(tmp_path, base_flags):
    rows = [[str(n), SAILING[n], SAYING[n], f"{n}"] for n in range(5)]
    header = ["index", "sentence1", "sentence2", "score"]
    files = {"train": "train.tsv", "dev": "dev.tsv"}
    folder = write_pairs(tmp_path / "STS-B", header, rows, **files)
    output = tmp_path / "run"
    flags = [
        "--task_name=STS-B",
        f"--data_dir={folder}",
        f"--output_dir={output}",
        "--do_eval",
        *base_flags,
    ]
    run(*flags, "--do_train")
    results = json_files.read(output / "eval_results.json")
    (output / "eval_results.json").unlink()
    run(*flags)
    assert json_files.read(output / "eval_results.json") == results


@pytest.mark.slow
def test_mnli_has_two_dev_and_test_sets_and_predicts_ax(
    tmp_path, base_flags, large_weights
):
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
        large_weights,
        "--bucket_lengths=none",  # Each length is traced.
    )
    results = json_files.read(output / "eval_results.json")
    assert results["dev_matched"] == results["dev_mismatched"]
    matched = read_predictions(output / "predictions/MNLI-m.tsv")
    mismatched = read_predictions(output / "predictions/MNLI-mm.tsv")
    assert matched == mismatched[:4]
    assert len(mismatched) == 12
    assert set(mismatched) <= set(labels)
    answers = answers_to_pairs(output, rows, tmp_path)
    assert [row["label"] for row in answers] == mismatched
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


@pytest.mark.slow
def test_flags_that_contradict_the_model_are_refused(
    cola_run, tmp_path, tiny_vocab_file
):
    flags, output = cola_run
    init = f"--init_checkpoint={output}"
    again = [flag for flag in flags if "vocab_file" not in flag]
    again += [init, f"--output_dir={tmp_path / 'second'}"]
    other = tmp_path / "other_vocab.txt"
    with open(tiny_vocab_file, encoding="utf-8") as file:
        other.write_text(file.read() + "another\n")
    mistake(
        "is not the vocabulary that the model was trained with",
        *again,
        f"--vocab_file={other}",
    )
    mistake("was trained with do_lower_case=True", *again, "--nodo_lower_case")
    mistake(
        re.escape("is a model with labels ['0', '1']; RTE has"),
        "--task_name=RTE",
        f"--data_dir={write_rte(tmp_path / 'RTE')}",
        f"--output_dir={tmp_path / 'rte'}",
        init,
        "--max_seq_length=16",
        "--do_predict",
    )
    mistake(
        "with other settings:\n  learning_rate: was 0.001, is now 1.0",
        *flags,
        "--learning_rate=1",
    )


def write_rte(folder):
    rows = [["0", "The sea", "The ship", "entailment"]] * 3
    header = ["index", "sentence1", "sentence2", "label"]
    return write_pairs(folder, header, rows, test="test.tsv")


def test_an_unknown_label_is_refused_before_the_run(tmp_path, base_flags):
    folder = write_cola(tmp_path / "CoLA")
    with open(folder / "dev.tsv", "a") as file:
        file.write("made\tmaybe\t\tThe sea .\n")
    mistake(
        r"dev.tsv:10: label 'maybe' is not one of CoLA's: 0, 1",
        "--task_name=CoLA",
        f"--data_dir={folder}",
        f"--output_dir={tmp_path / 'run'}",
        "--do_train",
        *base_flags,
    )
    assert not (tmp_path / "run").exists()

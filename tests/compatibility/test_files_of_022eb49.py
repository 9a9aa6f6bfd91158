"""Files of users that 022eb49 wrote are read, resumed and reported.

`make_files.py` says how they were made.
"""

import json
import logging as python_logging
import lzma
import shutil

import numpy as np
import pytest
import safetensors.numpy
from compatibility import make_files

# What other processors' order of sums may change: little in one pass, more in
# steps of Adam.
ROUNDING = dict(rtol=1e-6, atol=1e-6)
# Largest seen: 2e-6, in biases whose gradient is rounding alone.
ROUNDING_OF_STEPS = dict(rtol=1e-3, atol=1e-5)
STEP = f"step-{make_files.LAST_STEP:08}"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A copy of the files, the working folder as it was for the commands."""
    folder = tmp_path / "files"
    shutil.copytree(make_files.FOLDER, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="session")
def export_of_022eb49(made_once):
    """The folder of the SavedModel, with its graph decompressed."""

    def make(folder):
        shutil.copytree(make_files.FOLDER / "export", folder / "export")
        packed = folder / "export" / "saved_model.pb.xz"
        packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
        packed.unlink()

    return made_once("export_of_022eb49", make) / "export"


def run_glue(*words):
    from run_scripts import run_glue as script

    script.main(["run_glue", *words])


def lines_of(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def content(path):
    return json.loads(path.read_text("utf-8"))


def assert_equal_numbers(found, expected, **rounding):
    """Compares lists of dicts, whose values are numbers or text."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert set(one) == set(other)
        for name, value in other.items():
            if isinstance(value, str):
                assert one[name] == value, name
            else:
                np.testing.assert_allclose(
                    one[name], value, **rounding, err_msg=name
                )


def assert_equal_tensors(found, expected):
    """Compares files of weights, up to other processors' rounding."""
    found = safetensors.numpy.load_file(found)
    expected = safetensors.numpy.load_file(expected)
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype, name
        np.testing.assert_allclose(
            found[name], tensor, **ROUNDING_OF_STEPS, err_msg=name
        )


# Runs.


@pytest.mark.slow
def test_a_stopped_run_resumes_to_the_end_that_022eb49_reached(files, caplog):
    run, end = files / "stopped_run", files / "finished_run"
    assert [path.name for path in (run / "checkpoints").iterdir()] == [
        f"step-{make_files.STOP_AT_STEP:08}"
    ]
    with caplog.at_level(python_logging.INFO, logger="absl"):
        run_glue(*make_files.RUN, "--output_dir=stopped_run")
    assert f"resuming from step {make_files.STOP_AT_STEP}" in caplog.text

    for name in ("train", "dev"):
        found = lines_of(run / "logs" / name / "steps.jsonl")
        expected = lines_of(end / "logs" / name / "steps.jsonl")
        assert [x["step"] for x in found] == [x["step"] for x in expected]
        assert_equal_numbers(found, expected, **ROUNDING_OF_STEPS)
    assert [path.name for path in (run / "checkpoints").iterdir()] == [STEP]
    for name in (
        f"checkpoints/{STEP}/model.safetensors",
        f"checkpoints/{STEP}/optimizer.safetensors",
        "best/model.safetensors",
    ):
        assert_equal_tensors(run / name, end / name)
    for name in (f"checkpoints/{STEP}/vocab.txt", "predictions/CoLA.tsv"):
        assert (run / name).read_bytes() == (end / name).read_bytes(), name
    # Keys may be new, such as the number of texts; others remain as they were.
    for name in (
        "run.json",
        f"checkpoints/{STEP}/model.json",
        f"checkpoints/{STEP}/bert_config.json",
        "best/model.json",
    ):
        assert content(end / name).items() <= content(run / name).items(), name
    found = content(run / "eval_results.json")
    expected = content(end / "eval_results.json")
    assert found["step"] == expected["step"] == make_files.LAST_STEP
    assert_equal_numbers([found["dev"]], [expected["dev"]], **ROUNDING_OF_STEPS)


def test_settings_of_a_stopped_run_cannot_change(files):
    with pytest.raises(ValueError, match="learning_rate.*0.005"):
        run_glue(
            *make_files.RUN, "--output_dir=stopped_run", "--learning_rate=1"
        )


def test_a_finished_run_is_evaluated_again_to_the_same_scores(files):
    run = files / "finished_run"
    before = {
        path.relative_to(run): path.read_bytes()
        for pattern in ("checkpoints/*/*", "best/*", "*.json")
        for path in run.glob(pattern)
    }
    (run / "predictions" / "CoLA.tsv").unlink()
    run_glue(*make_files.RUN, "--output_dir=finished_run")
    for name, old in before.items():
        if name.name == "eval_results.json":
            found, expected = content(run / name), json.loads(old)
            assert found["step"] == expected["step"]
            assert_equal_numbers(
                [found["dev"]], [expected["dev"]], rtol=1e-5, atol=0
            )
        else:
            assert (run / name).read_bytes() == old, name
    original = make_files.FOLDER / "finished_run" / "predictions" / "CoLA.tsv"
    predictions = (run / "predictions" / "CoLA.tsv").read_bytes()
    assert predictions == original.read_bytes()


def test_the_best_model_of_a_finished_run_is_evaluated_anew(files):
    run_glue(
        "--task_name=CoLA",
        "--data_dir=texts/CoLA",
        "--init_checkpoint=finished_run",
        "--output_dir=new",
        "--do_eval",
    )
    expected = content(files / "finished_run" / "eval_results.json")["dev"]
    found = content(files / "new" / "eval_results.json")["dev"]
    assert_equal_numbers([found], [expected], rtol=1e-5, atol=0)


def test_a_finished_run_is_reported(files):
    from run_scripts import glue_table

    glue_table.main(
        ["glue_table", "--run_dirs=finished_run", "--output_file=table.md"]
    )
    table = (files / "table.md").read_text("utf-8")
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in table.splitlines()
    ]
    assert rows[0][:2] == ["", "CoLA"]
    # 57.7 is matthews_correlation of eval_results.json times 100.
    assert {"ours, dev": "57.7", "majority baseline, dev": "0.0"}.items() <= {
        name: cell for name, cell, *_ in rows
    }.items()


def test_the_card_of_a_finished_run_has_its_scores(files):
    from bert_tf.workflows import conversion

    conversion.convert("finished_run", "hugging_face", "theirs")
    card = (files / "theirs" / "README.md").read_text("utf-8")
    assert "0.577" in card


# The model folder.


@pytest.mark.parametrize("folder", ["model", "finished_run"])
def test_a_model_folder_gives_the_outputs_of_022eb49(files, folder):
    import bert_tf

    predictor = bert_tf.Predictor(folder)
    outputs = content(files / "outputs.json")
    assert predictor.kind == "classification"
    found = predictor(make_files.TEXTS)
    assert [answer.label for answer in found] == outputs["label"]
    expected = np.max(outputs["probabilities"], -1)
    np.testing.assert_allclose(
        [answer.probability for answer in found], expected, **ROUNDING
    )


def test_a_model_folder_is_checked_and_loaded(files):
    import bert_tf

    model, tokenizer = bert_tf.load("model")
    weights = safetensors.numpy.load_file("model/model.safetensors")
    found = {
        name: value
        for name, value in _weights_of(model).items()
        if name in weights
    }
    assert set(found) == set(weights)
    for name, weight in weights.items():
        np.testing.assert_array_equal(found[name], weight, name)
    assert tokenizer.vocab_size == len(make_files.VOCABULARY)
    assert model.config.vocab_size == len(make_files.VOCABULARY)


def _weights_of(model):
    from bert_tf.checkpoint import model_folders

    return {
        name: weight.numpy()
        for name, weight in model_folders.weight_names(model).items()
    }


def test_a_damaged_model_folder_is_refused(files):
    path = files / "model" / "vocab.txt"
    path.write_text(path.read_text() + "more\n")
    from run_scripts import export_savedmodel

    with pytest.raises(ValueError, match="vocab.txt"):
        export_savedmodel.main(
            ["export_savedmodel", "--model_dir=model", "--export_dir=e"]
        )


# Records.

RECORDS = [
    "pretraining/train",
    "pretraining/held_out",
    "glue/train",
    "glue/dev",
    "glue/test",
    "squad/train",
    "squad/dev",
    "ner/train",
    "ner/dev",
    "ner/test",
]


@pytest.mark.parametrize("name", RECORDS)
def test_records_are_read_as_they_were_written(name):
    import tensorflow as tf

    from tfrecords import schema
    from tfrecords.io import records

    folder = make_files.FOLDER / "records" / name
    opened = records.Records.open(str(folder))
    manifest = content(folder / "manifest.json")
    assert len(opened) == manifest["num_examples"] > 0
    assert opened.manifest.schema_name == manifest["schema_name"]
    shards = [str(folder / shard["name"]) for shard in manifest["shards"]]
    # TensorFlow's own reader, which nothing here can change.
    written = list(tf.data.TFRecordDataset(shards).as_numpy_iterator())
    wanted = schema.SCHEMAS[opened.manifest.schema_name]
    found = schema.parse(
        tf.constant(written), wanted, opened.manifest.sizes, False
    )
    for row, serialized in enumerate(written):
        example = tf.train.Example.FromString(serialized)
        expected = {
            key: list(getattr(feature, feature.WhichOneof("kind")).value)
            for key, feature in example.features.feature.items()
        }
        assert set(opened.features(row)) == set(expected)
        for key, values in expected.items():
            got = np.ravel(found[key][row].numpy()).tolist()
            assert got[: len(values)] == pytest.approx(values), key
            assert not any(got[len(values) :]), key


def make_again(name):
    """Makes the records of a task anew, in the folder `new`."""
    from run_scripts import (
        make_glue_records,
        make_ner_records,
        make_pretraining_records,
        make_squad_records,
    )

    words = [
        "--vocab_file=texts/vocab.txt",
        "--max_seq_length=16",
        "--output_dir=new",
    ]
    if name == "glue":
        words += ["--task_name=CoLA", "--data_dir=texts/CoLA"]
        make_glue_records.main([name, *words])
    if name == "squad":
        words += ["--doc_stride=4", "--max_query_length=6"]
        make_squad_records.main([name, "--data_dir=texts", *words])
    if name == "ner":
        make_ner_records.main([name, "--data_dir=texts", *words])
    if name == "pretraining":
        make_pretraining_records.main(
            [
                name,
                "--input_file=texts/corpus.txt",
                "--held_out_prob=0.2",
                "--dupe_factor=1",
                "--num_processes=1",
                "--max_predictions_per_seq=3",
                *words,
            ]
        )


@pytest.mark.parametrize("name", ["pretraining", "glue", "squad", "ner"])
def test_the_same_command_makes_the_same_records(files, name):
    make_again(name)
    splits = sorted((files / "records" / name).glob("*/manifest.json"))
    assert len(splits) >= 2
    for path in splits:
        new = files / "new" / path.parent.name
        found, expected = content(new / path.name), content(path)
        for key in ("num_examples", "digest", "schema_name", "sizes", "shards"):
            assert found[key] == expected[key], key
        assert expected["vocabulary"] == found["vocabulary"]
        assert expected["statistics"].items() <= found["statistics"].items()
        for shard in expected["shards"]:
            written = (path.parent / shard["name"]).read_bytes()
            assert (new / shard["name"]).read_bytes() == written


@pytest.mark.parametrize("name", ["glue", "squad", "ner"])
def test_complete_records_are_not_made_again(files, name, caplog):
    folder = files / "records" / name
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    folder.rename(files / "new")
    with caplog.at_level(python_logging.INFO, logger="absl"):
        make_again(name)
    (files / "new").rename(folder)
    assert caplog.text.count("already complete") == len(list(folder.iterdir()))
    found = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert found == before


# Exports and answers.


def test_an_export_gives_the_answers_of_022eb49(export_of_022eb49, tmp_path):
    from run_scripts import predict

    answers = tmp_path / "answers.jsonl"
    predict.main(
        [
            "predict",
            f"--export_dir={export_of_022eb49}",
            f"--input_file={make_files.FOLDER / 'texts' / 'rows.jsonl'}",
            f"--output_file={answers}",
        ]
    )
    expected = lines_of(make_files.FOLDER / "answers.jsonl")
    assert_equal_numbers(lines_of(answers), expected, **ROUNDING)


@pytest.mark.slow
def test_an_export_of_today_gives_the_answers_of_022eb49(files):
    import served

    rows = lines_of(files / "texts" / "rows.jsonl")
    (files / "today").mkdir()
    found = served.answers("model", rows, files / "today")
    assert_equal_numbers(found, lines_of(files / "answers.jsonl"), **ROUNDING)
    old = content(files / "export" / "assets.extra" / "model.json")
    new = content(files / "today" / "export" / "assets.extra" / "model.json")
    assert old.items() <= new.items()

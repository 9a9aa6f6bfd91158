"""Scripts whose inputs and outputs are in a store, as on local disks."""

import pathlib
import shutil

import exports
import folder_store
import pytest

from bert_tf.training import stopping
from run_scripts import (
    embed,
    make_glue_submission,
    predict,
    run_pretraining,
    search,
)
from tfrecords.io import storage, stored_folders

STORE = "gs://bucket"


@pytest.fixture
def inputs(
    tmp_path, monkeypatch, pretraining_records, tiny_config, tiny_vocab_file
):
    """Records, a config and a vocabulary, also in gs://bucket/inputs."""
    monkeypatch.setenv(stored_folders.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(storage, "_gfile", storage._gfile)
    folder_store.use(tmp_path / "store")
    folder = tmp_path / "inputs"
    shutil.copytree(pretraining_records, folder, dirs_exist_ok=True)
    tiny_config.to_json_file(folder / "bert_config.json")
    shutil.copy(tiny_vocab_file, folder / "vocab.txt")
    for name in storage.files_in(str(folder)):
        storage.copy(str(folder / name), f"{STORE}/inputs/{name}")
    return folder


def train(inputs, output_dir, *more):
    with stored_folders.outputs():
        words = [
            *(f"--input_file={inputs}/train", f"--output_dir={output_dir}"),
            f"--eval_input_file={inputs}/held_out",
            f"--bert_config_file={inputs}/bert_config.json",
            f"--vocab_file={inputs}/vocab.txt",
            *("--num_train_steps=6", "--num_warmup_steps=2"),
            *("--train_batch_size=8", "--save_checkpoints_steps=2"),
            "--log_every_steps=2",
        ]
        run_pretraining.main(["run_pretraining", *words, *more])


def content(folder):
    """Returns the files of a run that do not depend on paths or times."""
    files = {}
    for name in storage.files_in(folder):
        if "tfevents" in name or name in ("run.flags", "run.lock"):
            continue
        files[name] = pathlib.Path(folder, name).read_bytes()
    return files


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_a_run_in_a_store_equals_a_local_one_also_if_it_is_killed(
    inputs, tmp_path, monkeypatch
):
    local = str(tmp_path / "local")
    train(inputs, local)
    there = f"{STORE}/inputs"
    train(there, f"{STORE}/run")
    expected = content(local)
    assert content(stored_folders.fetch(f"{STORE}/run")) == expected
    flags = pathlib.Path(stored_folders.fetch(f"{STORE}/run"), "run.flags")
    assert f"--output_dir={STORE}/run\n" in flags.read_text()
    assert f"--input_file={there}/train\n" in flags.read_text()

    # Killed in the third commit, after step 4 was saved locally; another
    # machine has only what the second commit wrote.
    commits = []

    def dying(folder, check):
        commits.append(folder)
        if len(commits) >= 3:
            raise KeyboardInterrupt
        return commit(folder, check)

    commit = stored_folders.StoredFolder.commit
    with monkeypatch.context() as patch:
        patch.setattr(stored_folders.StoredFolder, "commit", dying)
        with pytest.raises(KeyboardInterrupt):
            train(there, f"{STORE}/killed", "--stop_at_step=6")
    monkeypatch.setenv(stored_folders.CACHE_VARIABLE, str(tmp_path / "other"))
    # The newest checkpoint was damaged, too: the one before it is used.
    weights = "killed/checkpoints/step-00000004/model.safetensors"
    damaged = tmp_path / "store" / "bucket" / weights
    damaged.write_bytes(bytes(damaged.stat().st_size))
    train(there, f"{STORE}/killed")
    assert content(stored_folders.fetch(f"{STORE}/killed")) == expected


@pytest.mark.slow
def test_a_stopped_run_is_exported_and_predicts_from_the_store(inputs):
    with pytest.raises(stopping.Stopped, match="stop_at_step"):
        train(inputs, f"{STORE}/stopped", "--stop_at_step=2")
    with stored_folders.outputs():
        exports.write(f"{STORE}/stopped", f"{STORE}/export")
    text = stored_folders.fetch(f"{STORE}/inputs/vocab.txt")
    lines = pathlib.Path(text).with_name("lines.txt")
    lines.write_text("The [MASK] sail.\n")
    storage.copy(str(lines), f"{STORE}/lines.txt")
    with stored_folders.outputs():
        predict.main(
            [
                "predict",
                f"--export_dir={STORE}/export",
                f"--input_file={STORE}/lines.txt",
                f"--output_file={STORE}/answers.jsonl",
            ]
        )
    answers = stored_folders.fetch(f"{STORE}/answers.jsonl")
    assert '"line": 1' in pathlib.Path(answers).read_text()


def test_vectors_have_the_file_beside_them_in_the_store(inputs, capsys):
    folder = inputs / "model"
    exports.save_model(exports.make_for("fill_mask"), "pretraining", folder)
    rows = inputs / "rows.jsonl"
    rows.write_text('{"body": "a ship"}\n{"body": "the cat"}\n')
    vectors = f"{STORE}/vectors.npy"
    with stored_folders.outputs():
        embed.main(
            [
                *("embed", f"--model_dir={folder}", f"--input_file={rows}"),
                *("--text_column=body", f"--output_file={vectors}"),
            ]
        )
    query = inputs / "query.txt"
    query.write_text("the cat")
    search.main(
        [
            *("search", f"--model_dir={folder}", f"--vectors_file={vectors}"),
            *(f"--input_file={query}", f"--corpus_file={rows}", "--top_k=1"),
        ]
    )
    assert capsys.readouterr().out == "1.0000\t2\tthe cat\n"


def test_a_glue_submission_is_written_to_a_store(inputs, tmp_path):
    path = tmp_path / "cola/predictions/CoLA.tsv"
    path.parent.mkdir(parents=True)
    rows = [f"{row}\t1\n" for row in range(1063)]
    path.write_text("index\tprediction\n" + "".join(rows))
    with stored_folders.outputs():
        make_glue_submission.main(
            [
                "make_glue_submission",
                f"--run_dirs={tmp_path / 'cola'}",
                f"--output_file={STORE}/glue.zip",
            ]
        )
    assert storage.exists(f"{STORE}/glue.zip")

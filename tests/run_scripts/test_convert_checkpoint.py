"""convert_checkpoint end to end, and runs initialized from other formats."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from bert_tf.checkpoint import contents, detection, model_folders, run_models
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.checkpoint.formats.google import tf1_checkpoint
from bert_tf.model import models
from run_scripts import convert_checkpoint, run_glue, run_pretraining
from tfrecords.io import atomic_files

DATA = pathlib.Path(__file__).parents[1] / "data"


def convert(source, to, output_dir, *more):
    convert_checkpoint.main(
        [
            "convert_checkpoint",
            f"--from={source}",
            f"--to={to}",
            f"--output_dir={output_dir}",
            *more,
        ]
    )


def write_google(model, task, folder, labels=(), **settings):
    """Writes a model as the original saves it, with its vocabulary."""
    given = contents.Contents(
        source="test",
        config=model.config,
        task=task,
        labels=labels,
        tensors={
            name: weight.numpy() + np.float32(0.01)
            for name, weight in model_folders.weight_names(model).items()
        },
        vocabulary=(DATA / "vocab.txt").read_bytes(),
        **settings,
    )
    with atomic_files.atomic_folder(str(folder)) as aside:
        tf1_checkpoint.write(given, aside)
    return given


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory, tiny_config):
    """A TF1 checkpoint of a pre-trainer: its folder and its contents."""
    folder = tmp_path_factory.mktemp("released") / "uncased_L-2_H-16_A-2"
    return folder, write_google(
        models.BertPretrainer(tiny_config), "pretraining", folder, step=4
    )


def read_files(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_flags_are_those_of_the_conversion(pretrained, tmp_path, capsys):
    convert(pretrained[0], "bert_tf", tmp_path / "ours")
    report = capsys.readouterr().out
    assert "hidden_act gelu\n" in report
    more = ("--overwrite", "--hidden_act=gelu_erf")
    convert(pretrained[0], "hugging_face", tmp_path / "ours", *more)
    report = capsys.readouterr().out
    assert "equal bit for bit" in report
    assert detection.detect(str(tmp_path / "ours")) == "hugging_face"
    assert Checkpoint.open(tmp_path / "ours").config.hidden_act == "gelu_erf"


# Training and export from a converted checkpoint.


def write_rows(path):
    rows = [
        f"{('The ship', 'A white sail')[n % 2]} was lost\t{n % 2}"
        for n in range(16)
    ]
    path.write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    return path


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_fine_tuning_starts_from_the_encoder_of_a_tf1_checkpoint(
    pretrained, tmp_path
):
    source, given = pretrained
    before = read_files(source)
    output = tmp_path / "run"
    words = [
        "run_glue",
        f"--train_file={write_rows(tmp_path / 'rows.tsv')}",
        "--text_column=text",
        "--labels=0,1",
        f"--init_checkpoint={source}/bert_model.ckpt",
        f"--output_dir={output}",
        *("--do_train", "--dev_share=0", "--max_seq_length=16"),
        *("--train_batch_size=8", "--num_train_epochs=1", "--learning_rate=0"),
    ]
    run_glue.main(words)
    folder = run_models.find(str(output))
    found = model_folders.read(folder)
    for name, tensor in given.tensors.items():
        if name.startswith("encoder/"):
            np.testing.assert_array_equal(found.tensors[name], tensor, name)
    assert found.vocabulary == given.vocabulary
    assert found.do_lower_case is True
    settings = json.loads((output / "run.json").read_text())
    assert settings["init_checkpoint"] == f"{source}/bert_model.ckpt"
    assert read_files(source) == before
    # Nothing is converted to disk. The same command again does not train.
    assert not (output / "init_checkpoint").exists()
    before = {x: x.stat().st_mtime_ns for x in output.glob("checkpoints/*/*")}
    run_glue.main(words)
    after = {x: x.stat().st_mtime_ns for x in output.glob("checkpoints/*/*")}
    assert after == before != {}


@pytest.fixture(scope="module")
def records(tmp_path_factory, pretraining_records):
    folder = tmp_path_factory.mktemp("records") / "held_out"
    shutil.copytree(pretraining_records / "held_out", folder)
    return folder


def pretrain(records, source, output_dir, *more):
    words = [
        *(f"--input_file={records}", f"--eval_input_file={records}"),
        *(f"--init_checkpoint={source}", f"--output_dir={output_dir}"),
        *("--num_train_steps=1", "--num_warmup_steps=0", "--max_eval_steps=1"),
        *("--train_batch_size=4", "--learning_rate=0"),
    ]
    run_pretraining.main(["run_pretraining", *words, *more])


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_pre_training_starts_from_the_heads_of_a_tf1_checkpoint(
    pretrained, records, tmp_path
):
    source, given = pretrained
    pretrain(records, source, tmp_path / "run")
    found = Checkpoint.open(tmp_path / "run")
    for name, tensor in given.tensors.items():
        np.testing.assert_array_equal(found.tensors[name], tensor, name)
    assert found.step == 1 and found.do_lower_case is True
    # Export and further training need no --vocab_file.
    assert found.vocabulary == given.vocabulary
    trained = json.loads((tmp_path / "run/eval_results.json").read_text())
    # --nodo_train gives the same results: a rate of 0 changes nothing.
    pretrain(records, source, tmp_path / "evaluated", "--nodo_train")
    alone = json.loads((tmp_path / "evaluated/eval_results.json").read_text())
    assert alone == pytest.approx(trained | {"step": 4})


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_pre_training_starts_from_the_encoder_of_a_fine_tuned_model(
    records, tmp_path, tiny_config
):
    model = models.BertClassifier(tiny_config, 2)
    source = tmp_path / "fine_tuned"
    given = write_google(model, "classification", source, ("a", "b"))
    pretrain(records, source, tmp_path / "run", "--nodo_eval")
    found = Checkpoint.open(tmp_path / "run")
    assert found.task == "pretraining"
    for name, tensor in given.tensors.items():
        if name.startswith("encoder/"):
            np.testing.assert_array_equal(found.tensors[name], tensor, name)
    with pytest.raises(ValueError, match="has task classification: its pre-tr"):
        pretrain(records, source, tmp_path / "alone", "--nodo_train")


def test_newly_initialized_heads_are_not_evaluated(
    pretrained, records, tmp_path
):
    folder = tmp_path / "bare"
    convert(pretrained[0], "google", folder)
    tensors = tf1_checkpoint.read_tensors(f"{folder}/bert_model.ckpt")
    tf1_checkpoint.write_tensors(
        {n: t for n, t in tensors.items() if not n.startswith("cls/")},
        str(folder),
    )
    with pytest.raises(ValueError, match="without masked_lm/bias, .*not train"):
        pretrain(records, folder, tmp_path / "run", "--nodo_train")

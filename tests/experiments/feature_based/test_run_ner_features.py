"""run_ner_features end to end with a tiny encoder, and errors."""

import dataclasses
import pathlib
import re
from concurrent import futures

import keras
import planted_ner as planted
import pytest

from bert_tf.checkpoint import model_folders
from bert_tf.model import models
from bert_tf.training import run_folder
from experiments.feature_based import (
    feature_tagger,
    ner_features,
    run_ner_features,
)
from tfrecords.io import atomic_files, json_files


def run(*flags):
    run_ner_features.main(["run_ner_features", *map(str, flags)])


def names_in(folder):
    """Returns names of files, without the digests in them."""
    return sorted(re.sub("-[0-9a-f]{8}", "", p.name) for p in folder.iterdir())


def save(folder, config, vocab_file):
    keras.utils.set_random_seed(1)
    with atomic_files.atomic_folder(str(folder)) as aside:
        model_folders.save_model(
            aside,
            models.BertRegressor(config),
            metadata={"task": "regression", "do_lower_case": True},
            vocabulary=pathlib.Path(vocab_file).read_bytes(),
        )


@pytest.fixture(scope="module")
def base_flags(tmp_path_factory, tiny_config, tiny_vocab_file):
    """Flags of data, and of an encoder of five layers with random weights."""
    folder = tmp_path_factory.mktemp("data")
    planted.write(folder / "eng.train", planted.sentences(40))
    planted.write(folder / "eng.testa", planted.sentences(11, 1))
    config = dataclasses.replace(
        tiny_config, num_hidden_layers=5, initializer_range=0.5
    )
    save(folder / "model", config, tiny_vocab_file)
    return [
        f"--data_dir={folder}",
        f"--init_checkpoint={folder / 'model'}",
        "--max_seq_length=24",
        "--eval_batch_size=4",
        "--train_batch_size=8",
        "--lstm_units=16",
        "--learning_rate=1e-2",
        "--do_train",
        "--do_eval",
        "--do_predict",
    ]


@pytest.mark.slow
def test_one_choice_end_to_end(base_flags, tmp_path):
    output = tmp_path / "run"
    flags = [
        *(*base_flags, f"--output_dir={output}"),
        *("--num_train_epochs=30", "--save_checkpoints_steps=75"),
        "--feature_layers=weighted_sum_last_four",
    ]
    run(*flags)
    path = output / "weighted_sum_last_four"
    results = json_files.read(path / "eval_results.json")
    assert (
        results["dev"]["entity_f1"]
        > results["majority_baseline"]["dev"]["entity_f1"]
    )
    description = json_files.read(path / "best/model.json")
    assert description["feature_layers"] == "weighted_sum_last_four"
    # As --flagfile it repeats the command.
    repeated = (path / "run.flags").read_text().splitlines()
    assert f"--output_dir={output}" in repeated
    assert "--feature_layers=weighted_sum_last_four" in repeated
    words = (path / "predictions/dev.txt").read_text().split()
    assert words[:5] == ["-DOCSTART-", "-X-", "-X-", "O", "O"]
    names = names_in(output / "features")
    assert names == [
        *["dev-2-3-4-5.npy", "dev-2-3-4-5.npy.json", "run.lock"],
        *["train-2-3-4-5.npy", "train-2-3-4-5.npy.json"],
    ]

    # A rerun changes nothing; other choices find their layers in the file.
    before = (path / "eval_results.json").read_text()
    run(*flags, "--feature_layers=weighted_sum_last_four,last")
    assert (path / "eval_results.json").read_text() == before
    assert (output / "last" / "eval_results.json").exists()
    assert names_in(output / "features") == names

    # A file to predict that is added later does not make it another run.
    planted.write(tmp_path / "test", planted.sentences(5, 2), has_tags=False)
    run(*flags, f"--test_file={tmp_path / 'test'}", "--notest_has_tags")
    assert (path / "eval_results.json").read_text() == before
    words = (path / "predictions/test.txt").read_text().split()
    assert words[:4] == ["-DOCSTART-", "-X-", "-X-", "O"]


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_all_six_choices_share_one_file(base_flags, tmp_path):
    run(
        *base_flags,
        f"--output_dir={tmp_path}",
        f"--features_dir={tmp_path / 'shared'}",
        "--feature_layers=all",
        "--num_train_epochs=0.5",
    )
    assert "train-0-1-2-3-4-5.npy" in names_in(tmp_path / "shared")
    for choice in feature_tagger.CHOICES:
        results = json_files.read(tmp_path / choice / "eval_results.json")
        assert "entity_f1" in results["dev"]


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_stopped_feature_extraction_resumes(base_flags, tmp_path, monkeypatch):
    monkeypatch.setattr(ner_features, "_DOCUMENTS_PER_PART", 4)
    made, make = [], ner_features.layer_outputs.run_in_order

    def stop_at_second(*arguments):
        made.append(len(made))
        if len(made) == 2:
            raise KeyboardInterrupt
        return make(*arguments)

    monkeypatch.setattr(
        ner_features.layer_outputs, "run_in_order", stop_at_second
    )
    flags = [*base_flags, "--feature_layers=last", "--num_train_epochs=0"]
    flags += [f"--output_dir={tmp_path}"]
    with pytest.raises(KeyboardInterrupt):
        run(*flags)
    folder = tmp_path / "features"
    assert names_in(folder) == [".train-5.npy.parts", "run.lock"]
    run(*flags)
    # Ten documents of train are three parts, three of dev are one.
    assert len(made) == 1 + 1 + 2 + 1
    assert names_in(folder) == [
        *["dev-5.npy", "dev-5.npy.json", "run.lock"],
        *["train-5.npy", "train-5.npy.json"],
    ]


def test_only_one_run_at_a_time_uses_a_features_folder(base_flags, tmp_path):
    flags = [*base_flags, "--feature_layers=last", "--num_train_epochs=0"]
    flags += [f"--output_dir={tmp_path / 'run'}"]
    shared = tmp_path / "shared"
    with (
        futures.ThreadPoolExecutor(1) as thread,
        run_folder.lock(str(shared)),
        pytest.raises(ValueError, match=f"{shared} is in use by another run"),
    ):
        thread.submit(run, *flags, f"--features_dir={shared}").result()
    assert names_in(shared) == ["run.lock"]


@pytest.mark.parametrize(
    "flag, message",
    [
        ("--precision=bfloat16", "--precision: only for fine-tuning"),
        ("--remat", "--remat: only for fine-tuning"),
        ("--records_dir=x", "--records_dir: only for fine-tuning"),
        ("--bucket_lengths=9", "--bucket_lengths: only for fine-tuning"),
        ("--feature_layers=", "--feature_layers is empty"),
        ("--feature_layers=first", "'first' is not one of embeddings, second"),
        ("--input_mode=stream", "--input_mode=stream: with --feature_layers"),
        ("--lora_rank=4", "--lora_rank: only for fine-tuning"),
        ("--teacher=t", "--teacher: only for fine-tuning"),
        ("--steps_per_loop=2", "batches differ in length"),
        ("--nodo_train", "trains, and selects the best model"),
        ("--init_checkpoint=", "needs an encoder: give --init_checkpoint"),
    ],
)
def test_flags_of_fine_tuning_are_refused(base_flags, flag, message):
    words = [*base_flags, "--output_dir=run", "--feature_layers=last", flag]
    with pytest.raises(ValueError, match=message):
        run(*words)

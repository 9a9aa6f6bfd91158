"""Left-to-right pre-training, fine-tuning and export, end to end."""

import dataclasses
import json
import math
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import config
from bert_tf.checkpoint import run_models
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.model import models
from bert_tf.training import stopping
from run_scripts import (
    export_savedmodel,
    make_pretraining_records,
    run_glue,
    run_pretraining,
)

TEXT = pathlib.Path(__file__).parents[1] / "data" / "sentences.txt"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, pretraining_records, tiny_vocab_file, tiny_config):
    """Folder of records without pairs or masks, others, configs, a table."""
    folder = tmp_path_factory.mktemp("left_to_right")
    shutil.copytree(pretraining_records, folder / "pairs")
    make_pretraining_records.main(
        [
            "make_pretraining_records",
            f"--input_file={TEXT}",
            f"--vocab_file={tiny_vocab_file}",
            f"--output_dir={folder}/records",
            "--held_out_prob=0.2",
            "--dupe_factor=1",
            "--num_processes=1",
            "--max_seq_length=32",
            "--max_predictions_per_seq=5",
            "--pairs=none",
            "--masking_time=dynamic",
        ]
    )
    one_layer = dataclasses.replace(tiny_config, num_hidden_layers=1)
    one_layer.to_json_file(folder / "bert_config.json")
    causal = dataclasses.replace(one_layer, is_causal=True)
    causal.to_json_file(folder / "causal.json")
    rows = [f"the cat\t{i % 2}\n" for i in range(24)]
    (folder / "rows.tsv").write_text("text\tlabel\n" + "".join(rows))
    return folder


def run(folder, output_dir, *more):
    run_pretraining.main(
        [
            "run_pretraining",
            f"--input_file={folder}/records/train",
            f"--eval_input_file={folder}/records/held_out",
            f"--bert_config_file={folder}/bert_config.json",
            f"--vocab_file={folder}/records/train/vocab.txt",
            f"--output_dir={output_dir}",
            "--objective=left_to_right",
            "--num_train_steps=4",
            "--num_warmup_steps=1",
            "--train_batch_size=8",
            "--eval_batch_size=4",
            "--learning_rate=1e-2",
            "--save_checkpoints_steps=2",
            *more,
        ]
    )


@pytest.fixture(scope="module")
def trained(folder):
    run(folder, folder / "run")
    return folder / "run"


def results_of(run_dir):
    return json.loads((run_dir / "eval_results.json").read_text())


def test_a_model_learns_the_next_token_and_saves_is_causal(trained):
    results = results_of(trained)
    assert results["loss"] == results["next_token_loss"] > 0
    assert results["perplexity"] == math.exp(results["loss"])
    assert 0 <= results["next_token_accuracy"] <= 1
    assert 0 < results["unigram_accuracy"] < 1
    assert not [n for n in results if "masked" in n or "sentence" in n]
    folder = run_models.find(str(trained))
    found = config.BertConfig.from_json_file(f"{folder}/bert_config.json")
    assert found.is_causal
    lines = (trained / "logs/train/steps.jsonl").read_text().splitlines()
    losses = [json.loads(line)["next_token_loss"] for line in lines]
    assert len(losses) == 4 and losses[-1] < losses[0]


@pytest.mark.slow
def test_a_stopped_run_equals_an_uninterrupted_one(folder, trained, tmp_path):
    with pytest.raises(stopping.Stopped, match="after step 2"):
        run(folder, tmp_path, "--stop_at_step=2")
    run(folder, tmp_path)
    for name in (
        "checkpoints/step-00000004/state.json",
        "logs/train/steps.jsonl",
        "eval_results.json",
    ):
        assert (tmp_path / name).read_bytes() == (trained / name).read_bytes()


def test_the_objective_is_read_from_the_folder_for_evaluation(
    folder, trained, tmp_path
):
    run_pretraining.main(
        [
            "run_pretraining",
            f"--eval_input_file={folder}/records/held_out",
            f"--init_checkpoint={trained}",
            f"--output_dir={tmp_path}",
            "--eval_batch_size=4",
        ]
    )
    assert results_of(tmp_path) == pytest.approx(results_of(trained))


def fine_tune(folder, source, output_dir, *more):
    run_glue.main(
        [
            "run_glue",
            "--task_name=own",
            f"--train_file={folder}/rows.tsv",
            f"--dev_file={folder}/rows.tsv",
            "--text_column=text",
            "--labels=0,1",
            "--do_train",
            "--do_eval",
            f"--init_checkpoint={source}",
            f"--output_dir={output_dir}",
            "--max_seq_length=16",
            "--train_batch_size=8",
            "--num_train_epochs=2",
            "--bucket_lengths=none",
            *more,
        ]
    )


@pytest.fixture(scope="module")
def tuned(folder, trained):
    fine_tune(folder, trained, folder / "tuned", "--bilstm_units=4")
    return folder / "tuned"


@pytest.mark.slow
def test_fine_tuning_keeps_is_causal_and_adds_a_bilstm(
    folder, trained, tuned, tmp_path
):
    path = tuned / "best" / "bert_config.json"
    found = config.BertConfig.from_json_file(path)
    assert (found.is_causal, found.bilstm_units) == (True, 4)
    words = [tmp_path, "--bilstm_units=4"]
    with pytest.raises(stopping.Stopped):
        fine_tune(folder, trained, *words, "--stop_at_step=4")
    fine_tune(folder, trained, *words)
    for name in (
        "checkpoints/step-00000006/state.json",
        "logs/train/steps.jsonl",
        "eval_results.json",
    ):
        assert (tmp_path / name).read_bytes() == (tuned / name).read_bytes()
    # With --do_eval alone, the BiLSTM is found in the folder.
    before = results_of(tmp_path)["dev"]
    run_glue.main(
        [
            "run_glue",
            "--task_name=own",
            f"--dev_file={folder}/rows.tsv",
            "--text_column=text",
            "--labels=0,1",
            "--do_eval",
            "--max_seq_length=16",
            f"--output_dir={tmp_path}",
        ]
    )
    assert results_of(tmp_path)["dev"] == pytest.approx(before)


# Errors.


def test_records_with_masks_or_pairs_are_refused(folder, tmp_path):
    with pytest.raises(
        ValueError, match="pairs/train is pretraining.*--pairs=none --mask"
    ):
        run(folder, tmp_path, f"--input_file={folder}/pairs/train")
    with pytest.raises(ValueError, match="held_out is pretraining; a left"):
        run(folder, tmp_path, f"--eval_input_file={folder}/pairs/held_out")


def test_an_objective_that_contradicts_the_model_is_refused(
    folder, trained, tmp_path
):
    with pytest.raises(ValueError, match="masked_lm, but the .* is for left_t"):
        run(
            folder,
            tmp_path,
            "--objective=masked_lm",
            f"--bert_config_file={folder}/causal.json",
        )
    run(folder, tmp_path / "masked", "--objective=masked_lm")
    for without in ("--nodo_train", "--input_file="):
        with pytest.raises(ValueError, match="left_to_right, but .* is for ma"):
            run(
                folder,
                tmp_path / "other",
                without,
                f"--init_checkpoint={tmp_path}/masked",
            )


def export(source, folder, *more):
    words = [f"--model_dir={source}", f"--export_dir={folder}", *more]
    export_savedmodel.main(["export_savedmodel", *words])


@pytest.mark.slow
def test_an_export_equals_the_model(tuned, tmp_path):
    export(tuned, tmp_path / "export")
    loaded = tf.saved_model.load(str(tmp_path / "export"))
    texts = ["the cat", "the moon was over the water", ""]
    found = loaded.text(tf.constant(texts))["logits"].numpy()
    best = str(tuned / "best")
    model = models.BertClassifier(
        config.BertConfig.from_json_file(f"{best}/bert_config.json"), 2
    )
    Checkpoint.open(best).assign_to(model)
    batch = loaded.preprocess(tf.constant(texts))
    expected = model(batch, training=False)["logits"]
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.slow
def test_masks_and_cls_of_a_left_to_right_model_are_not_exported(
    trained, tmp_path
):
    with pytest.raises(ValueError, match="fill_mask does not fit a left-to-ri"):
        export(trained, tmp_path / "mask", "--kind=fill_mask")
    with pytest.raises(ValueError, match="--pooling=cls does not fit a left"):
        words = ["--kind=sentence_embedding", "--pooling=cls"]
        export(trained, tmp_path / "cls", *words)
    assert not list(tmp_path.iterdir())
    export(trained, tmp_path / "encoder")
    assert (tmp_path / "encoder" / "saved_model.pb").is_file()

"""Left-to-right pre-training, fine-tuning and export, end to end."""

import dataclasses
import json
import math
import shutil

import exports
import numpy as np
import pytest
import run_processes
import tensorflow as tf

from bert_tf import config
from bert_tf.checkpoint import run_models
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.model import models
from bert_tf.training import stopping
from run_scripts import make_pretraining_records, run_glue, run_pretraining


@pytest.fixture(scope="module")
def folder(tmp_path_factory, pretraining_records, tiny_config):
    """Folder of records without pairs or masks, others, configs, a table."""
    folder = tmp_path_factory.mktemp("left_to_right")
    shutil.copytree(pretraining_records, folder / "pairs")
    words = run_processes.record_arguments(folder / "records", dupe_factor=1)
    words += ["--pairs=none", "--masking_time=dynamic"]
    make_pretraining_records.main(["make_pretraining_records", *words])
    one_layer = dataclasses.replace(tiny_config, num_hidden_layers=1)
    one_layer.to_json_file(folder / "bert_config.json")
    causal = dataclasses.replace(one_layer, is_causal=True)
    causal.to_json_file(folder / "causal.json")
    rows = [f"the cat\t{i % 2}\n" for i in range(24)]
    (folder / "rows.tsv").write_text("text\tlabel\n" + "".join(rows))
    return folder


def run(folder, output_dir, *more):
    words = run_processes.training_arguments(
        folder / "records",
        output_dir,
        bert_config_file=folder / "bert_config.json",
        objective="left_to_right",
        num_train_steps=4,
        num_warmup_steps=1,
        eval_batch_size=4,
        learning_rate=1e-2,
        save_checkpoints_steps=2,
    )
    run_pretraining.main(["run_pretraining", *words, *more])


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
    lines = run_processes.log_lines(trained)
    losses = [line["next_token_loss"] for line in lines]
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


def fine_tune(folder, output_dir, *more):
    words = [
        *("--task_name=own", f"--dev_file={folder}/rows.tsv", "--do_eval"),
        *("--text_column=text", "--labels=0,1", "--max_seq_length=16"),
        f"--output_dir={output_dir}",
    ]
    run_glue.main(["run_glue", *words, *more])


@pytest.fixture(scope="module")
def training_flags(folder, trained):
    return [
        *(f"--init_checkpoint={trained}", f"--train_file={folder}/rows.tsv"),
        *("--do_train", "--train_batch_size=8", "--num_train_epochs=2"),
        "--bucket_lengths=none",
    ]


@pytest.fixture(scope="module")
def tuned(folder, training_flags):
    fine_tune(folder, folder / "tuned", *training_flags)
    return folder / "tuned"


@pytest.mark.slow
def test_fine_tuning_keeps_is_causal(folder, training_flags, tuned, tmp_path):
    path = tuned / "best" / "bert_config.json"
    found = config.BertConfig.from_json_file(path)
    assert found.is_causal
    with pytest.raises(stopping.Stopped):
        fine_tune(folder, tmp_path, *training_flags, "--stop_at_step=4")
    fine_tune(folder, tmp_path, *training_flags)
    for name in (
        "checkpoints/step-00000006/state.json",
        "logs/train/steps.jsonl",
        "eval_results.json",
    ):
        assert (tmp_path / name).read_bytes() == (tuned / name).read_bytes()
    before = results_of(tmp_path)["dev"]
    fine_tune(folder, tmp_path)
    assert results_of(tmp_path)["dev"] == pytest.approx(before)


# Errors.


def test_held_out_records_with_masks_or_pairs_are_refused(folder, tmp_path):
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


@pytest.mark.slow
def test_an_export_equals_the_model(tuned, tmp_path):
    exports.write(tuned, tmp_path / "export")
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
        exports.write(trained, tmp_path / "mask", "--kind=fill_mask")
    with pytest.raises(ValueError, match="--pooling=cls does not fit a left"):
        words = ["--kind=sentence_embedding", "--pooling=cls"]
        exports.write(trained, tmp_path / "cls", *words)
    assert not list(tmp_path.iterdir())
    exports.write(trained, tmp_path / "encoder")
    assert (tmp_path / "encoder" / "saved_model.pb").is_file()

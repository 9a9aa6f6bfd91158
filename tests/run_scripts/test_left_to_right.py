"""Left-to-right pre-training and fine-tuning, end to end."""

import dataclasses
import json
import math

import pytest
import run_processes

from bert_tf import config
from bert_tf.checkpoint import run_models
from run_scripts import make_pretraining_records, run_glue, run_pretraining

pytestmark = pytest.mark.usefixtures("eagerly_in_module")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_config):
    """Folder of records without pairs or masks, configs, a table."""
    folder = tmp_path_factory.mktemp("left_to_right")
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
def trained(folder, eagerly_in_module):
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


@pytest.mark.slow
def test_fine_tuning_keeps_is_causal(folder, trained, tmp_path):
    goals = [*("--task_name=own", "--do_eval", f"--output_dir={tmp_path}")]
    goals += [f"--dev_file={folder}/rows.tsv", "--text_column=text"]
    goals += ["--labels=0,1", "--max_seq_length=16"]
    training = [f"--train_file={folder}/rows.tsv", "--do_train"]
    training += [f"--init_checkpoint={trained}", "--bucket_lengths=none"]
    training += ["--train_batch_size=8", "--num_train_epochs=2"]
    run_glue.main(["run_glue", *goals, *training])
    path = tmp_path / "best" / "bert_config.json"
    assert config.BertConfig.from_json_file(path).is_causal
    before = results_of(tmp_path)["dev"]
    run_glue.main(["run_glue", *goals])
    assert results_of(tmp_path)["dev"] == pytest.approx(before)


# Errors.


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

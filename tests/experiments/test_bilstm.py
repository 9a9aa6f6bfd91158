"""A BiLSTM on top of BERT: against NumPy, and in a run."""

import dataclasses
import json

import exports
import keras
import numpy as np
import oracle
import pytest
import tensorflow as tf
from random_weights import weights_of

from bert_tf.checkpoint import model_folders
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.model import models as bert_models
from experiments.bilstm import models, run_glue
from experiments.bilstm.config import BiLSTMConfig
from experiments.bilstm.layer import BiLSTM

HIDDEN = np.random.default_rng(3).normal(0, 1, (2, 6, 4)).astype(np.float32)
MASK = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]], np.int32)


def test_the_layer_matches_the_reference_on_rows_with_padding():
    keras.utils.set_random_seed(1)
    layer = BiLSTM(3, name="bilstm")
    layer.build((None, None, 4), (None, None))
    one, two = layer.forward.cell.kernel, layer.backward.cell.kernel
    assert (one.numpy() != two.numpy()).all()
    rng = np.random.default_rng(2)
    for weight in layer.weights:
        weight.assign(rng.normal(0.1, 0.5, weight.shape))
    weights = {
        name: weight.numpy().astype(np.float64)
        for name, weight in model_folders.weight_names(layer).items()
    }
    states, last = layer(HIDDEN, MASK)
    for row, length in enumerate((6, 4)):
        expected, at_end = oracle.bilstm(
            HIDDEN[row, :length], weights, "bilstm", 3
        )
        np.testing.assert_allclose(states[row, :length], expected, atol=1e-6)
        np.testing.assert_allclose(last[row], at_end, atol=1e-6)
    assert np.isfinite(states).all()


def test_the_layer_computes_in_float32_under_bfloat16():
    layer = BiLSTM(3, dtype="mixed_bfloat16")
    states, last = layer(tf.constant(HIDDEN, tf.bfloat16), MASK)
    assert states.dtype == last.dtype == tf.float32
    assert {weight.dtype for weight in layer.weights} == {"float32"}


@pytest.mark.parametrize("task", ["classification", "tagging", "spans"])
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_a_bilstm_between_encoder_and_head_matches_the_reference(
    tiny_config, make_batch, task, dtype
):
    config = BiLSTMConfig(**dataclasses.asdict(tiny_config), bilstm_units=5)
    batch = make_batch(config)
    keras.utils.set_random_seed(1)
    model = models.for_task(task, config, 3 * (task != "spans"), dtype=dtype)
    weights = weights_of(model)
    of_encoder = {n.removeprefix("encoder/"): x for n, x in weights.items()}
    hidden = oracle.encode(batch, of_encoder, config)[0][-1]
    kernel, bias = (
        weights[f"{task}/dense/{part}"] for part in ("kernel", "bias")
    )
    assert kernel.shape[0] == 10
    outputs = model(batch, training=False)
    for row, length in enumerate(batch["input_mask"].sum(axis=1)):
        each, last = oracle.bilstm(hidden[row, :length], weights, "bilstm", 5)
        inputs = last if task == "classification" else each
        expected = inputs @ kernel + bias
        if task == "spans":
            logits = np.stack(
                [outputs[f"{n}_logits"][row, :length] for n in ("start", "end")]
            ).T
        else:
            logits = outputs["logits"][row].numpy()[: len(expected)]
        tolerance = 1e-5 if dtype == "float32" else 0.02
        np.testing.assert_allclose(logits, expected, atol=tolerance)
    restored = type(model).from_config(model.get_config())
    assert restored.config == config


def test_multiple_choice_has_no_model_with_a_bilstm(tiny_config):
    config = BiLSTMConfig(**dataclasses.asdict(tiny_config), bilstm_units=5)
    with pytest.raises(ValueError, match="'multiple_choice' has a BiLSTM"):
        models.for_task("multiple_choice", config)


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_a_causal_encoder_is_fine_tuned_and_its_run_is_of_this_module(
    tmp_path, tiny_config
):
    rows = [f"the cat\t{i % 2}\n" for i in range(24)]
    (tmp_path / "rows.tsv").write_text("text\tlabel\n" + "".join(rows))
    config = dataclasses.replace(
        tiny_config, num_hidden_layers=1, is_causal=True
    )
    model = bert_models.BertRegressor(config)
    exports.save_model(model, "regression", tmp_path / "model")
    folder = tmp_path / "run"
    flags = [
        *("--task_name=own", "--text_column=text", "--labels=0,1"),
        *(f"--{x}_file={tmp_path}/rows.tsv" for x in ("train", "dev")),
        *(f"--init_checkpoint={tmp_path}/model", "--max_seq_length=16"),
        *("--do_train", "--do_eval", "--train_batch_size=8"),
        *("--num_train_epochs=1", "--bilstm_units=4"),
        f"--output_dir={folder}",
    ]

    run_glue.main(["run_glue", *flags])
    config = json.loads((folder / "best/bert_config.json").read_text())
    assert (config["is_causal"], config["bilstm_units"]) == (True, 4)
    before = (folder / "eval_results.json").read_bytes()
    run_glue.main(["run_glue", *flags])  # Evaluated again.
    assert (folder / "eval_results.json").read_bytes() == before
    with pytest.raises(ValueError, match="bilstm_units=4 in a BERT config"):
        Checkpoint.open(str(folder))

import dataclasses

import keras
import numpy as np
import pytest
import reference_bert
from random_weights import randomised, weights_of

from bert_tf import config as bert_config
from experiments.bilstm import models
from experiments.bilstm.config import BiLSTMConfig


@pytest.fixture
def batch(tiny_config, make_batch):
    return make_batch(tiny_config)


def with_units(config, units=5):
    return BiLSTMConfig(**dataclasses.asdict(config), bilstm_units=units)


@pytest.mark.parametrize("task", ["classification", "tagging", "spans"])
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_a_bilstm_between_encoder_and_head_matches_the_reference(
    tiny_config, batch, task, dtype
):
    config = with_units(tiny_config)
    keras.utils.set_random_seed(1)
    model = models.for_task(task, config, 3 * (task != "spans"), dtype=dtype)
    weights = weights_of(model)
    of_encoder = {n.removeprefix("encoder/"): x for n, x in weights.items()}
    hidden = reference_bert.encode(batch, of_encoder, config)[0][-1]
    kernel, bias = (
        weights[f"{task}/dense/{part}"] for part in ("kernel", "bias")
    )
    assert kernel.shape[0] == 10
    outputs = model(batch, training=False)
    for row, length in enumerate(batch["input_mask"].sum(axis=1)):
        each, last = reference_bert.bilstm(
            hidden[row, :length], weights, "bilstm", 5
        )
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


def test_a_classifier_of_a_causal_encoder_depends_on_the_last_token(
    tiny_config, make_batch
):
    config = dataclasses.replace(tiny_config, is_causal=True)
    model = randomised(
        models.for_task("classification", with_units(config, 3), 3)
    )
    batch = make_batch(config, rows=1)
    logits = model(batch)["logits"].numpy()
    ids = np.array(batch["input_word_ids"])
    last = np.sum(batch["input_mask"]) - 1
    ids[0, last] = (ids[0, last] + 1) % config.vocab_size
    other = model(dict(batch) | {"input_word_ids": ids})["logits"]
    assert np.abs(other - logits).max() > 1e-4


def test_its_files_are_known_where_its_module_is(tiny_config, batch, tmp_path):
    model = models.for_task("regression", with_units(tiny_config))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is models.BiLSTMRegressor
    np.testing.assert_allclose(
        *(m(batch)["predictions"] for m in (loaded, model)), atol=1e-6
    )
    model.config.to_json_file(tmp_path / "bert_config.json")
    assert BiLSTMConfig.from_json_file(tmp_path / "bert_config.json") == (
        model.config
    )
    with pytest.raises(ValueError, match="bilstm_units=5 in a BERT config"):
        bert_config.BertConfig.from_json_file(tmp_path / "bert_config.json")


def test_tasks_and_units_without_a_model_are_refused(tiny_config):
    with pytest.raises(ValueError, match="'multiple_choice' has a BiLSTM"):
        models.for_task("multiple_choice", with_units(tiny_config))
    with pytest.raises(ValueError, match="bilstm_units is 0; it should be"):
        with_units(tiny_config, 0)

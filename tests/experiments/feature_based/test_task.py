import json

import pytest
import tensorflow as tf

from bert_tf.checkpoint import model_folders
from bert_tf.model import models
from experiments.feature_based.task import NerFeatures

WEIGHTS = [[0.0, 1, 1, 0], [0, 1, 0, 0], [0, 1, 0, 0]]
TAGS = [[0, 2, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0]]


def test_the_loss_of_the_feature_task_is_over_words(tiny_config):
    task = NerFeatures(None, "last", 2, labels=["O"] * 3)
    model = task.build_model(tiny_config)
    outputs = model(
        batch := {
            "word_features": tf.ones([3, 4, 1, 16]),
            "input_mask": tf.ones([3, 4], tf.int32),
            "tag_ids": tf.constant(TAGS),
            "tag_weights": tf.constant(WEIGHTS),
            "is_real_example": tf.constant([1.0, 1.0, 0.0]),
        }
    )
    assert outputs["logits"].shape == (3, 4, 3)
    loss = task.losses(outputs, batch)["tagging_loss"]
    assert float(loss.weight) == 3


def test_its_model_folder_is_refused_with_the_command(tiny_config, tmp_path):
    model_folders.save_model(
        str(tmp_path),
        models.BertRegressor(tiny_config),
        metadata={"task": "feature_tagging", "labels": ["O", "X"]},
    )
    assert json.loads((tmp_path / "model.json").read_text())["task"]
    with pytest.raises(
        ValueError,
        match="'feature_tagging'; such a model is of experiments.feature_based"
        ".run_ner_features alone",
    ):
        model_folders.read(str(tmp_path))

"""export_model.py without flags; see also test_export_savedmodel.py."""

import pytest
import tensorflow as tf
from exports import make_model, save_model

from bert_tf.export import export_model, kinds


@pytest.mark.slow
def test_export_can_be_called_without_flags(tmp_path):
    save_model(make_model("regression"), "regression", tmp_path / "model")
    config = kinds.ExportConfig(
        model_dir=str(tmp_path / "model"),
        export_dir=str(tmp_path / "export"),
        kind="sentence_embedding",
        pooling="cls",
    )
    export_model.export(config)
    loaded = tf.saved_model.load(config.export_dir)
    assert loaded.text(["the cat"])["embedding"].shape == (1, 16)

"""export_model.py without flags; see also test_export_savedmodel.py."""

import numpy as np
import pytest
import tensorflow as tf
from exports import make_model, save_model

from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.serving import export_model, kinds
from bert_tf.workflows import conversion


def export(model_dir, export_dir, **settings):
    config = kinds.ExportConfig(
        model_dir=str(model_dir), export_dir=str(export_dir), **settings
    )
    export_model.export(config)


@pytest.mark.slow
def test_export_can_be_called_without_flags(tmp_path):
    save_model(
        make_model("regression"),
        "regression",
        tmp_path / "model",
        source=f"google {tmp_path}/bert",  # As older folders have it.
    )
    settings = {"kind": "sentence_embedding", "pooling": "cls"}
    export(tmp_path / "model", tmp_path / "export", **settings)
    loaded = tf.saved_model.load(str(tmp_path / "export"))
    assert loaded.text(["the cat"])["embedding"].shape == (1, 16)
    metadata = (tmp_path / "export/assets.extra/model.json").read_text()
    assert '"source": "google bert"' in metadata


def test_a_model_is_the_same_in_every_export(tmp_path):
    model = make_model("classification", num_hidden_layers=2)
    save_model(model, "classification", tmp_path / "model")
    given = Checkpoint.open(tmp_path / "model")
    first, second = (
        export_model.load_model(given, "float32") for _ in range(2)
    )
    for x, y in zip(first.variables, second.variables, strict=True):
        np.testing.assert_array_equal(x, y)
    seeds = {
        tuple(np.array(x))
        for x in first.variables
        if x.name == "seed_generator_state"
    }
    # Two layers' dropout of attention; that of hidden states is off here.
    assert seeds == {(1, 0), (4, 0)}


@pytest.mark.parametrize("inside", ["", "step-10"])
def test_an_export_never_replaces_its_source(tmp_path, inside):
    source = tmp_path / "out" / inside
    source.mkdir(parents=True)
    for path in (source / "model.safetensors", tmp_path / "out/saved_model.pb"):
        path.write_text("old")
    with pytest.raises(ValueError, match="contains the source"):
        export(source, tmp_path / "out", overwrite=True)
    assert (source / "model.safetensors").read_text() == "old"


def test_an_existing_export_is_refused_before_the_model_is_read(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/saved_model.pb").write_text("old")
    with pytest.raises(ValueError, match="already exists.*--overwrite"):
        export(tmp_path / "none", tmp_path / "out")


def test_errors_name_the_source_not_its_conversion(tmp_path):
    source = tmp_path / "bert"
    save_model(make_model("classification"), "classification", tmp_path / "own")
    conversion.convert(str(tmp_path / "own"), "hugging_face", str(source))
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        (source / name).unlink(missing_ok=True)
    with pytest.raises(ValueError, match=f"^{source}/vocab.txt is missing"):
        export(source, tmp_path / "out")

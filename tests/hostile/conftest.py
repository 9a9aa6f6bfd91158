"""A folder with all inputs of `commands.COMMANDS`, copied for each case."""

import os
import pathlib
import shutil

import pytest


@pytest.fixture(scope="session")
def inputs(
    made_once, exported, tiny_config, tiny_vocab_file, pretraining_records
):
    """The folder, shared by all tests; they change copies only."""

    def make(folder):
        import exports
        import planted_data

        from bert_tf.workflows import conversion

        planted_data.write_all(folder, tiny_config)
        shutil.copytree(pretraining_records, folder / "records")
        shutil.copy(tiny_vocab_file, folder / "vocab.txt")
        tiny_config.to_json_file(folder / "bert_config.json")
        model = exports.make_model("classification")
        exports.save_model(model, "classification", folder / "model")
        # The same model in other formats; model_garden has only pre-training.
        for name in ("google", "hugging_face", "keras_hub"):
            conversion.convert(
                str(folder / "model"), name, str(folder / name), compare=False
            )
        model = exports.make_model("pretraining")
        exports.save_model(model, "pretraining", folder / "pretrained")
        conversion.convert(
            str(folder / "pretrained"),
            "model_garden",
            str(folder / "model_garden"),
            compare=False,
        )
        shutil.copytree(exported("classification").path, folder / "export")

    return made_once("hostile_inputs", make)


@pytest.fixture(scope="session")
def load_once():
    """`predictions.load`, which loads equal SavedModels once."""
    from hostile import commands

    from bert_tf.serving import predictions

    load, loaded = predictions.load, {}

    def load_or_reuse(export_dir, signature):
        files = commands.digests(pathlib.Path(export_dir), ())
        key = (signature, *sorted(files.items()))
        if key not in loaded:
            loaded[key] = load(export_dir, signature)
        return loaded[key]

    return load_or_reuse


@pytest.fixture
def folder(inputs, load_once, tmp_path, monkeypatch) -> pathlib.Path:
    """A copy of the inputs, which is the working directory."""
    path = tmp_path / "work"
    # Names of records are absolute in some messages; contents are small.
    shutil.copytree(inputs, path)
    monkeypatch.chdir(path)
    monkeypatch.setenv("BERT_TF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("bert_tf.serving.predictions.load", load_once)
    assert not os.path.exists("out")
    return path

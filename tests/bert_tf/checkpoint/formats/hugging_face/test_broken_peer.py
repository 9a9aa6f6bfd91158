"""peer.py if transformers is missing or broken, or weights are missing."""

import sys
import types

import pytest

from bert_tf.checkpoint import parity
from bert_tf.checkpoint.formats.hugging_face import peer

FILE = "torch/lib/libtorch.so: undefined symbol"


def outputs(config):
    return peer.outputs(
        "model", "BertModel", "pretraining", True, parity.batch(config, "spans")
    )


@pytest.fixture
def transformers(monkeypatch):
    """Empty modules in place of torch and transformers, for tests to fill."""
    found = types.ModuleType("transformers")
    found.__version__ = "9.9"
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    monkeypatch.setitem(sys.modules, "transformers", found)
    return found


@pytest.mark.parametrize("name", ["torch", "transformers"])
def test_without_torch_or_transformers_there_are_no_outputs(
    transformers, tiny_config, monkeypatch, name
):
    monkeypatch.setitem(sys.modules, name, None)
    assert outputs(tiny_config) is None


def test_a_broken_torch_is_an_error(tmp_path, tiny_config, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    (tmp_path / "torch.py").write_text(f"raise ImportError({FILE!r})")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="undefined symbol"):
        outputs(tiny_config)
    (tmp_path / "torch.py").write_text("import a_part_that_torch_needs")
    with pytest.raises(ModuleNotFoundError, match="a_part_that_torch_needs"):
        outputs(tiny_config)


def test_missing_weights_are_named(transformers, tiny_config):
    class Found:
        @staticmethod
        def from_pretrained(folder, **settings):
            assert settings["local_files_only"]
            return None, {"missing_keys": ["pooler.dense.weight", "a"]}

    transformers.BertModel = Found
    with pytest.raises(
        ValueError,
        match="transformers 9.9 does not find a, pooler.dense.weight in model",
    ):
        outputs(tiny_config)

"""Tables of tokenizer.py and predict.py agree with the classes of kinds."""

import importlib
import json
import sys

import exports
import pytest

from bert_tf.contrib.runtimes import export_network, networks, tokenizer
from bert_tf.contrib.runtimes.config import RuntimeConfig
from bert_tf.serving import kinds
from tfrecords.text.tokenizer import BertTokenizer

NAMES = [*tokenizer.FIELDS]


@pytest.fixture(scope="module")
def predict():
    """predict.py, which imports the tokenizer.py that is copied beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "tokenizer", tokenizer)
        yield importlib.import_module("bert_tf.contrib.runtimes.predict")
    del sys.modules["bert_tf.contrib.runtimes.predict"]


def test_kinds_of_predict_are_in_the_tables(predict):
    assert set(NAMES) <= set(kinds.CLASSES)
    assert set(predict._ENTRIES_OF) <= set(NAMES)
    assert all(hasattr(predict.Model, f"_{name}") for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_fields_are_those_of_the_class(name):
    kind = kinds.by_name(name)
    ranks = {n: x for of in kind.inputs.values() for n, x in of.items()}
    assert tokenizer.FIELDS[name] == tuple(ranks)
    lists = {n for n, rank in ranks.items() if rank == 2}
    assert lists == set(ranks) & set(tokenizer.LISTS)
    assert tokenizer.KEPT_TOKENS.get(name, ()) == kind.kept_tokens


@pytest.mark.parametrize("name", NAMES)
def test_predict_reads_what_the_export_writes(name, predict, tmp_path):
    kind = kinds.by_name(name)
    task = kind.task or "pretraining"
    model = exports.make_model(task)
    words = BertTokenizer(exports.VOCAB_FILE, kept_tokens=kind.kept_tokens)
    metadata = {"task": task, "labels": exports.LABELS, "max_query_length": 4}
    options = kinds.AnswerOptions()
    answers = kind(model, words, exports.MAX_SEQ_LENGTH, metadata, options)
    config = RuntimeConfig(model_dir="m", export_dir="e", format="onnx")
    written = export_network.make_settings(config, answers)
    network = networks.make(answers)
    outputs = network.get_concrete_function().structured_outputs
    written |= {"outputs": sorted(outputs), "vocab_size": words.vocab_size}
    written["vocab_sha256"] = words.sha256
    (tmp_path / "model.json").write_text(json.dumps(written))
    assert predict.read_settings(str(tmp_path)) == written

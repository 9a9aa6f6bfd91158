"""Special tokens at any id: answers of every kind follow entries, not ids."""

import collections.abc
import pathlib

import exports
import numpy as np
import pytest

import bert_tf
from bert_tf.checkpoint import model_folders
from bert_tf.contrib.runtimes import tokenizer as plain_tokenizer
from tfrecords.text import vocab

ENTRIES = vocab.read(exports.VOCAB_FILE)
KINDS = [name for name in exports.TEXTS if name != "encoder"]


def moved(entries):
    """Returns the entries with [MASK] first, as in BETO, and [PAD] last."""
    rest = [e for e in entries if e not in ("[MASK]", "[CLS]", "[PAD]")]
    middle = len(rest) // 2
    return ["[MASK]", *rest[:middle], "[CLS]", *rest[middle:], "[PAD]"]


@pytest.fixture(scope="module")
def odd_vocab(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    vocab.write(moved(ENTRIES), str(path))
    return str(path)


@pytest.fixture(params=KINDS)
def both(request, odd_vocab, tmp_path):
    """Kind; folders of a model and of the same with its entries moved."""
    kind = request.param
    task, model = exports.TASKS.get(kind, kind), exports.make_for(kind)
    weights = model_folders.weight_names(model)
    of_entries = [
        weights[name]
        for name in weights
        if name.endswith(("word_embeddings", "masked_lm/bias"))
    ]
    rng = np.random.default_rng(3)
    for weight in of_entries:
        weight.assign(rng.normal(size=weight.shape))
    exports.save_model(model, task, tmp_path / "usual")
    for weight in of_entries:
        rows = [ENTRIES.index(entry) for entry in moved(ENTRIES)]
        weight.assign(weight.numpy()[rows])
    exports.save_model(model, task, tmp_path / "odd", vocab_file=odd_vocab)
    return kind, str(tmp_path / "usual"), str(tmp_path / "odd")


def leaves(value):
    """Yields the names and numbers of an answer, in order."""
    if isinstance(value, collections.abc.Mapping):
        value = list(value.items())
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def check_equal(found, expected):
    found, expected = list(leaves(found)), list(leaves(expected))
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, float):
            assert one == pytest.approx(other, rel=1e-4, abs=1e-5)
        else:
            assert one == other


@pytest.mark.usefixtures("eagerly")
@pytest.mark.usefixtures("eagerly")
def test_answers_do_not_depend_on_where_special_tokens_stand(both):
    kind, *folders = both
    inputs = exports.inputs(exports.TEXTS[kind])
    settings = {"kind": kind} | exports.SETTINGS.get(kind, {})
    usual, odd = (bert_tf.Predictor(x, **settings)(inputs) for x in folders)
    assert len(usual) == len(inputs)
    check_equal(odd, usual)


def test_the_tokenizer_beside_other_runtimes_has_the_same_entries(odd_vocab):
    usual = plain_tokenizer.Tokenizer(exports.VOCAB_FILE, True, ["[MASK]"])
    odd = plain_tokenizer.Tokenizer(odd_vocab, True, ["[MASK]"])
    for text in ("the cat sat", "", "Café, naïve!", "the [MASK] sat [MASK]"):
        rows = [one.encode(text, max_seq_length=8) for one in (usual, odd)]
        names = [
            [one.entries[i] for i in row["input_word_ids"]]
            for one, row in zip((usual, odd), rows, strict=True)
        ]
        assert names[0] == names[1]
        assert usual.mask_positions(rows[0]) == odd.mask_positions(rows[1])
    assert pathlib.Path(odd_vocab).read_text().startswith("[MASK]\n")

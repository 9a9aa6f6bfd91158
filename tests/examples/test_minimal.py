"""examples/minimal.py, run on a small text for a few steps."""

import importlib.util
import json
import os
import pathlib
import random
import re
import subprocess
import sys

import numpy as np
import pytest

from tfrecords.text import documents

ROOT = pathlib.Path(__file__).parents[2]
TEXTS = ["The ship sails to the north.", "It comes back!", ""]
# Saves the outputs of the model itself when the example exports it.
PROGRAM = f"""
import sys
import minimal
import numpy as np

folder, text_file = sys.argv[1:]
minimal.PRETRAINING["num_steps"] = 60
minimal.FINE_TUNING["num_steps"] = 40
minimal.BATCH_SIZE = 16
export = minimal.export


def export_and_ask(model, tokenizer, path):
    export(model, tokenizer, path)
    inputs = minimal.encode(tokenizer, {TEXTS!r})
    logits = model(inputs, training=False)["logits"]
    np.save(folder + "/logits.npy", logits)


minimal.export = export_and_ask
minimal.main(folder, text_file)
"""


@pytest.fixture(scope="module")
def minimal():
    """The example as a module; importing it does not run it."""
    path = ROOT / "examples" / "minimal.py"
    spec = importlib.util.spec_from_file_location("minimal", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_text(path, num_documents):
    """Writes documents of four sentences; the first has other words."""
    rng = random.Random(1)
    things = ["ship", "cat", "house", "captain", "garden", "river"]
    doings = ["goes to the north", "sleeps by the door", "waits for rain"]
    documents = []
    for _ in range(num_documents):
        thing = rng.choice(things)
        lines = [f"There was a {thing} in the old town."]
        lines += [f"The {thing} {rng.choice(doings)}." for _ in range(3)]
        documents.append("\n".join(lines))
    path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder and printed output of a run in a fresh process."""
    folder = tmp_path_factory.mktemp("minimal")
    text_file = folder / "text.txt"
    write_text(text_file, 60)
    paths = os.pathsep.join([str(ROOT), str(ROOT / "examples")])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), str(text_file)],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    return folder, done.stdout


@pytest.mark.slow
def test_the_losses_decrease(run):
    _, output = run
    masked_lm = re.findall(r"masked_lm_loss (\d+\.\d+)", output)
    assert len(masked_lm) == 3  # 60 steps, a report every 20.
    assert float(masked_lm[-1]) < float(masked_lm[0]) - 0.5
    classification = re.findall(r"classification_loss (\d+\.\d+)", output)
    assert len(classification) == 2
    assert float(classification[-1]) < float(classification[0])
    accuracy, majority = re.search(
        r"test accuracy (\S+), majority baseline (\S+)\n", output
    ).groups()
    assert float(accuracy) > 0.9 and majority == "0.500"


@pytest.mark.slow
def test_the_records_are_valid_for_the_library(run, minimal):
    from tfrecords import schema
    from tfrecords.io import records
    from tfrecords.reading import batches
    from tfrecords.text import vocab

    folder, output = run
    entries = vocab.read(str(folder / "vocab.txt"))
    # 42 documents of four sentences, and 12 with two labelled ones.
    for name, features, num_examples in (
        ("pretraining", schema.PRETRAINING, 42 * 3),
        ("classification", schema.CLASSIFICATION, 12 * 2),
    ):
        path = str(folder / f"{name}.tfrecord")
        assert f"{path}: {num_examples} examples\n" in output
        found = records.Records.open(path)
        found.check(features, minimal.SIZES, len(entries))
        (batch,) = batches.evaluation_batches(
            found,
            features,
            minimal.SIZES,
            batch_size=num_examples,
            vocab_size=len(entries),
        )
        batch = {key: tensor.numpy() for key, tensor in batch.items()}
        assert len(batch["is_real_example"]) == num_examples
        if name == "classification":
            assert batch["label_ids"].mean() == 0.5
            continue
        assert 0.3 < batch["next_sentence_labels"].mean() < 0.7
        is_masked = batch["masked_lm_weights"] > 0
        assert is_masked.any(axis=1).all()
        rows = np.arange(num_examples)[:, None]
        shown = batch["input_word_ids"][rows, batch["masked_lm_positions"]]
        mask_share = (shown == entries.index("[MASK]"))[is_masked].mean()
        assert 0.7 < mask_share < 0.9


def answers(logits):
    """Returns the probabilities and labels that the export should give."""
    exp = np.exp(logits - logits.max(axis=1, keepdims=True))
    labels = np.array(["later", "opening"])[logits.argmax(axis=1)]
    return exp / exp.sum(axis=1, keepdims=True), labels.tolist()


@pytest.mark.slow
def test_the_saved_model_equals_the_model(run):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - the operations of the tokenizer.

    folder, output = run
    loaded = tf.saved_model.load(str(folder / "saved_model"))
    served = loaded.signatures["serving_default"](tf.constant(TEXTS))
    probabilities, labels = answers(np.load(folder / "logits.npy"))
    np.testing.assert_allclose(
        served["probabilities"].numpy(), probabilities, atol=1e-6
    )
    assert [label.decode() for label in served["label"].numpy()] == labels
    assert re.search(
        r"There was a \w+ in the old town.': opening, [01]", output
    )


@pytest.mark.slow
def test_the_saved_model_in_the_loader_of_tensorflow_serving(run, c_program):
    import c_loader

    folder, _ = run
    path = str(folder / "saved_model")
    served = c_loader.run(c_program, path, {"text": TEXTS})
    probabilities, labels = answers(np.load(folder / "logits.npy"))
    np.testing.assert_allclose(
        served["probabilities"].astype(float), probabilities, atol=1e-5
    )
    assert served["label"].tolist() == labels


def test_a_short_text_is_refused(minimal, tmp_path):
    path = tmp_path / "short.txt"
    write_text(path, 19)
    message = f"{path} has 19 documents with two or more sentences; at least 20"
    with pytest.raises(ValueError, match=re.escape(message)):
        minimal.main(str(tmp_path / "run"), str(path))


def test_docstrings_are_documents_without_duplicate_paragraphs(
    minimal, tmp_path, monkeypatch
):
    monkeypatch.setattr(sys, "stdlib_module_names", {"json", "argparse"})
    path = tmp_path / "docstrings.jsonl"
    minimal.write_docstrings(path)
    rows = path.read_text(encoding="utf-8").splitlines()
    texts = [json.loads(row)["text"] for row in rows]
    assert any("to a JSON formatted" in text for text in texts)
    assert not any(">>>" in text for text in texts)
    paragraphs = [line for text in texts for line in text.split("\n")]
    assert len(paragraphs) == len(set(paragraphs)) > 50


def test_examples_are_labelled_by_their_place(minimal, tiny_vocab_file):
    tokenizer = minimal.BertTokenizer(tiny_vocab_file, do_lower_case=True)
    sentences = {"opening": "the old town .", "later": "she sailed north ."}
    document = documents.Document(list(sentences.values()), "text.txt:1")
    examples = minimal.make_classification_examples(
        [document], tokenizer, np.random.default_rng(1)
    )
    for label, ids in zip(
        examples["label_ids"], examples["input_word_ids"], strict=True
    ):
        wanted = minimal.encode(tokenizer, [sentences[minimal.LABELS[label]]])
        np.testing.assert_array_equal(ids, wanted["input_word_ids"][0])
    assert len(examples["label_ids"]) == 2


def test_the_example_stays_short():
    path = ROOT / "examples" / "minimal.py"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 287

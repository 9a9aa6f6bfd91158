"""Raw text -> records -> pre-trained BERT -> classifier -> SavedModel.

The whole pipeline on one page; reference_bert.py is the model itself, in NumPy.
Read it from top to bottom, and run it:

    TF_CPP_MIN_LOG_LEVEL=3 python examples/minimal.py [folder [text_file]]

It takes about a minute on two CPU cores and writes to `folder` or runs/minimal.
Without a text file it reads the docstrings of Python's standard library. A
text file has one sentence on each line and a blank line between documents.

"The paper" is Devlin et al. 2018, "the original" is google-research/bert. N
texts or examples, B batch, S sequence, P predictions, V vocabulary, C classes.
"""

import itertools
import json
import pathlib
import re
import sys
import sysconfig

import keras
import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.model.models import BertClassifier, BertPretrainer
from bert_tf.tasks import losses
from bert_tf.training.optimizers import AdamW, WarmupDecay
from tfrecords import schema
from tfrecords.pretraining import masking
from tfrecords.text import segments, vocab, vocab_learning
from tfrecords.text.documents import read_documents
from tfrecords.text.tokenizer import BertTokenizer

SEED = 12345
VOCAB_SIZE = 4000  # V; 30,522 in the released uncased models.
MAX_SEQ_LENGTH = 64  # S; 512 in the paper.
MAX_PREDICTIONS_PER_SEQ = 10  # P; about 15 % of S.
SIZES = {
    "max_seq_length": MAX_SEQ_LENGTH,
    "max_predictions_per_seq": MAX_PREDICTIONS_PER_SEQ,
}
MODEL = "tiny"  # 2 layers of 128 hidden units (Turc et al. 2019).
# 0.02 in the original, whose hidden size is at least 768. With that, a hidden
# size of 128 learns nothing but token frequencies in 200 steps.
INITIALIZER_RANGE = 0.05
BATCH_SIZE = 32  # B; 256 in the paper, for 1,000,000 steps.
PRETRAINING = {"num_steps": 200, "learning_rate": 3e-4}
FINE_TUNING = {"num_steps": 100, "learning_rate": 5e-4}
STEPS_PER_REPORT = 20
# The fine-tuning task: is a sentence the first of its document or a later one?
LABELS = ("later", "opening")  # C = 2


def write_docstrings(output_file):
    """Writes prose from the standard library, one JSON line per docstring."""
    library = pathlib.Path(sysconfig.get_paths()["stdlib"])
    lines, seen = [], set()
    for name in sorted(sys.stdlib_module_names):
        files = [*library.glob(f"{name}.py"), *library.glob(f"{name}/**/*.py")]
        for path in sorted(files):
            code = path.read_text("utf-8", errors="replace")
            for docstring in re.findall('"""(.+?)"""', code, re.DOTALL):
                blocks = re.split(r"\n\s*\n", docstring)
                blocks = dict.fromkeys(" ".join(b.split()) for b in blocks)
                prose = [b for b in blocks if re.match(r"[A-Z][^>]{30,}\.$", b)]
                # No sentence may be in both training and test data.
                prose = [block for block in prose if block not in seen]
                seen.update(prose)
                if prose:
                    lines.append(json.dumps({"text": "\n".join(prose)}) + "\n")
    pathlib.Path(output_file).write_text("".join(lines), "utf-8")


def encode(tokenizer, texts_a, texts_b=None):
    """Returns schema.ENCODER_INPUTS for texts or pairs: each [N, S] int32.

    input_word_ids  [CLS] a a a [SEP] b b [SEP] [PAD] [PAD]
    input_mask        1   1 1 1   1   1 1   1     0     0
    input_type_ids    0   0 0 0   0   1 1   1     0     0
    """
    tokens_a = tokenizer(texts_a)  # [N, (tokens)]
    tokens_b = None if texts_b is None else tokenizer(texts_b)
    special_ids = tokenizer.cls_id, tokenizer.sep_id
    return segments.pack(tokens_a, tokens_b, MAX_SEQ_LENGTH, *special_ids)


def make_pretraining_examples(documents, tokenizer, rng):
    """Returns schema.PRETRAINING: pairs of sentences with masked tokens.

    Section 3.1 of the paper. Here a segment is one sentence. In the paper, and
    in tfrecords/pretraining/, it is several sentences that together fill S.
    """
    pairs, labels = [], []
    for index, document in enumerate(documents):
        for a, b in itertools.pairwise(document.sentences):
            is_random = rng.random() < 0.5
            if is_random:  # Negative indices count from the end.
                other = documents[index - rng.integers(1, len(documents))]
                b = rng.choice(other.sentences)
            pairs.append((a, b))
            labels.append(int(is_random))
    inputs = encode(tokenizer, *zip(*pairs, strict=True))
    masked = masking.mask(  # 80 % become [MASK], 10 % random, 10 % stay.
        inputs["input_word_ids"].numpy(),
        num_tokens=inputs["input_mask"].numpy().sum(axis=1),  # [N]
        seeds=rng.integers(2**63, size=len(pairs), dtype=np.uint64),  # [N]
        vocabulary=masking.Vocabulary.of(tokenizer.vocab),
        rules=masking.Rules(
            max_predictions_per_seq=MAX_PREDICTIONS_PER_SEQ, masked_lm_prob=0.15
        ),
    )
    labels = np.array(labels, np.int32)
    return inputs | masked.features() | {"next_sentence_labels": labels}


def make_classification_examples(documents, tokenizer, rng):
    """Returns schema.CLASSIFICATION: two sentences of each document."""
    texts, labels = [], []
    for document in documents:
        opening, *later = document.sentences
        texts += [opening, rng.choice(later)]
        labels += [LABELS.index("opening"), LABELS.index("later")]
    return encode(tokenizer, texts) | {"label_ids": np.array(labels, np.int32)}


def write_records(path, examples, features):
    """Writes a TFRecord file; returns an endless dataset of its batches."""
    columns = [np.asarray(examples[name]) for name in features]  # [N, ...]
    num_examples = len(columns[0])
    with tf.io.TFRecordWriter(path) as file:
        for row in zip(*columns, strict=True):
            example = dict(zip(features, row, strict=True))
            file.write(schema.serialize(example, features, SIZES))
    print(f"{path}: {num_examples} examples")
    rows = tf.data.TFRecordDataset(path).shuffle(num_examples, seed=SEED)
    rows = rows.repeat().batch(BATCH_SIZE)
    return rows.map(lambda batch: schema.parse(batch, features, SIZES))


def pretraining_metrics(outputs, batch):
    """Returns losses, the sum of which is minimized, and accuracies."""
    masked_lm = (
        outputs["masked_lm_logits"],  # [B, P, V]
        batch["masked_lm_ids"],  # [B, P]
        batch["masked_lm_weights"],  # [B, P], 0 for unused slots.
    )
    labels = batch["next_sentence_labels"]  # [B], 0 for next, 1 for random.
    weights = tf.ones_like(labels, tf.float32)  # Each row has a label.
    next_sentence = outputs["next_sentence_logits"], labels, weights  # [B, 2]
    return {
        "masked_lm_loss": losses.cross_entropy(*masked_lm),
        "next_sentence_loss": losses.cross_entropy(*next_sentence),
        "masked_lm_accuracy": losses.accuracy(*masked_lm),
        "next_sentence_accuracy": losses.accuracy(*next_sentence),
    }


def classification_metrics(outputs, batch):
    """Returns the loss and the accuracy of a classifier."""
    labels = batch["label_ids"]
    rows = outputs["logits"], labels, tf.ones_like(labels, tf.float32)
    return {
        "classification_loss": losses.cross_entropy(*rows),
        "classification_accuracy": losses.accuracy(*rows),
    }


def train(model, metrics, dataset, num_steps, learning_rate):
    """Trains a model and prints its metrics."""
    # As in the original's optimization.py: Adam without bias correction, no
    # decay of biases and LayerNorm, dense gradients clipped to a norm of 1.
    schedule = WarmupDecay(learning_rate, num_steps, num_steps // 10)
    optimizer = AdamW(model.trainable_weights, schedule)
    weights = [weight.value for weight in model.trainable_weights]

    @tf.function(autograph=False)
    def train_step(batch):
        with tf.GradientTape() as tape:
            # Dropout uses Keras's seed generators here; in bert_tf.training a
            # key of seed and step, so that runs resume bit for bit.
            means = metrics(model(batch, training=True), batch)
            loss = sum(means[name].value() for name in means if "loss" in name)
        gradients = map(tf.convert_to_tensor, tape.gradient(loss, weights))
        gradients, _ = tf.clip_by_global_norm(list(gradients), 1.0)
        optimizer.apply(gradients)
        return {name: (m.total, m.weight) for name, m in means.items()}

    # A loss is a total and a weight (the number of masked tokens): the mean
    # over steps is the sum of totals divided by the sum of weights.
    sums = {}
    for step, batch in enumerate(dataset.take(num_steps), start=1):
        for name, total_and_weight in train_step(batch).items():
            sums[name] = sums.get(name, 0.0) + np.array(total_and_weight)
        if step % STEPS_PER_REPORT == 0:
            means = [f"{name} {t / w:.3f}" for name, (t, w) in sums.items()]
            print(f"step {step:3}", *means, sep="  ")
            sums = {}


def export(model, tokenizer, path):
    """Writes a SavedModel: text [N] -> label [N], probabilities [N, C]."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def predict(text):
        logits = model(encode(tokenizer, text), training=False)["logits"]
        label = tf.gather(LABELS, tf.argmax(logits, axis=-1))
        return {"label": label, "probabilities": tf.nn.softmax(logits)}

    # A SavedModel needs the tables and variables that `predict` uses. They are
    # attached directly: the C++ loader of TensorFlow Serving cannot restore the
    # variables of an attached Keras model (keras issue 20095).
    module = tf.Module()
    module.tokenizer = tokenizer
    module.weights = [weight.value for weight in model.weights]
    tf.saved_model.save(module, path, signatures={"serving_default": predict})


def main(folder="runs/minimal", text_file=None):
    """Runs every stage, from text to a served prediction."""
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    if text_file is None:
        text_file = f"{folder}/docstrings.jsonl"
        write_docstrings(text_file)
    # A document of one sentence has no sentence pairs.
    documents = [d for d in read_documents([text_file]) if d.sentences[1:]]
    if len(documents) < 20:
        raise ValueError(
            f"{text_file} has {len(documents)} documents with two or more "
            "sentences; at least 20 are needed. Put a blank line between "
            "documents."
        )
    keras.utils.set_random_seed(SEED)  # Initial weights and dropout.
    tf.config.experimental.enable_op_determinism()
    rng = np.random.default_rng(SEED)  # Everything else.
    rng.shuffle(documents)
    tenth = len(documents) // 10
    test_documents = documents[:tenth]
    labelled_documents = documents[tenth : 3 * tenth]
    documents = documents[3 * tenth :]  # For pre-training, without labels.

    vocab_file = f"{folder}/vocab.txt"
    sentences = (s for document in documents for s in document.sentences)
    words = vocab_learning.count_words(sentences, do_lower_case=True)
    entries = vocab_learning.learn_words(words, VOCAB_SIZE)
    vocab.write(entries, vocab_file)
    print(f"{vocab_file}: {len(entries)} entries")
    tokenizer = BertTokenizer(vocab_file, do_lower_case=True)

    config = BertConfig.from_name(
        MODEL, vocab_size=len(entries), initializer_range=INITIALIZER_RANGE
    )
    pretrainer = BertPretrainer(config)
    examples = make_pretraining_examples(documents, tokenizer, rng)
    path = f"{folder}/pretraining.tfrecord"
    dataset = write_records(path, examples, schema.PRETRAINING)
    train(pretrainer, pretraining_metrics, dataset, **PRETRAINING)

    classifier = BertClassifier(config, num_classes=len(LABELS))
    # So few steps hardly help: 3 seeds have 0.79 with and without this line.
    classifier.encoder.set_weights(pretrainer.encoder.get_weights())
    examples = make_classification_examples(labelled_documents, tokenizer, rng)
    path = f"{folder}/classification.tfrecord"
    dataset = write_records(path, examples, schema.CLASSIFICATION)
    train(classifier, classification_metrics, dataset, **FINE_TUNING)

    test = make_classification_examples(test_documents, tokenizer, rng)
    logits = classifier(test, training=False)["logits"]  # [N, C]
    accuracy = np.mean(np.argmax(logits, axis=-1) == test["label_ids"])
    majority = np.bincount(test["label_ids"]).max() / len(logits)
    print(f"test accuracy {accuracy:.3f}, majority baseline {majority:.3f}")

    export(classifier, tokenizer, f"{folder}/saved_model")
    # Another process must import tensorflow_text before loading it.
    served = tf.saved_model.load(f"{folder}/saved_model")
    for text in test_documents[0].sentences[:2]:
        answer = served.signatures["serving_default"](tf.constant([text]))
        label = answer["label"][0].numpy().decode()
        print(f"{text!r}: {label}, {answer['probabilities'].numpy().max():.2f}")


if __name__ == "__main__":
    if "--help" in sys.argv:
        sys.exit(print(__doc__))
    main(*sys.argv[1:])

r"""Lines of text, a KerasHub preset -> fine-tuned model or predictions.

    python -m benchmarks.peers.keras_hub_runs train MODEL ROWS.json OUTPUT
    python -m benchmarks.peers.keras_hub_runs predict MODEL ROWS.json OUTPUT

The way of KerasHub's documentation, in bfloat16: `fit` and `predict` of a
BertTextClassifier. `benchmarks.end_to_end` starts it.
"""

import json
import os
import pathlib
import sys

from benchmarks.peers.fine_tuning import (
    BATCH_SIZE,
    EPOCHS,
    LEARNING_RATE,
    MAX_LENGTH,
)

os.environ["KERAS_BACKEND"] = "tensorflow"


def _classifier(model, policy):
    import keras
    import keras_hub

    keras.config.set_dtype_policy(policy)
    # Not `from_preset` of the classifier, which needs a preprocessor's config.
    return keras_hub.models.BertTextClassifier(
        keras_hub.models.BertBackbone.from_preset(model),
        num_classes=2,
        preprocessor=keras_hub.models.BertTextClassifierPreprocessor(
            keras_hub.tokenizers.BertTokenizer(
                os.path.join(model, "assets/tokenizer/vocabulary.txt"),
                lowercase=True,
            ),
            sequence_length=MAX_LENGTH,
        ),
    )


def train(model, rows, output):
    """Fine-tunes `model` on splits of rows of two texts and a label."""
    import keras
    import tensorflow as tf

    classifier = _classifier(model, "mixed_bfloat16")
    classifier.compile(
        keras.optimizers.AdamW(LEARNING_RATE),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    data = {}
    for name, split in rows.items():
        first, second, labels = zip(*split, strict=True)
        data[name] = tf.data.Dataset.from_tensor_slices(
            ((list(first), list(second)), [int(label) for label in labels])
        )
    classifier.fit(
        data["train"].shuffle(len(rows["train"])).batch(BATCH_SIZE),
        epochs=EPOCHS,
        validation_data=data["dev"].batch(BATCH_SIZE),
    )
    classifier.save_to_preset(output)


def predict(model, rows, output):
    """Writes the logits of texts."""
    classifier = _classifier(model, "bfloat16")
    logits = classifier.predict([a for a, _, _ in rows], batch_size=BATCH_SIZE)
    text = json.dumps(logits.astype("float32").tolist())
    pathlib.Path(output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    task, model, rows_file, output = sys.argv[1:]
    rows = json.loads(pathlib.Path(rows_file).read_text(encoding="utf-8"))
    {"train": train, "predict": predict}[task](model, rows, output)

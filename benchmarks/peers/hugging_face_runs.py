r"""Lines of text, a transformers checkpoint -> fine-tuned model or predictions.

    python -m benchmarks.peers.hugging_face_runs train MODEL ROWS.json OUTPUT
    python -m benchmarks.peers.hugging_face_runs ner MODEL ROWS.json OUTPUT
    python -m benchmarks.peers.hugging_face_runs predict MODEL ROWS.json OUTPUT

The way of transformers' documentation, in bfloat16: Trainer, with rows padded
to the longest of their batch, and the pipeline for text classification.
`benchmarks.end_to_end` starts it.
"""

import json
import pathlib
import sys

from benchmarks.peers.fine_tuning import (
    BATCH_SIZE,
    EPOCHS,
    LEARNING_RATE,
    MAX_LENGTH,
)


def train(model, rows, output):
    """Fine-tunes `model` on rows of two texts and a label."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    encoded = [
        dict(tokenizer(a, b, truncation=True, max_length=MAX_LENGTH))
        | {"labels": int(label)}
        for a, b, label in rows
    ]
    fit(
        tokenizer,
        transformers.AutoModelForSequenceClassification.from_pretrained(model),
        encoded,
        transformers.DataCollatorWithPadding(tokenizer),
        output,
    )


def ner(model, rows, output):
    """Fine-tunes `model` on rows of words and their tags."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    names = sorted({tag for _, tags in rows for tag in tags})
    encoded = []
    for words, tags in rows:
        row = tokenizer(
            words,
            is_split_into_words=True,
            truncation=True,
            max_length=MAX_LENGTH,
        )
        labels, before = [], None
        for index in row.word_ids():  # The first token of a word has its tag.
            is_first = index is not None and index != before
            labels.append(names.index(tags[index]) if is_first else -100)
            before = index
        encoded.append(dict(row) | {"labels": labels})
    network = transformers.AutoModelForTokenClassification.from_pretrained(
        model, num_labels=len(names)
    )
    collator = transformers.DataCollatorForTokenClassification(tokenizer)
    fit(tokenizer, network, encoded, collator, output)


def fit(tokenizer, network, encoded, collator, output):
    """Trains a network on encoded rows, and saves it."""
    import transformers

    trainer = transformers.Trainer(
        network,
        transformers.TrainingArguments(
            output,
            per_device_train_batch_size=BATCH_SIZE,
            num_train_epochs=EPOCHS,
            learning_rate=LEARNING_RATE,
            bf16=True,
            use_cpu=True,
            save_strategy="epoch",
            report_to="none",
        ),
        train_dataset=encoded,
        data_collator=collator,
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_model(output)


def predict(model, rows, output):
    """Writes the labels of texts."""
    import torch
    import transformers

    classify = transformers.pipeline(
        "text-classification",
        model=model,
        dtype=torch.bfloat16,
        device="cpu",
        batch_size=BATCH_SIZE,
        max_length=MAX_LENGTH,
        truncation=True,
    )
    answers = classify([a for a, _, _ in rows])
    pathlib.Path(output).write_text(json.dumps(answers), encoding="utf-8")


if __name__ == "__main__":
    task, model, rows_file, output = sys.argv[1:]
    rows = json.loads(pathlib.Path(rows_file).read_text(encoding="utf-8"))
    {"train": train, "ner": ner, "predict": predict}[task](model, rows, output)

r"""Lines of text, a transformers checkpoint -> fine-tuned model or predictions.

    python -m benchmarks.peers.hugging_face_runs train MODEL ROWS.json OUTPUT
    python -m benchmarks.peers.hugging_face_runs ner MODEL ROWS.json OUTPUT
    python -m benchmarks.peers.hugging_face_runs predict MODEL ROWS.json OUTPUT

The way of transformers' documentation, in bfloat16: Trainer, with rows padded
to the longest of their batch, accuracy on dev after each epoch and the best
kept, and the pipeline for text classification.
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
    """Fine-tunes `model` on splits of rows of two texts and a label."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)

    def encode(a, b, label):
        row = tokenizer(a, b, truncation=True, max_length=MAX_LENGTH)
        return dict(row) | {"labels": int(label)}

    fit(
        tokenizer,
        transformers.AutoModelForSequenceClassification.from_pretrained(model),
        {name: [encode(*x) for x in split] for name, split in rows.items()},
        transformers.DataCollatorWithPadding(tokenizer),
        output,
    )


def ner(model, rows, output):
    """Fine-tunes `model` on splits of rows of words and their tags."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    names = sorted({tag for _, tags in rows["train"] for tag in tags})

    def encode(words, tags):
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
        return dict(row) | {"labels": labels}

    network = transformers.AutoModelForTokenClassification.from_pretrained(
        model, num_labels=len(names)
    )
    encoded = {
        name: [encode(*x) for x in split] for name, split in rows.items()
    }
    collator = transformers.DataCollatorForTokenClassification(tokenizer)
    fit(tokenizer, network, encoded, collator, output)


def fit(tokenizer, network, encoded, collator, output):
    """Trains a network on encoded splits, and saves it."""
    import transformers

    def accuracy(predicted):
        labels = predicted.label_ids
        is_right = predicted.predictions.argmax(-1) == labels
        return {"accuracy": is_right[labels >= 0].mean()}

    trainer = transformers.Trainer(
        network,
        transformers.TrainingArguments(
            output,
            per_device_train_batch_size=BATCH_SIZE,
            per_device_eval_batch_size=BATCH_SIZE,
            num_train_epochs=EPOCHS,
            learning_rate=LEARNING_RATE,
            bf16=True,
            use_cpu=True,
            eval_strategy="epoch",
            save_strategy="epoch",
            load_best_model_at_end=True,
            metric_for_best_model="accuracy",
            report_to="none",
        ),
        train_dataset=encoded["train"],
        eval_dataset=encoded["dev"],
        data_collator=collator,
        processing_class=tokenizer,
        compute_metrics=accuracy,
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

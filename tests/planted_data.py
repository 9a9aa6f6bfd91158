"""Folders of the data that commands name: text, GLUE, SQuAD, SWAG, CoNLL."""

import dataclasses
import json
import pathlib

import checkpoint_folders
import numpy as np
import planted_ner
import planted_squad
import planted_swag

from bert_tf import config
from bert_tf.checkpoint import contents
from bert_tf.model.sentence_embedding import Normalize, SentenceEmbedding
from tfrecords.tasks import glue_tables

DATA = pathlib.Path(__file__).parent / "data"
PASSAGE = "The cat sat by the door . The ship came near the shore ."


def sentences():
    """The lines of data/sentences.txt."""
    lines = (DATA / "sentences.txt").read_text("utf-8").splitlines()
    return [line for line in lines if line]


def write_glue(folder):
    """Writes a few rows in the layout of each GLUE task."""
    for task in glue_tables.GLUE_TASKS:
        (folder / task.name).mkdir(parents=True)
        columns = task.header or ("index", *task.text_columns)
        if not task.header:
            columns += (task.label_column,)
        for name in task.files.values():
            if not name.startswith("test"):
                rows = [] if task.header else [columns]
                rows += [row(task, columns, n) for n in range(12)]
            else:
                columns = ("index", *task.text_columns)
                rows = [columns, *(row(task, columns, n) for n in range(4))]
            lines = ["\t".join(cells) for cells in rows]
            path = folder / task.name / name
            path.write_text("\n".join(lines) + "\n", "utf-8")


def row(task, columns, number):
    """The cells of a row, all columns of text being sentences."""
    lines = sentences()
    cells = []
    for column in columns:
        if column in task.text_columns:
            offset = number + 3 * task.text_columns.index(column)
            cells.append(lines[offset % len(lines)])
        elif column == task.label_column:
            labels = task.labels or ("0.0", "2.5", "5.0")
            cells.append(labels[number % len(labels)])
        else:
            cells.append(str(number))
    return cells


def write_squad(folder):
    """Writes SQuAD 1.1 and 2.0, with two questions on one passage."""
    folder.mkdir()
    for version in ("1.1", "2.0"):
        questions = [
            planted_squad.question("a", "Who sat by the door?", PASSAGE, "cat"),
            planted_squad.question("b", "What came near?", PASSAGE, "ship"),
        ]
        if version == "2.0":
            none = planted_squad.question("c", "Who made bread?", PASSAGE)
            questions = [q | {"is_impossible": False} for q in questions]
            questions.append(none | {"is_impossible": True})
        article = planted_squad.article((PASSAGE, questions), version=version)
        for split in ("train", "dev"):
            path = folder / f"{split}-v{version}.json"
            path.write_text(json.dumps(article))


def write_swag(folder):
    """Writes a few rows with four endings."""
    folder.mkdir()
    for name in ("train.csv", "val.csv"):
        planted_swag.write(folder / name, planted_swag.rows(8))
    rows = planted_swag.rows(4, is_labelled=False)
    header = planted_swag.header(is_labelled=False)
    planted_swag.write(folder / "test.csv", rows, header)


def write_conll(folder):
    """Writes a few sentences in the format of CoNLL-2003."""
    folder.mkdir()
    for seed, name in enumerate(("eng.train", "eng.testa", "eng.testb")):
        rows = planted_ner.sentences(12, seed)
        planted_ner.write(folder / name, rows)


def write_models(folder, tiny_config):
    """Writes what stands for released checkpoints, with random weights."""
    model_config = config.BertConfig(
        **{**tiny_config.to_dict(), "max_position_embeddings": 512}
    )
    rng = np.random.default_rng(0)
    given = contents.Contents(
        source="random weights",
        config=model_config,
        task="pretraining",
        tensors={
            name: rng.normal(0, 0.02, shape).astype(np.float32)
            for name, shape in contents.shapes(
                model_config, "pretraining"
            ).items()
        },
        vocabulary=(DATA / "vocab.txt").read_bytes(),
        do_lower_case=True,
    )
    for name, format_name in (
        ("uncased_L-12_H-768_A-12", "google"),
        ("bert-base-uncased", "hugging_face"),
    ):
        checkpoint_folders.write(given, folder / name, format_name)
    encoder = dataclasses.replace(
        checkpoint_folders.pretraining(given),  # Without heads.
        sentence_embedding=SentenceEmbedding(steps=(Normalize(),)),
        metadata={"max_seq_length": 256},
    )
    path = folder / "all-MiniLM-L6-v2"
    checkpoint_folders.write(encoder, path, "hugging_face")
    assert (path / "modules.json").exists()  # Of sentence-transformers.


def write_reviews(folder):
    """Writes a table of one's own."""
    lines = [
        f'"{text}, or not",{("bad", "good")[number % 2]}'
        for number, text in enumerate(sentences()[:24])
    ]
    text = "\n".join(["review,stars", *lines])
    (folder / "reviews.csv").write_text(text + "\n", "utf-8")


def write_classifiers(folder, tiny_config):
    """Writes classifiers as transformers 5 and the TFBert classes save them.

    old/ has what docs/guide/from_tfbert.md writes with transformers 4, which
    has no part in the tests.
    """
    given = checkpoint_folders.contents_of(
        tiny_config,
        "classification",
        vocabulary=(DATA / "vocab.txt").read_bytes(),
        do_lower_case=True,
    )
    checkpoint_folders.write(given, folder / "my_classifier", "hugging_face")
    for task, name in (("classification", "model"), ("pretraining", "encoder")):
        if task == "pretraining":
            given = checkpoint_folders.pretraining(given)
        path = folder / "old" / name
        checkpoint_folders.write(given, path, "hugging_face")
        checkpoint_folders.to_h5(path)
    checkpoint_folders.to_saved_model(
        folder / "old/model", folder / "old/exported/saved_model/1"
    )
    head = np.zeros((tiny_config.hidden_size + 1, 2)), np.zeros(2)
    np.savez(folder / "old" / "head.npz", *head)


def write_all(folder, tiny_config):
    """Writes text/, glue/ and all else that pages name."""
    (folder / "text").mkdir()
    for name in ("one", "two"):
        text = "\n".join(sentences() * 3) + "\n"
        if name == "two":  # Words that the vocabulary lacks.
            text += "the hepatocyte sat on the hepatocyte\n"
        (folder / "text" / f"{name}.txt").write_text(text, "utf-8")
    write_glue(folder / "glue")
    write_squad(folder / "squad")
    write_swag(folder / "swag")
    write_conll(folder / "conll2003")
    (folder / "models").mkdir()
    write_models(folder / "models", tiny_config)
    write_reviews(folder)
    (folder / "old").mkdir()
    write_classifiers(folder, tiny_config)

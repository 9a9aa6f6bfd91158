"""Flags of CoNLL column files -> their paths, what they hold, tags, records."""

import functools
import os
from collections.abc import Callable, Mapping

from absl import flags

from bert_tf.training import model_folders
from tfrecords.tasks import ner_examples, ner_files, split_records
from tfrecords.text import tokenizer as tokenizer_lib

# Official names of the English part.
FILES = {"train": "eng.train", "dev": "eng.testa", "test": "eng.testb"}
Read = Callable[[str], ner_files.Corpus]  # Split -> what its file holds.


def define_data(values: flags.FlagValues) -> None:
    """Adds the flags that say where words and tags come from."""
    flags.DEFINE_string(
        "data_dir",
        None,
        f"Folder of {', '.join(FILES.values())}, as far as they are there.",
        flag_values=values,
    )
    for split, name in FILES.items():
        flags.DEFINE_string(
            f"{split}_file",
            None,
            f"Another file than {name}, in --data_dir or elsewhere: a word a "
            "line, the tag in the last column.",
            flag_values=values,
        )
    flags.DEFINE_bool(
        "test_has_tags",
        True,
        "Whether the last column of the test file is the tag.",
        flag_values=values,
    )
    flags.DEFINE_list(
        "entity_types",
        None,
        "Types of entities, such as LOC,MISC,ORG,PER. Default: those of the "
        "training file; to predict, those of the model.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "doc_stride",
        None,
        "Pieces from one window of a document to the next; default: half of "
        "a window.",
        lower_bound=1,
        flag_values=values,
    )


def find_files(values: flags.FlagValues) -> dict[str, str]:
    """Returns split to path.

    Raises:
      ValueError: if no file is there, or one that a flag names is not.
    """
    found = {}
    for split, official in FILES.items():
        name = values[f"{split}_file"].value
        path = os.path.join(values.data_dir or "", official)
        if name:
            path = split_records.find_path(values.data_dir, name)
        if name and not os.path.isfile(path):
            raise ValueError(f"--{split}_file={name}: there is no file {path}.")
        # The official names are no files of the folder one happens to be in.
        if name or (values.data_dir and os.path.isfile(path)):
            found[split] = path
    if not found:
        raise ValueError(
            f"No data in --data_dir={values.data_dir}: give a folder of "
            f"{', '.join(FILES.values())}, or --train_file and the like."
        )
    return found


def make_reader(
    values: flags.FlagValues,
    files: Mapping[str, str],
    entity_types: list[str] | None,
) -> Read:
    """Returns split -> what its file holds; each is read once.

    Args:
      values: with the flags of `define_data`.
      files: split to path.
      entity_types: the only ones that may occur; None for any.
    """

    @functools.cache
    def read(split: str) -> ner_files.Corpus:
        return ner_files.read(
            files[split],
            has_tags=split != "test" or values.test_has_tags,
            entity_types=entity_types,
        )

    return read


def find_labels(
    values: flags.FlagValues, files: Mapping[str, str], model_dir: str | None
) -> list[str]:
    """Returns the tags in the order of their ids.

    Args:
      values: with the flags of `define_data`.
      files: split to path.
      model_dir: a tagger's folder, to predict with it; None to train.

    Raises:
      ValueError: if nothing says them, or if the model is no tagger or one of
        other entity types than --entity_types.
    """
    if model_dir:
        description = model_folders.read_metadata(model_dir)
        if description["task"] != "tagging":
            raise ValueError(
                f"{model_dir} is a model of task {description['task']}, not of "
                "tagging. Add --do_train, or give the output_dir of a run of "
                "run_ner."
            )
        known = types_of(description["labels"])
        if values.entity_types and sorted(set(values.entity_types)) != known:
            raise ValueError(
                f"--entity_types={','.join(values.entity_types)}: {model_dir} "
                f"tags {','.join(known)}. Leave the flag away, or add "
                "--do_train."
            )
        return description["labels"]
    if values.entity_types:
        return ner_files.labels_of(values.entity_types)
    if "train" not in files:
        raise ValueError(
            "Nothing says which types of entities there are: give a training "
            "file, or --entity_types=LOC,MISC,ORG,PER."
        )
    corpus = make_reader(values, files, None)("train")
    if not corpus.entity_types:
        raise ValueError(
            f"{corpus.path} has no entity: every tag is O. Is the tag in the "
            "last column? Give a file with entities."
        )
    return ner_files.labels_of(corpus.entity_types)


def types_of(labels: list[str]) -> list[str]:
    """Returns the entity types of a tagger's labels."""
    return sorted({label[2:] for label in labels if label != ner_files.OUTSIDE})


def make_records(
    values: flags.FlagValues,
    files: Mapping[str, str],
    labels: list[str],
    read: Read,
    tokenizer: tokenizer_lib.BertTokenizer,
    output_dir: str,
) -> dict[str, str]:
    """Returns split to folder of records; makes those that are missing."""
    return ner_examples.make_records(
        files,
        output_dir,
        tokenizer,
        read=read,
        labels=labels,
        max_seq_length=values.max_seq_length,
        doc_stride=values.doc_stride,
    )

"""Examples of each split of a task -> folders of records."""

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from absl import logging
from tqdm import tqdm

from tfrecords import libraries, schema
from tfrecords.io import atomic_files, records, serialization
from tfrecords.tables import parts
from tfrecords.tasks.data_files import RecordsConfig
from tfrecords.text import tokenizer as tokenizer_lib
from tfrecords.text import vocab

Example = dict[str, np.ndarray]
_EXAMPLES_AT_ONCE = 256
# Statistic of what was cut -> its name, the statistic of all, if it is not the
# number of texts of all examples, and the flag.
_CUT = {
    "truncated_rows": ("rows", None, "max_seq_length"),
    "truncated_texts": ("texts", None, "max_seq_length"),
    "truncated_endings": ("endings", None, "max_seq_length"),
    "truncated_questions": ("questions", "questions", "max_query_length"),
    "cut_words": ("words", "words", "max_seq_length"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Split:
    """A folder of records to write."""

    name: str  # Train, dev... or test..., also the name of the folder.
    schema_name: str  # A key of `schema.SCHEMAS`.
    sizes: schema.Sizes
    # All settings that the records depend on, and the sha256 of each source
    # file. Existing records with other flags are not reused.
    flags: dict
    # Returns the number of examples, or of their source rows, for the progress
    # bar. It reads the entire input and raises ValueError if it is invalid.
    count: Callable[[], int]
    # Yields the examples; adds statistics for the manifest to the dict.
    examples: Callable[[dict], Iterator[Example]]


def open_tokenizer(config: RecordsConfig) -> tokenizer_lib.BertTokenizer:
    """Returns the tokenizer of a script that only makes records."""
    return tokenizer_lib.BertTokenizer(
        config.vocab_file, **vocab.rules_of(vars(config))
    )


def vocabulary_of(tokenizer: tokenizer_lib.BertTokenizer) -> dict:
    """Returns the manifest's description of a tokenizer."""
    return {
        "sha256": tokenizer.sha256,
        "size": tokenizer.vocab_size,
        **tokenizer.rules,
    }


def make(
    splits: Sequence[Split], vocabulary: dict, output_dir: str
) -> dict[str, str]:
    """Writes a folder of records for each split; complete ones are kept.

    All splits are counted before the first one is written, so that an error in
    one of the files leaves no records behind.

    Args:
      splits: the splits to write.
      vocabulary: from `vocabulary_of`.
      output_dir: parent of a folder for each split, such as `train`.

    Returns:
      The folder of each split.

    Raises:
      ValueError: as in `Split.count`, or if `output_dir` holds records made
        with other settings or files.
    """
    folders = {s.name: os.path.join(output_dir, s.name) for s in splits}
    to_make = [
        split
        for split in splits
        if not _is_made(folders[split.name], split.flags, vocabulary)
    ]
    numbers = [split.count() for split in to_make]
    for split, number in zip(to_make, numbers, strict=True):
        _write(split, vocabulary, folders[split.name], number)
    for folder in folders.values():
        _warn_of_cut(folder)
    return folders


def check_unchanged(folder: str, path: str) -> None:
    """Raises ValueError if a file has changed since its records were made."""
    made_with = records.Manifest.read(folder).flags["source_sha256"]
    if parts.source(path)["source_sha256"] != made_with:
        raise ValueError(
            f"{path} has changed since the records in {folder} were made from "
            "it. Restore it, and run the same command again; or choose other "
            "folders for a new run."
        )


def _warn_of_cut(folder: str) -> None:
    """Logs how many texts of new or existing records were cut, if any."""
    manifest, windows = records.Manifest.read(folder), ""
    if number := manifest.flags.get("max_windows"):
        windows = f"{number} windows of "
    for statistic, (name, total, flag) in _CUT.items():
        num_cut = manifest.statistics.get(statistic)
        if not num_cut:
            continue
        if total:
            count = manifest.statistics[total]
        else:
            count = sum(shard.num_examples for shard in manifest.shards)
            for size in ("num_texts", "num_choices"):
                count *= manifest.sizes.get(size, 1)
        logging.warning(
            "%s: %d of %d %s (%.1f%%) have more than %s--%s=%d tokens and are "
            "cut",
            *(folder, num_cut, count, name, 100.0 * num_cut / count, windows),
            *(flag, manifest.flags[flag]),
        )


def _is_made(folder: str, flags: dict, vocabulary: dict) -> bool:
    """Returns whether the folder already holds these records completely."""
    if not os.path.exists(os.path.join(folder, records.MANIFEST_NAME)):
        return False
    manifest = records.Manifest.read(folder)
    differences = [
        f"{prefix}{name} {made_with.get(name)!r} there, "
        f"{wanted.get(name)!r} now"
        # Apart: both may have an entry of the same name, as `sha256`.
        for prefix, made_with, wanted in (
            ("", _flat(manifest.flags), _flat(flags)),
            ("vocabulary ", manifest.vocabulary, vocabulary),
        )
        # Also names that only one has: flags may omit a default.
        for name in wanted | made_with
        # Files may be renamed: their sha256 is compared.
        if name != "source" and made_with.get(name) != wanted.get(name)
    ]
    if differences:
        raise ValueError(
            f"{folder} holds records of other settings or files: "
            f"{'; '.join(differences)}. Choose another folder for records "
            "(--records_dir of run_..., --output_dir of make_..._records), or "
            "delete that one."
        )
    is_complete = manifest.is_complete(folder)
    if is_complete:
        records.check_digests(folder, manifest.shards)
    state = "already complete" if is_complete else "incomplete"
    logging.info("%s  %s", folder, state)
    return is_complete


def _flat(flags: dict) -> dict:
    """Returns the flags; of a dict each entry, as `sha256.corpus_file`."""
    found = {}
    for name, value in flags.items():
        if isinstance(value, dict):
            found |= {f"{name}.{key}": x for key, x in value.items()}
        else:
            found[name] = value
    return found


def _write(split: Split, vocabulary: dict, folder: str, number: int) -> None:
    """Writes one shard and, last, the manifest."""
    os.makedirs(folder, exist_ok=True)
    atomic_files.remove_leftovers(folder)
    statistics: dict = {}
    bar = tqdm(total=number, desc=split.name, disable=None)
    features = schema.SCHEMAS[split.schema_name]

    def serialized():
        examples = split.examples(statistics)
        while some := list(itertools.islice(examples, _EXAMPLES_AT_ONCE)):
            rows = {name: np.stack([e[name] for e in some]) for name in some[0]}
            yield from serialization.serialize_rows(rows, features, split.sizes)
            bar.update(len(some))

    with bar:
        shard = records.write_shard(
            os.path.join(folder, records.shard_name(split.name, 0, 1)),
            serialized(),
        )
    records.Manifest(
        schema_name=split.schema_name,
        sizes=dict(split.sizes),
        flags=split.flags,
        vocabulary=vocabulary,
        statistics=statistics,
        shards=[shard],
        libraries=libraries.of_records(),
    ).write(folder)
    counts = {"examples": shard.num_examples} | statistics
    words = [
        f"{key} {value}"
        for key, value in counts.items()
        if value and not isinstance(value, (list, dict))
    ]
    logging.info("  ".join([folder, *words]))

"""Pre-training records -> data of each phase, held-out data."""

import math
import os
import types
from collections.abc import Mapping
from typing import NamedTuple

from bert_tf.config import BertConfig
from bert_tf.tasks import pretraining
from bert_tf.workflows.pretraining.config import PretrainingConfig
from tfrecords.io import records as records_lib
from tfrecords.io import stored_folders
from tfrecords.options import to_index, to_number
from tfrecords.reading import batches
from tfrecords.text import vocab


class PretrainingData(NamedTuple):
    """Records for training or evaluation.

    Attributes:
      records: records, checked against the model.
      sizes: dimension name -> size, of the examples.
      task: task of the records; its schema is that of a batch.
      num_steps: optimizer steps on them; 0 if held out.
      batch_size: examples in one optimizer step; 0 if held out.
      first_batch: number of the first batch, of this size, in the order of the
        records.
    """

    records: records_lib.Records
    sizes: dict[str, int]
    task: pretraining.PretrainingTask
    num_steps: int = 0
    batch_size: int = 0
    first_batch: int = 0

    @property
    def digest(self) -> str | list[str]:
        """The digest in the manifest; without one, the files' paths.

        Of files in a store, their addresses there.
        """
        if self.records.manifest:
            return self.records.manifest.digest
        return [stored_folders.address(path) for path in self.records.paths]


def _folders(config: PretrainingConfig) -> list[str]:
    """Returns the paths of the records, in the order of --input_file."""
    paths = [path for path in config.input_file.split(",") if path]
    missing = [path for path in paths if not os.path.isdir(path)]
    if len(missing) == len(paths):
        return [config.input_file]
    if missing:
        raise ValueError(
            f"--input_file={config.input_file}: some paths are folders, but "
            f"not {', '.join(missing)}. Give only folders from "
            "make_pretraining_records, or only TFRecord files."
        )
    return paths


class RecordsVocabulary(NamedTuple):
    """Vocabulary of records, from their manifests; None where unknown.

    `rules` are those of `vocab.all_rules_of`.
    """

    size: int | None = None
    sha256: str | None = None
    rules: Mapping[str, bool] = types.MappingProxyType({})


def read_vocabulary_of_records(config: PretrainingConfig) -> RecordsVocabulary:
    """Returns the vocabulary of the first records, and the rules of all.

    Args:
      config: reads `do_train`, `input_file`, `do_eval`, `eval_input_file`.

    Raises:
      ValueError: if records differ in a rule, such as lower case.
    """
    paths = _folders(config) if config.do_train else []
    if config.do_eval and config.eval_input_file:
        paths.append(config.eval_input_file)
    found = {}
    for path in paths:
        if os.path.isdir(path):  # The manifest only: shards are opened later.
            made_with = records_lib.Manifest.read(path).vocabulary
            found[path] = RecordsVocabulary(
                made_with.get("size"),
                made_with.get("sha256"),
                vocab.all_rules_of(made_with),
            )
    known = {path: made.rules for path, made in found.items() if made.rules}
    for name in vocab.RULES:
        values = {path: rules[name] for path, rules in known.items()}
        if len(set(values.values())) > 1:
            listed = "; ".join(f"{path}: {x}" for path, x in values.items())
            raise ValueError(
                f"Records differ in {name} ({listed}). Make all of them with "
                "the same."
            )
    first = found.get(paths[0], RecordsVocabulary())
    return first._replace(rules=next(iter(known.values()), first.rules))


def open_data(
    config: PretrainingConfig,
    path: str,
    bert_config: BertConfig,
    sha256: str | None,
) -> PretrainingData:
    """Opens records and checks that they match the model.

    Args:
      config: its sizes override those of the manifest.
      path: folder, or TFRecord files as comma-separated globs.
      bert_config: config of the model.
      sha256: sha256 of the vocabulary that all records share, if known.

    Raises:
      ValueError: if a size is unknown, the records cannot be read in the
        `input_mode`, or records and model do not match.
    """
    opened = records_lib.Records.open(path)
    manifest = opened.manifest
    sizes = dict(manifest.sizes) if manifest else {}
    for name in ("max_seq_length", "max_predictions_per_seq"):
        if getattr(config, name) is not None:
            sizes[name] = getattr(config, name)
        if name not in sizes:
            raise ValueError(
                f"{path} has no manifest. Give the --{name} with which the "
                "records were made."
            )
    on_disk = pretraining.schema_of(opened, on_disk=True)
    opened.check(on_disk, sizes, bert_config.vocab_size, sha256)
    if sizes["max_seq_length"] > bert_config.max_position_embeddings:
        raise ValueError(
            f"{path} has examples of {sizes['max_seq_length']} tokens; the "
            "model accepts at most max_position_embeddings="
            f"{bert_config.max_position_embeddings}. Make shorter examples."
        )
    task = pretraining.task_of(opened, bert_config)
    batches.check_input_mode(opened, task.schema, config.input_mode or "python")
    return PretrainingData(opened, sizes, task)


def open_phases(
    config: PretrainingConfig, bert_config: BertConfig, sha256: str | None
) -> list[PretrainingData]:
    """Opens the records of all phases, in the order of training.

    Raises:
      ValueError: if `input_file`, `phases`, records and model do not match.
    """
    total, size = config.num_train_steps, config.train_batch_size
    if config.masked_lm_candidates and bert_config.is_causal:
        raise ValueError(
            f"--masked_lm_candidates={config.masked_lm_candidates} is for "
            "--objective=masked_lm. Omit it for a left-to-right model."
        )
    parts = [
        open_data(config, path, bert_config, sha256)
        for path in _folders(config)
    ]
    if config.masked_lm_candidates:
        for part in parts:
            _set_candidates(config, part, bert_config.vocab_size)
    if config.batch_size_ramp:
        return _ramp(config, parts)
    if len(parts) == 1 and not config.phases:
        return [parts[0]._replace(num_steps=total, batch_size=size)]
    by_length = {part.sizes["max_seq_length"]: part for part in parts}
    fractions = _fractions(config, sorted(by_length), len(parts))
    return [
        by_length[length]._replace(num_steps=num_steps, batch_size=size)
        for length, num_steps in _steps("phases", fractions, total).items()
    ]


def _set_candidates(
    config: PretrainingConfig, part: PretrainingData, vocab_size: int
) -> None:
    """Sets `num_candidates` of a task; raises ValueError if out of range."""
    (name,) = part.task.schema["masked_lm_ids"].shape
    num_labels = part.sizes[name]
    least = config.train_batch_size * num_labels + 1
    if not least <= config.masked_lm_candidates <= vocab_size:
        raise ValueError(
            f"--masked_lm_candidates={config.masked_lm_candidates} should be "
            f"from {least}, more than --train_batch_size="
            f"{config.train_batch_size} times {name}={num_labels}, to the "
            f"vocab_size of {vocab_size}. Change or omit it."
        )
    part.task.num_candidates = config.masked_lm_candidates


def _steps(
    name: str, fractions: dict[int, float], total: int
) -> dict[int, int]:
    """Returns key -> number of steps, for fractions with a sum of 1."""
    steps, done, end = {}, 0.0, 0
    for key, fraction in fractions.items():
        done += fraction
        begin, end = end, round(done * total)
        if begin == end:
            raise ValueError(
                f"--{name}={key}:{fraction:g} of --num_train_steps={total} is "
                "less than one step. Increase one of the two."
            )
        steps[key] = end - begin
    return steps


def _ramp(
    config: PretrainingConfig, parts: list[PretrainingData]
) -> list[PretrainingData]:
    """Returns the parts of a run whose batches grow; none reads data again."""
    flag = f"--batch_size_ramp={','.join(config.batch_size_ramp)}"
    if len(parts) > 1 or config.phases:
        raise ValueError(
            f"{flag} cannot be combined with several folders in --input_file "
            "or with --phases. Omit it, or give one folder and no --phases."
        )
    fractions = _parse(flag, config.batch_size_ramp, "32:0.2,128:0.3", "sizes")
    rest = 1.0 - sum(fractions.values())
    sizes = [*fractions, config.train_batch_size]
    if not (min(fractions.values()) > 0 and rest > 0):
        raise ValueError(
            f"{flag}: the fractions should be above 0, with a sum below 1; the "
            "rest of the steps has --train_batch_size."
        )
    if sorted(set(sizes)) != sizes or sizes[0] < 1:
        raise ValueError(
            f"{flag}: the sizes should grow, up to --train_batch_size="
            f"{config.train_batch_size}."
        )
    steps = _steps(
        "batch_size_ramp",
        fractions | {config.train_batch_size: rest},
        config.num_train_steps,
    )
    phases, examples = [], 0
    for size, num_steps in steps.items():
        first = math.ceil(examples / size)
        phases.append(
            parts[0]._replace(
                num_steps=num_steps, batch_size=size, first_batch=first
            )
        )
        examples = (first + num_steps) * size
    return phases


def _parse(flag: str, words, example: str, keys: str) -> dict[int, float]:
    """Returns the content of words such as 128:0.9; each key is there once."""
    parts = [word.partition(":") for word in words]
    fractions = {to_index(key): to_number(value) for key, _, value in parts}
    if None in fractions or math.isnan(sum(fractions.values())):
        raise ValueError(
            f"{flag} should have the form {example}: {keys}, and fractions of "
            "the optimizer steps."
        )
    if len(fractions) != len(parts):
        raise ValueError(f"{flag}: give each of the {keys} once.")
    return fractions


def _fractions(
    config: PretrainingConfig, lengths: list[int], num_folders: int
) -> dict[int, float]:
    """Returns length of the examples -> fraction of steps, for each phase."""
    flag = f"--phases={','.join(config.phases or ())}"
    if len(lengths) < num_folders:
        raise ValueError(
            f"--input_file has {num_folders} folders, but only examples of "
            f"{lengths} tokens; the phases must differ in length."
        )
    if not config.phases:
        if len(lengths) == 2:
            return dict(zip(lengths, (0.9, 0.1), strict=True))
        raise ValueError(
            f"--input_file has {num_folders} folders, of {lengths} tokens. "
            "Give the steps on each with --phases=LENGTH:FRACTION,..."
        )
    fractions = _parse(flag, config.phases, "128:0.9,512:0.1", "lengths")
    if sorted(fractions) != lengths:
        raise ValueError(
            f"{flag}: the records of --input_file have examples of {lengths} "
            "tokens. Give each length once."
        )
    is_one = abs(sum(fractions.values()) - 1) <= 1e-6
    if not (min(fractions.values()) > 0 and is_one):
        raise ValueError(
            f"{flag}: the fractions should be above 0, with a sum of 1."
        )
    return fractions

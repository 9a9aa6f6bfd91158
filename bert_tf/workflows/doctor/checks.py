"""Pre-run checks -> diagnostics: severity, problem, fix.

`doctor` asks for all of them, a training for `refuse_bad_records`.
"""

import os
from collections.abc import Sequence

from absl import logging

from bert_tf.config import BertConfig
from bert_tf.conversion import vocabularies
from bert_tf.training import checkpoints
from bert_tf.training.config import TrainingConfig
from bert_tf.workflows.doctor import estimates
from tfrecords import schema as schema_lib
from tfrecords.inspection import (
    record_checks,
    sample_statistics,
    samples,
)
from tfrecords.inspection.diagnostics import (
    ERROR,
    WARNING,
    Diagnostic,
    attempt,
    errors,
)
from tfrecords.io import records as records_lib
from tfrecords.text import vocab as vocab_lib

# Examples that are read before a training, and by `doctor`: 0.2 and 1 s.
QUICK_EXAMPLES = 1024
EXAMPLES = 8192
_GB = 1e9
# Tasks of schemas that have other names.
_TASKS = dict.fromkeys(schema_lib.PRETRAINING_SCHEMAS, "pretraining") | {
    "encoder_inputs": "classification",
    "choice_inputs": "multiple_choice",
}


def task_of(schema_name: str) -> str:
    """Returns the task of models that train on a schema's records."""
    return _TASKS.get(schema_name, schema_name)


def check_examples(
    records: records_lib.Records,
    bert_config: BertConfig | None,
    vocab_file: str | None,
    num_examples: int | None,
) -> tuple[list[Diagnostic], sample_statistics.SampleStatistics | None]:
    """Checks a sample of records.

    Args:
      records: to read.
      bert_config: of the model; None if it is not known.
      vocab_file: None if it is not known.
      num_examples: to read; None for all.

    Returns:
      What is wrong with them, and the statistics of the sample.
    """
    name, diagnostics = attempt("records", samples.schema_name, records)
    if name is None:
        return diagnostics, None
    sizes = samples.sizes_of(records, name)
    entries = None
    if vocab_file:
        names, diagnostics = attempt("vocabulary", vocab_lib.read, vocab_file)
        entries = sample_statistics.Entries.of(names) if names else None
    limits = [bert_config.vocab_size] if bert_config else []
    limits += [len(entries.names)] if entries else []
    manifest = records.manifest
    made_with = manifest.vocabulary if manifest else {}
    if "size" in made_with:
        limits.append(made_with["size"])
    # Another vocabulary says nothing of the ids; `check_sizes` reports it.
    is_theirs = entries and made_with.get("sha256") in (
        None,
        vocab_lib.digest(vocab_file),
    )
    statistics, damaged = sample_statistics.count(
        records,
        name,
        sizes,
        entries if is_theirs else None,
        min(limits, default=None),
        num_examples,
    )
    diagnostics += [Diagnostic(ERROR, "records", text) for text in damaged]
    if statistics is None:
        return diagnostics, None
    diagnostics += record_checks.check_sample(
        statistics,
        manifest.flags if manifest else {},
        entries if is_theirs else None,
        first=records.first,
        is_pretraining=task_of(name) == "pretraining",
    )
    if bert_config and statistics.highest_type >= bert_config.type_vocab_size:
        text = (
            f"input_type_ids go up to {statistics.highest_type}; the model has "
            f"type_vocab_size={bert_config.type_vocab_size}. Use the "
            "bert_config.json that the records were made for."
        )
        diagnostics.append(Diagnostic(ERROR, "ids", text))
    if entries:
        diagnostics += record_checks.check_case(
            statistics if is_theirs else None,
            entries,
            made_with=made_with.get("do_lower_case"),
            is_uncased=vocabularies.infer_lower_case(
                vocabularies.read(vocab_file)
            ),
        )
    return diagnostics, statistics


def check_sizes(
    records: records_lib.Records,
    bert_config: BertConfig | None,
    vocab_file: str | None,
    flags: dict[str, int],
) -> list[Diagnostic]:
    """Checks that records, vocabulary, flags and model have the same sizes.

    Args:
      records: the records.
      bert_config: of the model; None if it is not known.
      vocab_file: None if it is not known.
      flags: sizes of the run, by dimension; those of the records by default.
    """
    name, _ = attempt("records", samples.schema_name, records)
    if name is None:
        return []  # `check_examples` reports it.
    sizes = samples.sizes_of(records, name)
    _, diagnostics = attempt(
        "lengths", records.check, schema_lib.SCHEMAS[name], sizes
    )
    for dimension, size in flags.items():
        if dimension in sizes and sizes[dimension] != size:
            text = (
                f"--{dimension}={size}, but the records were made with "
                f"{sizes[dimension]}. Omit the flag, or make them again."
            )
            diagnostics.append(Diagnostic(ERROR, "lengths", text))
    length = sizes["max_seq_length"]
    if bert_config and length > bert_config.max_position_embeddings:
        text = (
            f"the examples have {length} tokens, and the model's position "
            "table max_position_embeddings="
            f"{bert_config.max_position_embeddings}. Make shorter examples, or "
            "take another bert_config.json."
        )
        diagnostics.append(Diagnostic(ERROR, "lengths", text))
    if vocab_file:
        sha256, unread = attempt("vocabulary", vocab_lib.digest, vocab_file)
        _, differs = attempt(
            "vocabulary", records.check, {}, {}, vocab_sha256=sha256
        )
        diagnostics += unread + differs
    vocabulary = records.manifest.vocabulary if records.manifest else {}
    size = vocabulary.get("size", 0)
    if bert_config and size > bert_config.vocab_size:
        text = (
            f"the records were made with {size} entries; the model has "
            f"vocab_size={bert_config.vocab_size}. Use the bert_config.json "
            "that belongs to the vocabulary."
        )
        diagnostics.append(Diagnostic(ERROR, "vocabulary", text))
    return diagnostics


def check_memory(step: estimates.Step) -> list[Diagnostic]:
    """Returns a warning if a step takes more memory than there is."""
    needed = sum(estimates.memory(step).values())
    name, free = estimates.available_bytes()
    if not free or needed <= free:
        return []
    text = (
        f"the training takes about {needed / _GB:.1f} GB by arithmetic, and "
        f"the {name} is {free / _GB:.1f} GB. Raise "
        "--gradient_accumulation_steps, add --remat, or lower "
        "--train_batch_size."
    )
    return [Diagnostic(WARNING, "memory", text)]


def refuse_bad_records(
    config: TrainingConfig,
    all_records: Sequence[records_lib.Records],
    bert_config: BertConfig,
    vocab_file: str | None,
) -> None:
    """Checks a sample of the records before a training begins.

    Skipped where the run resumes, or with `config.doctor` false. Warnings are
    logged.

    Args:
      config: of the training, with the field `doctor`.
      all_records: to train on.
      bert_config: of the model.
      vocab_file: None if it is not known.

    Raises:
      ValueError: if some would spoil the training; a line for each problem.
    """
    if not config.doctor or checkpoints.newest_step(config.output_dir):
        return
    lines = []
    for records in all_records:
        diagnostics, statistics = check_examples(
            records, bert_config, vocab_file, QUICK_EXAMPLES
        )
        # How many replicas share a batch is not known here.
        if statistics and config.distribution_strategy == "one_device":
            diagnostics += check_memory(step_of(config, bert_config, records))
        folder = os.path.dirname(records.paths[0])
        spoiling = errors(diagnostics)
        lines += [f"{folder}: {d.check}: {d.text}" for d in spoiling]
        for diagnostic in diagnostics:
            if diagnostic not in spoiling:
                logging.warning(
                    "%s: %s: %s", folder, diagnostic.check, diagnostic.text
                )
    if lines:
        raise ValueError(
            "\n".join(lines) + "\nThese records would spoil the training, so "
            "it does not begin. run_scripts.doctor says more; --nodoctor "
            "begins it."
        )


def step_of(
    config: TrainingConfig,
    bert_config: BertConfig,
    records: records_lib.Records,
) -> estimates.Step:
    """Returns the batch and model of one optimizer step on these records."""
    name = samples.schema_name(records)
    sizes = samples.sizes_of(records, name)
    task, length = task_of(name), sizes["max_seq_length"]
    predictions = sizes.get(
        "max_predictions_per_row", sizes.get("max_predictions_per_seq", 0)
    )
    if bert_config.is_causal and task == "pretraining":
        predictions = length - 1  # Every token but the first.
    return estimates.Step(
        config=bert_config,
        task=task,
        # Each choice is a row of its own to the encoder.
        batch_size=config.train_batch_size * sizes.get("num_choices", 1),
        max_seq_length=length,
        max_predictions_per_seq=predictions,
        precision=config.precision,
        accumulation_steps=config.gradient_accumulation_steps,
        remat=config.remat,
    )

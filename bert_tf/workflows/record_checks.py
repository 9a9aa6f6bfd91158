"""Records, vocabulary, model -> diagnostics: severity, problem, fix.

`run_scripts.doctor` runs all checks; training runs `refuse_bad_records`.
"""

import dataclasses
import os
from collections.abc import Sequence

from absl import logging

from bert_tf.config import BertConfig
from bert_tf.training import run_folder
from bert_tf.training.config import TrainingConfig
from bert_tf.workflows import estimates, training_phases
from tfrecords import schema as schema_lib
from tfrecords.inspection import record_checks, sample_statistics, samples
from tfrecords.inspection.diagnostics import (
    ERROR,
    WARNING,
    Diagnostic,
    attempt,
    errors,
)
from tfrecords.io import records as records_lib
from tfrecords.reading import static_lengths
from tfrecords.text import vocab as vocab_lib

# Examples read before training, and by `doctor`; takes 0.2 and 1 s.
QUICK_EXAMPLES = 1024
EXAMPLES = 8192
_GB = 1e9
_ACCURACY = 0.15  # Of estimates of memory, see estimates.py.
# Schema -> task, where the names differ.
_TASKS = dict.fromkeys(schema_lib.PRETRAINING_SCHEMAS, "pretraining") | {
    "encoder_inputs": "classification",
    "choice_inputs": "multiple_choice",
    "ranking": "regression",
}


def task_of(schema_name: str) -> str:
    """Returns the task of models trained on records of a schema."""
    name = schema_name.removeprefix("weighted_")
    return _TASKS.get(name, name)


def check_examples(
    records: records_lib.Records,
    bert_config: BertConfig | None,
    vocabulary: vocab_lib.Vocabulary | None,
    num_examples: int | None,
) -> tuple[list[Diagnostic], sample_statistics.SampleStatistics | None]:
    """Checks a sample of records.

    Args:
      records: records to read.
      bert_config: config of the model; None if unknown.
      vocabulary: the vocabulary; None if unknown.
      num_examples: number of examples to read; None for all.

    Returns:
      Diagnostics, and the statistics of the sample (None if unreadable).
    """
    name, diagnostics = attempt("records", samples.schema_name, records)
    if name is None:
        return diagnostics, None
    sizes = samples.sizes_of(records, name)
    entries = None
    if vocabulary:
        tokens, diagnostics = attempt("vocabulary", vocabulary.entries)
        entries = sample_statistics.Entries.of(tokens) if tokens else None
    limits = [bert_config.vocab_size] if bert_config else []
    limits += [len(entries.names)] if entries else []
    manifest = records.manifest
    made_with = manifest.vocabulary if manifest else {}
    if "size" in made_with:
        limits.append(made_with["size"])
    # Ids can only be checked with their own vocabulary; `check_sizes` reports
    # other ones.
    is_same_vocabulary = entries and made_with.get("sha256") in (
        None,
        vocabulary.sha256(),
    )
    statistics, damaged = sample_statistics.count(
        records,
        name,
        sizes,
        entries if is_same_vocabulary else None,
        min(limits, default=None),
        num_examples,
    )
    diagnostics += [Diagnostic(ERROR, "records", text) for text in damaged]
    if statistics is None:
        return diagnostics, None
    diagnostics += record_checks.check_sample(
        statistics,
        manifest.flags if manifest else {},
        entries if is_same_vocabulary else None,
        first=records.first,
        is_pretraining=task_of(name) == "pretraining",
    )
    num_types = bert_config.type_vocab_size if bert_config else 0
    if 0 < num_types <= statistics.highest_type:  # Without any, all are read.
        text = (
            f"the largest of input_type_ids is {statistics.highest_type}; the "
            f"model has type_vocab_size={num_types}. Use the "
            "bert_config.json for which the records were made."
        )
        diagnostics.append(Diagnostic(ERROR, "ids", text))
    if entries:
        diagnostics += record_checks.check_case(
            statistics if is_same_vocabulary else None,
            entries,
            made_with=made_with.get("do_lower_case"),
            is_uncased=vocab_lib.infer_lower_case(
                vocabulary.content,
                vocab_lib.rules_of(made_with).get("strip_accents", True),
            ),
        )
    return diagnostics, statistics


def check_sizes(
    records: records_lib.Records,
    bert_config: BertConfig | None,
    vocabulary: vocab_lib.Vocabulary | None,
    flags: dict[str, int],
) -> list[Diagnostic]:
    """Checks that records, vocabulary, flags and model have matching sizes.

    Args:
      records: the records.
      bert_config: config of the model; None if unknown.
      vocabulary: the vocabulary; None if unknown.
      flags: dimension -> size, for sizes given as flags of the run.
    """
    name, _ = attempt("records", samples.schema_name, records)
    if name is None:
        return []  # `check_examples` reports it.
    sizes = samples.sizes_of(records, name)
    _, diagnostics = attempt(
        "lengths", records.check, schema_lib.SCHEMAS[name], sizes
    )
    length = sizes["max_seq_length"] // training_phases.num_windows(records)
    sizes = sizes | {"max_seq_length": length}
    for dimension, size in flags.items():
        if dimension in sizes and sizes[dimension] != size:
            text = (
                f"--{dimension}={size}, but the records were made with "
                f"{sizes[dimension]}. Omit the flag, or make them again."
            )
            diagnostics.append(Diagnostic(ERROR, "lengths", text))
    if bert_config and length > bert_config.max_position_embeddings:
        text = (
            f"the examples have {length} tokens, but the model has "
            f"max_position_embeddings={bert_config.max_position_embeddings}. "
            "Make shorter examples, or use another bert_config.json."
        )
        diagnostics.append(Diagnostic(ERROR, "lengths", text))
    for made_with in (
        {"vocab_sha256": vocabulary and vocabulary.sha256()},
        {"vocab_size": bert_config and bert_config.vocab_size},
    ):
        diagnostics += attempt(
            "vocabulary", records.check, {}, {}, **made_with
        )[1]
    return diagnostics


def check_memory(step: estimates.Step) -> list[Diagnostic]:
    """Returns a diagnostic if a step needs more memory than is free.

    It is an error only if it needs more than there is: other processes may end.
    """
    needed = sum(estimates.memory(step).values())
    memory = estimates.read_memory()
    if not memory.total or needed <= memory.free:
        return []
    text = (
        f"training needs an estimated {needed / _GB:.1f} GB; of the "
        f"{memory.name}, {memory.free / _GB:.1f} of {memory.total / _GB:.1f} "
        "GB are free. Raise --gradient_accumulation_steps, add --remat, or "
        "lower --train_batch_size."
    )
    is_too_large = needed > (1 + _ACCURACY) * memory.total
    return [Diagnostic(ERROR if is_too_large else WARNING, "memory", text)]


def refuse_bad_records(
    config: TrainingConfig,
    folder: run_folder.RunFolder,
    all_records: Sequence[records_lib.Records],
    bert_config: BertConfig,
    vocabulary: vocab_lib.Vocabulary | None,
) -> None:
    """Checks a sample of the records before training.

    Skipped if the run resumes, or `config.doctor` is false. Warnings are
    logged.

    Args:
      config: config of the run, with the field `doctor`.
      folder: folder of the run.
      all_records: records of all phases.
      bert_config: config of the model.
      vocabulary: the vocabulary; None if unknown.

    Raises:
      ValueError: if there are errors, with a line for each.
    """
    if not config.doctor or folder.newest_step():
        return
    lines = []
    for records in all_records:
        diagnostics, statistics = check_examples(
            records, bert_config, vocabulary, QUICK_EXAMPLES
        )
        if statistics:
            step = step_of(config, bert_config, records)
            if config.distribution_strategy != "one_device":
                # The number of replicas that share a batch is not known here,
                # but each has all weights.
                step = dataclasses.replace(
                    step, batch_size=1, accumulation_steps=1
                )
            diagnostics += check_memory(step)
        name = os.path.dirname(records.paths[0])
        fatal = errors(diagnostics)
        lines += [f"{name}: {d.check}: {d.text}" for d in fatal]
        for diagnostic in diagnostics:
            if diagnostic not in fatal:
                logging.warning(
                    "%s: %s: %s", name, diagnostic.check, diagnostic.text
                )
    if lines:
        raise ValueError(
            "\n".join(lines) + "\nTraining is not started because of these "
            "errors. run_scripts.doctor reports details; --nodoctor skips "
            "this check."
        )


def step_of(
    config: TrainingConfig,
    bert_config: BertConfig,
    records: records_lib.Records,
) -> estimates.Step:
    """Returns batch and model of an optimizer step on these records."""
    name = samples.schema_name(records)
    sizes = samples.sizes_of(records, name)
    task, num_windows = task_of(name), training_phases.num_windows(records)
    length = sizes["max_seq_length"] // num_windows
    if num_windows > 1:  # Those of the longest text.
        lengths = static_lengths.read(records, sizes["max_seq_length"])
        num_windows = -(-int(lengths.max()) // length)
    predictions = sizes.get(
        "max_predictions_per_row", sizes.get("max_predictions_per_seq", 0)
    )
    if bert_config.is_causal and task == "pretraining":
        predictions = length - 1  # All tokens except the first.
    return estimates.Step(
        config=bert_config,
        task=task,
        # For the encoder each choice or window is a separate row.
        batch_size=config.train_batch_size
        * sizes.get("num_choices", num_windows),
        max_seq_length=length,
        max_predictions_per_seq=predictions,
        precision=config.precision,
        accumulation_steps=config.gradient_accumulation_steps,
        remat=config.remat,
        optimizer=config.optimizer,
        has_averages=config.ema_decay is not None,
        has_adapters=getattr(config, "lora_rank", None) is not None,
    )

"""Records, model and flags of a run -> findings: whether it should begin.

`doctor` asks for all of it, a runner for the quick part.
"""

import os
from collections.abc import Sequence

from absl import flags, logging

from bert_tf.config import BertConfig
from bert_tf.conversion import vocabularies
from bert_tf.training import checkpoints
from bert_tf.workflows import estimates
from tfrecords import schema as schema_lib
from tfrecords.inspection import (
    diagnostics,
    record_checks,
    sample_statistics,
    samples,
)
from tfrecords.inspection.diagnostics import ERROR, WARNING, Diagnostic
from tfrecords.io import records as records_lib
from tfrecords.text import vocab as vocab_lib

# Examples that a runner looks at, and that `doctor` does: 0.2 and 1 s.
QUICK_EXAMPLES = 1024
EXAMPLES = 8192
_GB = 1e9
# Of schemas that have not the name of their task.
_TASKS = dict.fromkeys(schema_lib.PRETRAINING_SCHEMAS, "pretraining") | {
    "encoder_inputs": "classification",
    "choice_inputs": "multiple_choice",
}


def define_quick(values: flags.FlagValues) -> None:
    """Adds the flag that leaves the quick part out."""
    flags.DEFINE_bool(
        "doctor",
        True,
        "Look at a sample of the records before a training begins, and refuse "
        "what would spoil it; run_scripts.doctor says more.",
        flag_values=values,
    )


def task_of(schema_name: str) -> str:
    """Returns the task of models that train on a schema's records."""
    return _TASKS.get(schema_name, schema_name)


def check_examples(
    found: records_lib.Records,
    config: BertConfig | None,
    vocab_file: str | None,
    num_wanted: int | None,
) -> tuple[list[Diagnostic], sample_statistics.SampleStatistics | None]:
    """Looks at a sample of records.

    Args:
      found: the records.
      config: of the model; None if it is not known.
      vocab_file: None if it is not known.
      num_wanted: examples to look at; None for all.

    Returns:
      What is wrong with them, and what was counted.
    """
    name, faults = diagnostics.attempt("records", samples.schema_name, found)
    if name is None:
        return faults, None
    sizes = samples.sizes_of(found, name)
    entries = None
    if vocab_file:
        names, faults = diagnostics.attempt(
            "vocabulary", vocab_lib.read, vocab_file
        )
        entries = sample_statistics.Entries.of(names) if names else None
    limits = [config.vocab_size] if config else []
    limits += [len(entries.names)] if entries else []
    manifest = found.manifest
    made_with = manifest.vocabulary if manifest else {}
    if "size" in made_with:
        limits.append(made_with["size"])
    # Of ids another vocabulary says nothing; `check_sizes` finds it.
    is_theirs = entries and made_with.get("sha256") in (
        None,
        vocab_lib.digest(vocab_file),
    )
    tally, damaged = sample_statistics.count(
        found,
        name,
        sizes,
        entries if is_theirs else None,
        min(limits, default=None),
        num_wanted,
    )
    faults += [Diagnostic(ERROR, "records", text) for text in damaged]
    if tally is None:
        return faults, None
    faults += record_checks.check_sample(
        tally,
        manifest.flags if manifest else {},
        entries if is_theirs else None,
        first=found.first,
        is_pretraining=task_of(name) == "pretraining",
    )
    if config and tally.highest_type >= config.type_vocab_size:
        text = (
            f"input_type_ids go up to {tally.highest_type}; the model has "
            f"type_vocab_size={config.type_vocab_size}. Use the "
            "bert_config.json that the records were made for."
        )
        faults.append(Diagnostic(ERROR, "ids", text))
    if entries:
        faults += record_checks.check_case(
            tally if is_theirs else None,
            entries,
            made_with=made_with.get("do_lower_case"),
            is_uncased=vocabularies.infer_lower_case(
                vocabularies.read(vocab_file)
            ),
        )
    return faults, tally


def check_sizes(
    found: records_lib.Records,
    config: BertConfig | None,
    vocab_file: str | None,
    wanted: dict[str, int],
) -> list[Diagnostic]:
    """Returns where records, vocabulary, flags and model differ in size.

    Args:
      found: the records.
      config: of the model; None if it is not known.
      vocab_file: None if it is not known.
      wanted: sizes that flags say, by dimension.
    """
    name, _ = diagnostics.attempt("records", samples.schema_name, found)
    if name is None:
        return []  # Said by `check_examples`.
    sizes = samples.sizes_of(found, name)
    _, faults = diagnostics.attempt(
        "lengths", found.check, schema_lib.SCHEMAS[name], sizes
    )
    for dimension, size in wanted.items():
        if dimension in sizes and sizes[dimension] != size:
            text = (
                f"--{dimension}={size}, but the records were made with "
                f"{sizes[dimension]}. Leave the flag away, or make them again."
            )
            faults.append(Diagnostic(ERROR, "lengths", text))
    length = sizes["max_seq_length"]
    if config and length > config.max_position_embeddings:
        text = (
            f"the examples have {length} tokens, and the model's position "
            "table max_position_embeddings="
            f"{config.max_position_embeddings}. Make shorter examples, or "
            "take another bert_config.json."
        )
        faults.append(Diagnostic(ERROR, "lengths", text))
    if vocab_file:
        sha256, unread = diagnostics.attempt(
            "vocabulary", vocab_lib.digest, vocab_file
        )
        faults += unread
        _, others = diagnostics.attempt(
            "vocabulary", found.check, {}, {}, vocab_sha256=sha256
        )
        faults += others
    vocabulary = found.manifest.vocabulary if found.manifest else {}
    size = vocabulary.get("size", 0)
    if config and size > config.vocab_size:
        text = (
            f"the records were made with {size} entries; the model has "
            f"vocab_size={config.vocab_size}. Use the bert_config.json that "
            "belongs to the vocabulary."
        )
        faults.append(Diagnostic(ERROR, "vocabulary", text))
    return faults


def check_memory(step: estimates.Step) -> list[Diagnostic]:
    """Returns a warning if a step takes more memory than there is."""
    needed = sum(estimates.memory(step).values())
    where, free = estimates.available_bytes()
    if not free or needed <= free:
        return []
    text = (
        f"the training takes about {needed / _GB:.1f} GB by arithmetic, and "
        f"the {where} is {free / _GB:.1f} GB. Raise "
        "--gradient_accumulation_steps, add --remat, or lower "
        "--train_batch_size."
    )
    return [Diagnostic(WARNING, "memory", text)]


def refuse_bad(
    values: flags.FlagValues,
    sets: Sequence[records_lib.Records],
    config: BertConfig,
    vocab_file: str | None,
) -> None:
    """The quick part, for a runner that is about to train.

    Looks at what it does not check by itself, unless it goes on or --nodoctor
    is given. Warnings are logged.

    Args:
      values: with the flags of `define_quick` and of training.
      sets: records to train on.
      config: of the model.
      vocab_file: None if it is not known.

    Raises:
      ValueError: if one would spoil the training; with a line a finding.
    """
    if not values.doctor or checkpoints.newest_step(values.output_dir):
        return
    lines = []
    for found in sets:
        faults, tally = check_examples(
            found, config, vocab_file, QUICK_EXAMPLES
        )
        # How many replicas share a batch is not known here.
        if tally and values.distribution_strategy == "one_device":
            faults += check_memory(step_of(values, config, found))
        where = os.path.dirname(found.paths[0])
        spoiling = diagnostics.errors(faults)
        lines += [f"{where}: {f.check}: {f.text}" for f in spoiling]
        for fault in faults:
            if fault not in spoiling:
                logging.warning("%s: %s: %s", where, fault.check, fault.text)
    if lines:
        raise ValueError(
            "\n".join(lines) + "\nThis training would be spoilt, so it does "
            "not begin. run_scripts.doctor says more; --nodoctor begins it."
        )


def step_of(
    values: flags.FlagValues, config: BertConfig, found: records_lib.Records
) -> estimates.Step:
    """Returns what a step works on, by the flags of training."""
    name = samples.schema_name(found)
    sizes = samples.sizes_of(found, name)
    task, length = task_of(name), sizes["max_seq_length"]
    predictions = sizes.get(
        "max_predictions_per_row", sizes.get("max_predictions_per_seq", 0)
    )
    if config.is_causal and task == "pretraining":
        predictions = length - 1  # Every token but the first.
    return estimates.Step(
        config=config,
        task=task,
        # Each choice is a row of its own to the encoder.
        batch_size=values.train_batch_size * sizes.get("num_choices", 1),
        max_seq_length=length,
        max_predictions_per_seq=predictions,
        precision=values.precision,
        accumulation_steps=values.gradient_accumulation_steps,
        remat=values.remat,
    )

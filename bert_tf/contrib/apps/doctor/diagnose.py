"""DoctorConfig -> diagnostics of a planned run, an estimate of its memory."""

import dataclasses
import hashlib

from bert_tf.checkpoint import contents, tensor_files
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.checkpoint.contents import Contents
from bert_tf.config import BertConfig
from bert_tf.contrib.apps.doctor.config import DoctorConfig
from bert_tf.workflows import estimates, initial_model, record_checks
from tfrecords.inspection import samples, shard_checks
from tfrecords.inspection.diagnostics import (
    ERROR,
    NOTE,
    WARNING,
    Diagnostic,
    attempt,
)
from tfrecords.io import records as records_lib
from tfrecords.options import some
from tfrecords.text import vocab

_GB = 1e9
_MAX_NAMES = 3  # Weights named in a message.


def diagnose(config: DoctorConfig) -> tuple[list[Diagnostic], list[str]]:
    """Returns all diagnostics, and lines with sample sizes and estimates."""
    records, diagnostics = shard_checks.open_intact(config.records)
    checkpoint = None
    if config.init_checkpoint:
        checkpoint, unread = attempt("checkpoint", _open_checkpoint, config)
        diagnostics += unread
    vocabulary = checkpoint and checkpoint.vocabulary_file()
    if config.vocab_file:
        vocabulary, unread = attempt(
            "vocabulary", vocab.Vocabulary.open, config.vocab_file
        )
        diagnostics += unread
    bert_config, unread = attempt(
        "config", _choose_config, config, checkpoint, records, vocabulary
    )
    diagnostics += unread
    lines = _not_checked(config, bert_config, vocabulary)
    if records is None:
        return diagnostics, lines
    flags = {
        name: getattr(config, name)
        for name in ("max_seq_length", "max_predictions_per_seq")
        if getattr(config, name) is not None
    }
    diagnostics += record_checks.check_sizes(
        records, bert_config, vocabulary, flags
    )
    made_with = records.manifest.vocabulary if records.manifest else {}
    _, contradicted = attempt(
        "case", initial_model.choose_rules, config, made_with
    )
    diagnostics += contradicted
    max_bytes = None if config.all else records_lib.DIGEST_BYTES
    diagnostics += shard_checks.check_digests(records, max_bytes)
    num_examples = None if config.all else record_checks.EXAMPLES
    sample_diagnostics, statistics = record_checks.check_examples(
        records, bert_config, vocabulary, num_examples
    )
    diagnostics += sample_diagnostics
    if statistics:
        lines.insert(
            0,
            f"{len(records):,} records, shards: {len(records.paths)}; "
            f"{statistics.num_examples:,} examples checked",
        )
        if bert_config:
            costs = _costs(config, bert_config, records)
            diagnostics += costs[0]
            lines += costs[1]
    name, _ = attempt("records", samples.schema_name, records)
    if checkpoint and bert_config and name:
        diagnostics += check_checkpoint(
            checkpoint,
            bert_config,
            record_checks.task_of(name),
            made_with,
            vocabulary,
        )
    return diagnostics, lines


def _open_checkpoint(config: DoctorConfig) -> Checkpoint:
    """Returns the model of `init_checkpoint`; raises ValueError for faults."""
    given = Checkpoint.open(
        config.init_checkpoint,
        accept_tokenizer_differences=config.accept_tokenizer_differences,
    )
    contents.check_labels(given)
    return given


def _choose_config(
    config: DoctorConfig,
    checkpoint: Contents | None,
    records: records_lib.Records | None,
    vocabulary: vocab.Vocabulary | None,
) -> BertConfig | None:
    """Returns the config of the model, from flags or the checkpoint."""
    size = None
    if config.bert_config_name:  # Its vocabulary size is that of the run.
        made_with = records and records.manifest and records.manifest.vocabulary
        size = (made_with or {}).get("size")
        if not size and vocabulary:
            size = len(vocabulary.entries())
    if config.bert_config_name or config.bert_config_file:
        return initial_model.choose_config(config, size, None)
    return checkpoint.config if checkpoint else None


def _not_checked(
    config: DoctorConfig,
    bert_config: BertConfig | None,
    vocabulary: vocab.Vocabulary | None,
) -> list[str]:
    """Returns a line for each check that has to be skipped."""
    lines = []
    if not vocabulary:
        lines.append("not checked without --vocab_file: [UNK], case")
    if not bert_config:
        lines.append(
            "not checked without --bert_config_file: model sizes, memory"
        )
    if not config.init_checkpoint:
        lines.append("not checked without --init_checkpoint: weights")
    return lines


def _costs(
    config: DoctorConfig, bert_config: BertConfig, records: records_lib.Records
) -> tuple[list[Diagnostic], list[str]]:
    """Returns diagnostics and lines on the memory and epochs of the run."""
    step = record_checks.step_of(config, bert_config, records)
    num_steps = len(records) / config.train_batch_size
    epochs = f"{num_steps:,.0f} steps per epoch"
    if config.num_train_steps:
        epochs += (
            f"; --num_train_steps={config.num_train_steps} is "
            f"{config.num_train_steps / num_steps:.2f} epochs"
        )
    parts = estimates.memory(step)
    if config.num_replicas > 1:
        share = config.num_replicas * config.gradient_accumulation_steps
        if config.train_batch_size % share:
            text = (
                f"--train_batch_size={config.train_batch_size} is not a "
                f"multiple of {share}: --num_replicas={config.num_replicas} x "
                "--gradient_accumulation_steps="
                f"{config.gradient_accumulation_steps}. Choose a multiple."
            )
            return [Diagnostic(ERROR, "replicas", text)], []
        rows = step.batch_size // config.num_replicas
        parts = estimates.memory(dataclasses.replace(step, batch_size=rows))
        del parts["TensorFlow"]  # It is on the host.
    words = ", ".join(f"{n} {x / _GB:.1f}" for n, x in parts.items())
    memory = f"memory {sum(parts.values()) / _GB:.1f} GB ({words})"
    if config.num_replicas > 1:
        text = (
            f"{memory} of each of {config.num_replicas} replicas, with {rows} "
            f"of {step.batch_size} rows of {step.max_seq_length} tokens, "
            "without what its runtime reserves"
        )
        return [], [f"estimate: {text}", f"estimate: {epochs}"]
    available = estimates.read_memory()
    if available.total:
        memory += f"; free {available.name} {available.free / _GB:.1f} GB"
    millions = estimates.num_weights(step) / 1e6
    lines = [f"estimate: {millions:.1f} million weights; {memory}"]
    return record_checks.check_memory(step), [*lines, f"estimate: {epochs}"]


def check_checkpoint(
    checkpoint: Contents,
    bert_config: BertConfig,
    task: str,
    made_with: dict,
    vocabulary: vocab.Vocabulary | None = None,
) -> list[Diagnostic]:
    """Checks which weights would be loaded, and vocabulary and case.

    Args:
      checkpoint: checkpoint to initialize from.
      bert_config: config of the model.
      task: task of the model.
      made_with: `sha256` and rules of the records; may be empty.
      vocabulary: a vocabulary that may be that of the records.
    """
    diagnostics = [_check_weights(checkpoint, bert_config, task)]
    sha256 = made_with.get("sha256")
    if checkpoint.vocabulary is not None and sha256:
        is_same = hashlib.sha256(checkpoint.vocabulary).hexdigest() == sha256
        if not is_same and not _replaces_unused(checkpoint, vocabulary, sha256):
            text = (
                "was trained with another vocabulary than that of the records "
                f"(sha256 of the latter: {sha256[:12]}...). Make the records "
                "again with the vocab.txt of the checkpoint; or give theirs as "
                "--vocab_file, if it only replaces [unused] entries."
            )
            diagnostics.append(Diagnostic(ERROR, "checkpoint", text))
    made_with = vocab.all_rules_of(made_with)
    trained_with = initial_model.rules_of_model(checkpoint)
    for name, value in trained_with.items():
        if made_with.get(name) not in (None, value):
            fix = f"Make the records again with --{name}={str(value).lower()}"
            if name == vocab.SPLIT:
                fix = "The trained model will have that of the records"
            text = (
                f"the checkpoint was trained with {name}={value}, the records "
                f"were made with {made_with[name]}. {fix}."
            )
            is_free = checkpoint.is_case_inferred or name == vocab.SPLIT
            severity = WARNING if is_free else ERROR
            diagnostics.append(Diagnostic(severity, "case", text))
            break  # Another case has other accents, too.
    return diagnostics


def _check_weights(
    checkpoint: Contents, bert_config: BertConfig, task: str
) -> Diagnostic:
    """Returns which of the model's weights would be loaded.

    As in training: only those of the encoder, unless both the checkpoint and
    the model are for pre-training.
    """
    wanted = contents.shapes(bert_config, task, len(checkpoint.labels) or 2)
    has_heads = task == checkpoint.task == "pretraining"
    found = {
        name: shape
        for name, shape in tensor_files.shapes_of(checkpoint.tensors).items()
        if has_heads or name.startswith("encoder/")
    }
    missing = [name for name in wanted if name not in found]
    other_shapes = [
        f"{name}: {found[name]} in the checkpoint, {shape} in the model"
        for name, shape in wanted.items()
        if found.get(name, shape) != shape
    ]
    unused = [name for name in checkpoint.tensors if name not in wanted]
    unused += checkpoint.unused
    loaded = len(wanted) - len(missing) - len(other_shapes)
    text = f"has {loaded} of the model's {len(wanted)} weights"
    severity, fix = NOTE, "."
    if missing:
        text += f"; newly initialized: {some(missing, most=_MAX_NAMES)}"
    if unused:
        text += f"; not used: {some(unused, most=_MAX_NAMES)}"
    if other_shapes:
        named = some(other_shapes, most=_MAX_NAMES)
        text += f"; with different shapes: {named}"
        severity = ERROR
        fix = ". Use the bert_config.json that belongs to the checkpoint."
    elif not loaded:
        severity, fix = ERROR, ". Give a BERT checkpoint."
    elif any(name.startswith("encoder/") for name in missing):
        severity, fix = WARNING, ". Check that it is the intended checkpoint."
    return Diagnostic(severity, "checkpoint", text + fix)


def _replaces_unused(
    checkpoint: Contents, vocabulary: vocab.Vocabulary | None, sha256: str
) -> bool:
    """Returns whether records' vocabulary only replaces [unused] entries."""
    if not vocabulary or vocabulary.sha256() != sha256:
        return False
    old = vocab.parse(checkpoint.vocabulary, checkpoint.source)
    return not vocab.list_changes(old, vocabulary.entries())[1]

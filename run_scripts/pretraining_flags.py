"""Flags of pre-training -> its records, their sizes and vocabulary."""

from absl import flags

from bert_tf.tasks import pretraining
from tfrecords import records, vocab


def define_records(values: flags.FlagValues) -> None:
    """Adds the flags that name records and the sizes of their examples."""
    flags.DEFINE_string(
        "input_file",
        None,
        "Records to train on: a folder that make_pretraining_records wrote, or "
        "TFRecord files of the original as comma-separated globs.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "eval_input_file",
        None,
        "Records to evaluate on, at every checkpoint and at the end.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "max_seq_length",
        None,
        "Tokens in an example; default: what the records' manifest says.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "max_predictions_per_seq",
        None,
        "Masked places in an example; default: what the manifest says.",
        flag_values=values,
    )


def find_sizes(
    values: flags.FlagValues, found: records.Records
) -> dict[str, int]:
    """Returns the sizes of examples, from flags or else from the manifest."""
    sizes = dict(found.manifest.sizes) if found.manifest else {}
    for name in ("max_seq_length", "max_predictions_per_seq"):
        if values[name].value is not None:
            sizes[name] = values[name].value
        if name not in sizes:
            raise ValueError(
                f"These records have no manifest, so --{name} is needed: the "
                "value they were made with."
            )
    return sizes


def vocabulary_digest(
    values: flags.FlagValues, vocab_file: str | None
) -> str | None:
    """Returns the sha256 of the vocabulary that all records must share.

    Args:
      values: with the flags of `define_records`.
      vocab_file: that of the flags or of the model to begin with; with None,
        the one that the training records were made with counts.
    """
    if vocab_file:
        return vocab.digest(vocab_file)
    manifest = records.Records.open(
        values.input_file or values.eval_input_file
    ).manifest
    return manifest.vocabulary["sha256"] if manifest else None


def open_records(path, sizes, config, sha256) -> records.Records:
    """Opens records and checks that the model can read them."""
    found = records.Records.open(path)
    found.check(pretraining.TASK.schema, sizes, vocab_sha256=sha256)
    made_with = found.manifest.vocabulary["size"] if found.manifest else 0
    if made_with > config.vocab_size:
        raise ValueError(
            f"{path} was made with a vocabulary of {made_with} entries; the "
            f"model has only vocab_size={config.vocab_size}. Make the records "
            "with the vocabulary of the model."
        )
    if sizes["max_seq_length"] > config.max_position_embeddings:
        raise ValueError(
            f"{path} has examples of {sizes['max_seq_length']} tokens; the "
            "model reads at most max_position_embeddings="
            f"{config.max_position_embeddings}. Make them shorter."
        )
    return found


def vocabulary_size(
    values: flags.FlagValues, vocab_file: str | None
) -> int | None:
    """Returns the entries of a vocabulary file, or of the records'."""
    if vocab_file:
        return len(vocab.read(vocab_file))
    manifest = records.Records.open(
        values.input_file or values.eval_input_file
    ).manifest
    return manifest.vocabulary["size"] if manifest else None

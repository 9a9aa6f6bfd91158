"""Contents -> files of a format, read back and compared bit for bit."""

from bert_tf.checkpoint import detection, lossless
from bert_tf.checkpoint.contents import Contents
from bert_tf.checkpoint.options import ACCEPT, OURS
from tfrecords.text import vocab


def _check_supported(given: Contents, to: str) -> None:
    """Raises ValueError if the target format cannot express the config."""
    keys = given.config.keys_of_ours()
    if keys and to != OURS:
        settings = ", ".join(f"{name}={value}" for name, value in keys.items())
        raise ValueError(
            f"{given.source} has {settings} in its bert_config.json, which "
            f"{to} does not support: its weights would be read as those of an "
            "ordinary BERT. Keep such a model in the "
            f"format {OURS}; export_savedmodel can export it."
        )


def _check_rules(given: Contents, to: str) -> None:
    """Raises ValueError if the target format cannot hold the tokenizer's rules.

    The case is inferred again from the vocabulary. That special tokens in texts
    are not split is lost, which the report says: other texts are the same.
    """
    rules = given.rules()
    for name in ("do_lower_case", vocab.SPLIT):
        rules.pop(name, None)
    if rules and to in ("google", "model_garden"):
        settings = ", ".join(f"{name}={value}" for name, value in rules.items())
        raise ValueError(
            f"The tokenizer of {given.source} has {settings}, which no file of "
            f"the format {to} holds: its readers would make other tokens. "
            f"Choose another format. {ACCEPT} to write it anyway."
        )


def write(
    given: Contents,
    to: str,
    folder: str,
    accept_tokenizer_differences: bool = False,
) -> tuple[Contents, list[str]]:
    """Writes Contents, reads them back and compares the two, bit for bit.

    Args:
      given: what to write.
      to: target format, one of `options.FORMATS`.
      folder: a folder from `atomic_files.atomic_folder`.
      accept_tokenizer_differences: whether the format may lack the rules of the
        tokenizer.

    Returns:
      The Contents read back, and lines of the report: its notes, and how
      tensors changed.

    Raises:
      ValueError: if the format cannot hold it, or the written files differ.
    """
    _check_supported(given, to)
    if not accept_tokenizer_differences:
        _check_rules(given, to)
    target = detection.format_module(to)
    target.write(given, folder)
    written = target.read(folder)
    return written, [
        *(f"note on the target: {note}" for note in written.notes),
        *lossless.tensor_lines(given, written),
        *lossless.check_lossless(given, written),
    ]

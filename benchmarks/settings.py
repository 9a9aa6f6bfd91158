"""Flags of a benchmark -> the settings that all implementations are given."""

from absl import flags

from benchmarks import peers, work
from bert_tf import config as bert_config

DEFAULT_PEERS = (
    "model_garden",
    "keras_hub",
    "hugging_face",
    "hugging_face_compiled",
)


def define_flags(values: flags.FlagValues) -> None:
    """Adds the flags that all comparisons have."""
    define_machine_flags(values)
    flags.DEFINE_list(
        "peers",
        list(DEFAULT_PEERS),
        f"Beside ours; of {', '.join(list(peers.PEERS)[1:-2])}.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "at_once",
        2,
        "Implementations alive at once, ours one of them: ours and one peer "
        "at a time need the least memory.",
        lower_bound=2,
        flag_values=values,
    )
    flags.DEFINE_list(
        "precision", ["bfloat16"], "float32, bfloat16.", flag_values=values
    )
    flags.DEFINE_string("size", "base", "Of BERT.", flag_values=values)


def define_shape_flags(values: flags.FlagValues) -> None:
    """Adds the flags of a batch of equal rows."""
    flags.DEFINE_list("seq_length", ["128"], "Tokens.", flag_values=values)
    flags.DEFINE_list("batch_size", ["16"], "Rows.", flag_values=values)


def define_machine_flags(values: flags.FlagValues) -> None:
    """Adds the flags that say how long to measure, and where to write."""
    flags.DEFINE_integer(
        "rounds", 5, "Rounds to time.", lower_bound=1, flag_values=values
    )
    flags.DEFINE_float(
        "seconds",
        1.0,
        "About how long each works in a round; one step at least.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_string(
        "json", "", "File for all figures of all rounds.", flag_values=values
    )


def numbers(name: str, words: list[str]) -> list[int]:
    """Returns the whole numbers of a flag.

    Raises:
      ValueError: if a word is none.
    """
    for word in words:
        if not word.isdigit() or not int(word):
            raise ValueError(
                f"--{name}: {word!r} should be a whole number above 0."
            )
    return [int(word) for word in words]


def among(name: str, words: list[str], known) -> list[str]:
    """Returns the words of a flag.

    Raises:
      ValueError: if one is unknown.
    """
    for word in words:
        if word not in known:
            raise ValueError(
                f"--{name}: {word!r} should be one of {', '.join(known)}."
            )
    return list(words)


def from_flags(
    values: flags.FlagValues, tasks: list[str], is_training: bool
) -> list[work.Setting]:
    """Returns what the flags ask for, each combination once.

    Raises:
      ValueError: if a flag has a word that is not known.
    """
    among("peers", values.peers, peers.PEERS)
    return combinations(
        values.size,
        tasks,
        numbers("seq_length", values.seq_length),
        numbers("batch_size", values.batch_size),
        values.precision,
        is_training=is_training,
    )


def combinations(
    size: str, tasks, seq_lengths, batch_sizes, precisions, *, is_training: bool
) -> list[work.Setting]:
    """Returns a setting for each combination; of the released vocabulary.

    Args:
      size: a name that `BertConfig.from_name` knows.
      tasks: of `work.TASKS`.
      seq_lengths: tokens of a row.
      batch_sizes: rows.
      precisions: of `work.PRECISIONS`.
      is_training: whether whole steps, or forward passes.

    Raises:
      ValueError: if a size or precision is unknown.
    """
    among("precision", precisions, work.PRECISIONS)
    config = bert_config.BertConfig.from_name(
        size, max_position_embeddings=max(512, *seq_lengths)
    )
    return [
        work.Setting(
            config.to_dict(), task, is_training, batch_size, length, precision
        )
        for task in tasks
        for length in seq_lengths
        for batch_size in batch_sizes
        for precision in precisions
    ]

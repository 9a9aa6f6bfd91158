"""Flags of a benchmark -> settings for all implementations."""

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
    """Defines the flags of all comparisons."""
    define_machine_flags(values)
    flags.DEFINE_list(
        "peers",
        list(DEFAULT_PEERS),
        "Implementations to compare with ours: "
        f"{', '.join(list(peers.PEERS)[1:-2])}.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "at_once",
        2,
        "Number of implementations in memory at the same time, including "
        "ours. The minimum, 2, needs the least memory.",
        lower_bound=2,
        flag_values=values,
    )
    flags.DEFINE_list(
        "precision",
        ["bfloat16"],
        "Precisions to time: float32, bfloat16.",
        flag_values=values,
    )
    flags.DEFINE_string("size", "base", "Model size.", flag_values=values)


def define_shape_flags(values: flags.FlagValues) -> None:
    """Defines the flags for batches of rows of equal length."""
    flags.DEFINE_list(
        "seq_length", ["128"], "Tokens in a row.", flag_values=values
    )
    flags.DEFINE_list(
        "batch_size", ["16"], "Rows in a batch.", flag_values=values
    )


def define_machine_flags(values: flags.FlagValues) -> None:
    """Defines the flags for the duration of measurements and the output."""
    flags.DEFINE_integer(
        "rounds", 5, "Rounds to time.", lower_bound=1, flag_values=values
    )
    flags.DEFINE_float(
        "seconds",
        1.0,
        "Approximate time that an implementation runs for in a round; at least "
        "one step.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_string(
        "json", "", "File for the results of all rounds.", flag_values=values
    )


def numbers(name: str, words: list[str], least: int = 1) -> list[int]:
    """Returns the values of a flag as integers of at least `least`, 0 or 1.

    Raises:
      ValueError: if a value is not such an integer.
    """
    wanted = "a positive integer" if least else "0 or a positive integer"
    for word in words:
        if not word.isdecimal() or int(word) < least:
            raise ValueError(f"--{name}: {word!r} should be {wanted}.")
    return [int(word) for word in words]


def among(name: str, words: list[str], known) -> list[str]:
    """Returns the values of a flag unchanged, if all of them are known.

    Raises:
      ValueError: if a value is not in `known`.
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
    """Returns a setting for each combination of the flags' values.

    Raises:
      ValueError: if a value is unknown.
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
    """Returns a setting for each combination, with BERT's vocabulary size.

    Args:
      size: a name that `BertConfig.from_name` knows.
      tasks: tasks of `work.TASKS`.
      seq_lengths: tokens in a row.
      batch_sizes: rows in a batch.
      precisions: precisions of `work.PRECISIONS`.
      is_training: True for training steps, False for forward passes.

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

"""Flags used by more than one script -> parsed values and user-facing errors.

Every script owns its `flags.FlagValues`, so that several can be imported in
one process, each with its own defaults.
"""

import importlib.metadata
import inspect
import os
import sys
import traceback

from absl import flags, logging

from bert_tf import config


def define_vocabulary(values: flags.FlagValues) -> None:
    """Adds the flags that say how text becomes token ids."""
    flags.DEFINE_string(
        "vocab_file",
        None,
        "WordPiece vocabulary, one entry a line, as released with BERT.",
        flag_values=values,
    )
    flags.DEFINE_bool(
        "do_lower_case",
        True,
        "Lower-case text and strip accents; false for cased vocabularies.",
        flag_values=values,
    )


def define_text(values: flags.FlagValues) -> None:
    """Adds the flags that say which text to read, and how."""
    flags.DEFINE_string(
        "input_file",
        None,
        "Text files, plain or .gz; names or globs, separated by commas.",
        flag_values=values,
    )
    flags.DEFINE_enum(
        "input_format",
        "auto",
        ["auto", "sentences", "text", "wikiextractor"],
        "sentences: one a line, a blank line between documents. text: "
        "paragraphs, a file is a document. wikiextractor: <doc ...> files. "
        "auto judges each file.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "language",
        "en",
        "Code of the text's language, for where sentences end.",
        flag_values=values,
    )


def define_max_seq_length(values: flags.FlagValues, default: int = 128) -> None:
    """Adds `--max_seq_length`."""
    flags.DEFINE_integer(
        "max_seq_length",
        default,
        "Tokens in an example, [CLS], [SEP] and padding included.",
        lower_bound=5,
        flag_values=values,
    )


def define_model(values: flags.FlagValues) -> None:
    """Adds the flags that choose the model's sizes and first weights."""
    flags.DEFINE_string(
        "bert_config_file",
        None,
        "bert_config.json with the sizes of the model.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "bert_config_name",
        None,
        "A released size by name, such as base or L-2_H-128; the vocabulary "
        "size comes from --vocab_file. Instead of --bert_config_file.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Folder of an earlier run, or of one of its checkpoints, whose "
        "encoder weights to start from.",
        flag_values=values,
    )


def define_training(
    values: flags.FlagValues, *, learning_rate: float, train_batch_size: int
) -> None:
    """Adds the flags of the training loop, with a script's own defaults."""
    number = dict(flag_values=values)
    flags.DEFINE_string(
        "output_dir",
        None,
        "Folder for checkpoints, logs and results. The same command with "
        "the same folder goes on where it stopped.",
        **number,
    )
    flags.DEFINE_integer(
        "train_batch_size",
        train_batch_size,
        "Examples in one optimizer step, over all replicas.",
        lower_bound=1,
        **number,
    )
    flags.DEFINE_integer(
        "eval_batch_size",
        64,
        "Examples in one evaluation batch.",
        lower_bound=1,
        **number,
    )
    flags.DEFINE_float(
        "learning_rate", learning_rate, "Peak learning rate.", **number
    )
    flags.DEFINE_float(
        "weight_decay_rate",
        0.01,
        "Decay of all weights but LayerNorm and biases.",
        **number,
    )
    flags.DEFINE_float(
        "clip_norm",
        1.0,
        "Global norm to which gradients are clipped.",
        **number,
    )
    flags.DEFINE_bool(
        "correct_bias",
        False,
        "Correct the bias of Adam's moments; the original does not.",
        **number,
    )
    flags.DEFINE_integer(
        "seed", 12345, "Seed of weights, order and dropout.", **number
    )
    flags.DEFINE_enum(
        "precision",
        "float32",
        ["float32", "bfloat16"],
        "Type of matrix products; weights and scores stay float32.",
        **number,
    )
    flags.DEFINE_enum(
        "distribution_strategy",
        "one_device",
        ["one_device", "mirrored"],
        "one_device, or mirrored over all local accelerators.",
        **number,
    )
    flags.DEFINE_integer(
        "virtual_devices",
        0,
        "Split the host's CPU into this many devices, to try mirrored.",
        lower_bound=0,
        **number,
    )
    flags.DEFINE_integer(
        "save_checkpoints_steps",
        1000,
        "Optimizer steps between checkpoints.",
        lower_bound=1,
        **number,
    )
    flags.DEFINE_integer(
        "keep_checkpoint_max",
        3,
        "Newest checkpoints to keep.",
        lower_bound=1,
        **number,
    )
    flags.DEFINE_integer(
        "log_every_steps",
        100,
        "Optimizer steps between progress lines.",
        lower_bound=1,
        **number,
    )


def training_keywords(values: flags.FlagValues) -> dict:
    """Returns the flags of `define_training` that `training.train` takes."""
    names = (
        "output_dir",
        "train_batch_size",
        "learning_rate",
        "weight_decay_rate",
        "clip_norm",
        "correct_bias",
        "seed",
        "save_checkpoints_steps",
        "keep_checkpoint_max",
        "log_every_steps",
    )
    return {name: values[name].value for name in names}


def run_settings(values: flags.FlagValues) -> dict:
    """Returns the flags of `define_training` that decide the final weights."""
    names = (
        "train_batch_size",
        "learning_rate",
        "weight_decay_rate",
        "clip_norm",
        "correct_bias",
        "seed",
        "precision",
    )
    return {name: values[name].value for name in names}


def find_config(
    values: flags.FlagValues, vocab_size: int | None, model_dir: str | None
) -> config.BertConfig:
    """Returns the BertConfig that the flags of `define_model` mean.

    Args:
      values: the script's flags.
      vocab_size: entries of the vocabulary in use, if it is known.
      model_dir: model folder of `--init_checkpoint`, if there is one; its own
        config is the default.

    Raises:
      ValueError: if the flags name no config, or one that cannot hold the
        vocabulary.
    """
    if values.bert_config_file and values.bert_config_name:
        raise ValueError(
            f"--bert_config_file={values.bert_config_file} and "
            f"--bert_config_name={values.bert_config_name}: give only one."
        )
    path = values.bert_config_file
    if model_dir and not path and not values.bert_config_name:
        path = os.path.join(model_dir, "bert_config.json")
    if path:
        found = config.BertConfig.from_json_file(path)
    elif values.bert_config_name:
        sizes = {"vocab_size": vocab_size} if vocab_size else {}
        found = config.BertConfig.from_name(values.bert_config_name, **sizes)
    else:
        raise ValueError(
            "No model sizes: give --bert_config_file=bert_config.json, or "
            "--bert_config_name such as base."
        )
    if vocab_size and vocab_size > found.vocab_size:
        raise ValueError(
            f"The vocabulary has {vocab_size} entries, the model only "
            f"vocab_size={found.vocab_size}. Use the vocabulary that belongs "
            "to the model, or raise vocab_size in its config."
        )
    return found


def write_run_flags(values: flags.FlagValues, output_dir: str) -> None:
    """Writes `run.flags`, which as --flagfile repeats the run."""
    os.makedirs(output_dir, exist_ok=True)
    path = os.path.join(output_dir, "run.flags")
    versions = "  ".join(  # As comments, which absl skips in flag files.
        f"{name} {importlib.metadata.version(name)}"
        for name in ("tensorflow", "keras", "tensorflow-text", "numpy")
    )
    with open(f"{path}.tmp", "w", encoding="utf-8") as file:
        file.write(f"# python {sys.version.split()[0]}  {versions}\n")
        for name in sorted(values):
            if values[name].value is not None:
                file.write(values[name].serialize() + "\n")
    os.replace(f"{path}.tmp", path)


def require(values: flags.FlagValues, *names: str) -> None:
    """Makes flags required, with a message that names the flag."""
    for name in names:
        flags.mark_flag_as_required(name, flag_values=values)


def parse(values: flags.FlagValues, argv: list[str], doc: str) -> None:
    """Parses `argv` from defaults, or prints `--help` and exits.

    Args:
      values: the script's flags.
      argv: the script's name, then its arguments.
      doc: the script's docstring, printed above the flags by `--help`.

    Raises:
      flags.Error: if a flag is unknown, missing or malformed.
    """
    if any(word in ("--help", "-h", "-help", "--helpfull") for word in argv):
        print(inspect.cleandoc(doc), "\n", sep="")
        print(values.get_help())
        raise SystemExit(0)
    values.unparse_flags()
    for name in values:
        values[name].unparse()
    words = values(argv)
    if len(words) > 1:
        raise flags.Error(
            f"Unexpected argument {words[1]!r}; every setting is a flag, "
            "such as --output_dir=DIR. See --help."
        )


def run(main) -> None:
    """Runs a script's `main(argv)`; a user's mistake becomes one clear line.

    `--traceback` anywhere in the command shows where the error was raised.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    logging.set_verbosity(logging.INFO)
    argv = [word for word in sys.argv if word != "--traceback"]
    try:
        main(argv)
    except (ValueError, flags.Error, OSError) as error:
        if len(argv) < len(sys.argv):
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        print("(--traceback shows where, --help explains)", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        raise SystemExit(130) from None

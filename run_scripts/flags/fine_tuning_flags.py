"""Flags of every fine-tuning runner -> tokenizer, sizes, static lengths."""

import dataclasses
import math
from collections.abc import Mapping
from typing import NamedTuple

from absl import flags

from bert_tf.config import BertConfig
from run_scripts.flags import common_flags, model_flags, training_flags
from tfrecords.io import records
from tfrecords.reading import static_lengths
from tfrecords.text import tokenizer as tokenizer_lib


def define_fine_tuning(
    values: flags.FlagValues,
    *,
    max_seq_length: int = 128,
    learning_rate: float = 5e-5,
    train_batch_size: int = 32,
    num_train_epochs: float = 3.0,
) -> None:
    """Adds the flags of vocabulary, model, training and of what is to be done.

    Args:
      values: the script's flags.
      max_seq_length: the script's own default, as the others are.
      learning_rate: peak.
      train_batch_size: examples in one optimizer step.
      num_train_epochs: times that the training rows are seen.
    """
    common_flags.define_vocabulary(values)
    common_flags.define_max_seq_length(values, max_seq_length)
    define_bucket_lengths(values)
    model_flags.define_model(values)
    training_flags.define_training(
        values, learning_rate=learning_rate, train_batch_size=train_batch_size
    )
    define_epochs(values, num_train_epochs)
    flags.DEFINE_bool(
        "doctor",
        True,
        "Look at a sample of the records before a training begins, and refuse "
        "what would spoil it; run_scripts.doctor says more.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "records_dir",
        None,
        "Folder for the records; default: records in --output_dir.",
        flag_values=values,
    )
    flags.DEFINE_bool(
        "do_train", False, "Whether to train.", flag_values=values
    )
    flags.DEFINE_bool(
        "do_eval",
        False,
        "Whether to evaluate on dev, and to keep the best model in training.",
        flag_values=values,
    )
    flags.DEFINE_bool(
        "do_predict",
        False,
        "Whether to predict the test sets.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "bilstm_units",
        None,
        "Units of each direction of an LSTM between encoder and head, drawn "
        "anew, as in section 5.1 of the paper; 0 for none. Default: as the "
        "model's bert_config.json has it.",
        lower_bound=0,
        flag_values=values,
    )
    common_flags.require(values, "output_dir")


def define_records(
    values: flags.FlagValues, *, max_seq_length: int = 128
) -> None:
    """Adds the flags of a script that makes the records of a task, no more."""
    common_flags.define_vocabulary(values)
    common_flags.define_max_seq_length(values, max_seq_length)
    flags.DEFINE_string(
        "output_dir", None, "Folder for the records.", flag_values=values
    )
    common_flags.require(values, "output_dir", "vocab_file")


class Steps(NamedTuple):
    """Optimizer steps of a run."""

    to_train: int
    to_warm_up: int
    between_checkpoints: int


def define_epochs(values: flags.FlagValues, num_train_epochs: float) -> None:
    """Adds the flags of how long to train, after those of training."""
    # Once an epoch, unless the flag says otherwise.
    values.set_default("save_checkpoints_steps", None)
    flags.DEFINE_float(
        "num_train_epochs",
        num_train_epochs,
        "Times that the training rows are seen.",
        lower_bound=0.0,
        flag_values=values,
    )
    flags.DEFINE_float(
        "warmup_proportion",
        0.1,
        "Share of the optimizer steps in which the learning rate rises.",
        lower_bound=0.0,
        upper_bound=1.0,
        flag_values=values,
    )


def find_steps(values: flags.FlagValues, num_examples: int) -> Steps:
    """Returns the steps that --num_train_epochs and the like mean."""
    # run_classifier.py: main.
    steps_per_epoch = num_examples / values.train_batch_size
    to_train = max(1, int(steps_per_epoch * values.num_train_epochs))
    # Unless given, once an epoch, in whole calls.
    calls = math.ceil(steps_per_epoch / values.steps_per_loop)
    return Steps(
        to_train,
        int(to_train * values.warmup_proportion),
        values.save_checkpoints_steps or calls * values.steps_per_loop,
    )


def find_config(
    values: flags.FlagValues, vocab_size: int, model_dir: str | None
) -> BertConfig:
    """Returns the sizes of model and head; as `model_flags.find_config`."""
    config = model_flags.find_config(values, vocab_size, model_dir)
    if values.bilstm_units is None:
        return config
    return dataclasses.replace(config, bilstm_units=values.bilstm_units)


def define_bucket_lengths(values: flags.FlagValues) -> None:
    """Adds the flag of static lengths."""
    flags.DEFINE_list(
        "bucket_lengths",
        "auto",
        "Static lengths that rows of similar length are cut to, such as "
        "16,32,64, instead of padding all to --max_seq_length; auto chooses up "
        "to six by the rows; none pads, as the original does, which takes "
        "several times longer. In training with --steps_per_loop above 1, "
        "none.",
        flag_values=values,
    )


def find_tokenizer(
    values: flags.FlagValues, model_dir: str | None = None
) -> tuple[tokenizer_lib.BertTokenizer, str]:
    """Returns the tokenizer that the flags mean, and its vocabulary's path.

    Args:
      values: with the flags of `common_flags.define_vocabulary`.
      model_dir: a model folder whose vocabulary and case are the default.

    Raises:
      ValueError: if there is no vocabulary, or if the flags contradict the
        model's.
    """
    vocab_file, do_lower_case = model_flags.find_vocabulary(values, model_dir)
    if not vocab_file:
        raise ValueError(
            "No vocabulary: give --vocab_file=vocab.txt, or a model folder "
            "that holds one as --init_checkpoint."
        )
    return tokenizer_lib.BertTokenizer(vocab_file, do_lower_case), vocab_file


def check_length(values: flags.FlagValues, config) -> None:
    """Checks that the model, of a BertConfig, can read examples so long.

    Raises:
      ValueError: if `--max_seq_length` is more than its position table.
    """
    # run_classifier.py: main.
    if values.max_seq_length > config.max_position_embeddings:
        raise ValueError(
            f"--max_seq_length={values.max_seq_length} is more than the "
            "model's max_position_embeddings="
            f"{config.max_position_embeddings}. Lower it."
        )


def find_bucket_lengths(
    values: flags.FlagValues, sets: Mapping[str, records.Records]
) -> tuple[int, ...]:
    """Returns the static lengths that --bucket_lengths means.

    Raises:
      ValueError: if it is no list of lengths that rows can be cut to.
    """
    words, most = values.bucket_lengths, values.max_seq_length
    if words == ["none"]:
        return ()
    if words != ["auto"]:
        try:
            lengths = sorted({int(word) for word in words})
        except ValueError:
            lengths = []
        if not lengths or lengths[0] < 1 or lengths[-1] > most:
            raise ValueError(
                f"--bucket_lengths={','.join(words)} should be auto, none or "
                "lengths such as 16,32,64, of at least 1 and at most "
                f"--max_seq_length={most}."
            )
        return tuple(lengths)
    found = sets.get("train") or next(iter(sets.values()))
    return static_lengths.choose(static_lengths.read(found, most), most)

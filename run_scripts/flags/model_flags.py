"""Flags of the model -> its config, first weights and vocabulary."""

import os

from absl import flags, logging

from bert_tf import config
from bert_tf.conversion import checkpoint, formats
from bert_tf.training import checkpoints, model_folders, run_folders
from tfrecords.io import atomic_files
from tfrecords.text import vocab


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
        "Model whose weights to start from: folder of an earlier run or of "
        "one of its checkpoints, or a checkpoint of any format that "
        "convert_checkpoint reads; that is converted to init_checkpoint/ in "
        "--output_dir, once.",
        flag_values=values,
    )


def find_init_checkpoint(values: flags.FlagValues) -> str | None:
    """Returns the model folder of `--init_checkpoint`, if the flag is given.

    A checkpoint of another format is converted into `--output_dir` first.

    Raises:
      ValueError: if it cannot be read, or if the folder holds a run that began
        with another one.
    """
    if not values.init_checkpoint:
        return None
    if values.do_train:
        # Before anything is written: the folder may hold another run.
        run_folders.check_setting(
            values.output_dir, "init_checkpoint", values.init_checkpoint
        )
    return formats.as_model_folder(
        values.init_checkpoint,
        os.path.join(values.output_dir, "init_checkpoint"),
        again=not checkpoints.newest_step(values.output_dir),
    )


def find_vocabulary(
    values: flags.FlagValues, model_dir: str | None
) -> tuple[str | None, bool]:
    """Returns the path of the vocabulary in use, and whether to lower-case.

    Args:
      values: with the flags of `common_flags.define_vocabulary`.
      model_dir: a model folder whose vocabulary and case are the default.

    Raises:
      ValueError: if the flags contradict the model's.
    """
    vocab_file, do_lower_case = values.vocab_file, values.do_lower_case
    if not model_dir:
        return vocab_file, do_lower_case
    own = os.path.join(model_dir, model_folders.VOCABULARY)
    own = own if os.path.isfile(own) else None
    if own and vocab_file and vocab.digest(own) != vocab.digest(vocab_file):
        raise ValueError(
            f"--vocab_file={vocab_file} is not the vocabulary that the "
            f"model was trained with, {own}. Leave the flag away to use "
            "the model's."
        )
    path = os.path.join(model_dir, model_folders.DESCRIPTION)
    description = atomic_files.read_json(path)
    model_case = description.get("do_lower_case")
    if not values["do_lower_case"].present and model_case is not None:
        do_lower_case = model_case
    if model_case in (None, do_lower_case):
        return vocab_file or own, do_lower_case
    # tokenization.py: validate_case_matches_checkpoint.
    if not description.get(checkpoint.INFERRED_CASE):
        raise ValueError(
            f"--do_lower_case={do_lower_case}, but {model_dir} was trained "
            f"with {model_case}. Leave the flag away to use the model's, or "
            f"correct {path}."
        )
    logging.warning(
        "--do_lower_case=%s is taken; %s of %s was only guessed, from the "
        "vocabulary",
        do_lower_case,
        model_case,
        model_dir,
    )
    return vocab_file or own, do_lower_case


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
    own = model_dir and os.path.join(model_dir, model_folders.CONFIG)
    if own and not path and not values.bert_config_name:
        path = own
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
    if own:
        hidden_act = config.BertConfig.from_json_file(own).hidden_act
        if hidden_act != found.hidden_act:
            logging.warning(
                "the flags say hidden_act %s; the weights were trained with %s",
                found.hidden_act,
                hidden_act,
            )
    if vocab_size and vocab_size > found.vocab_size:
        raise ValueError(
            f"The vocabulary has {vocab_size} entries, the model only "
            f"vocab_size={found.vocab_size}. Use the vocabulary that belongs "
            "to the model, or raise vocab_size in its config."
        )
    return found

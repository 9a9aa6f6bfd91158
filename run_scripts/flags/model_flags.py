"""Flags of the model -> its config, first weights and vocabulary."""

from absl import flags

from bert_tf import config
from bert_tf.workflows import configs, model_source
from run_scripts.flags import common_flags


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
    """Returns the model folder of `--init_checkpoint`, if the flag is given."""
    source = common_flags.config(configs.ModelSource, values)
    return model_source.find_init_checkpoint(
        source, values.output_dir, values.do_train
    )


def find_vocabulary(
    values: flags.FlagValues, model_dir: str | None
) -> tuple[str | None, bool]:
    """As `model_source.find_vocabulary`."""
    source = common_flags.config(configs.ModelSource, values)
    return model_source.find_vocabulary(source, model_dir)


def find_config(
    values: flags.FlagValues, vocab_size: int | None, model_dir: str | None
) -> config.BertConfig:
    """As `model_source.find_config`."""
    source = common_flags.config(configs.ModelSource, values)
    return model_source.find_config(source, vocab_size, model_dir)

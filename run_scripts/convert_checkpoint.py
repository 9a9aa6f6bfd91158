r"""Checkpoint of any format -> the same in another, and a report on both.

    python -m run_scripts.convert_checkpoint \
      --from=uncased_L-12_H-768_A-12 --to=bert_tf --output_dir=models/base
    python -m run_scripts.convert_checkpoint \
      --from=runs/sst-2 --to=google --output_dir=converted/sst-2

Formats, detected from the files:

    bert_tf        model and run folders of this project
    google         TF1 checkpoints of google-research/bert, by folder or by
                   prefix such as runs/model.ckpt-1000
    hugging_face   folders of transformers, and of sentence-transformers
    model_garden   TF2 checkpoints of tf-models-official, by folder or prefix
    keras_hub      presets of KerasHub

What was written is read back and compared bit for bit; if anything was lost,
nothing stays. Adam's slots and the step go along where both formats have them.

`gelu` is not the same function everywhere. The numbers of the source are kept;
--hidden_act computes with another.
"""

import dataclasses

from absl import flags

from bert_tf.conversion import formats
from run_scripts.flags import common_flags
from tfrecords.options import REQUIRED, Options, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvertConfig(Options):
    """What to write of a checkpoint, and where to."""

    to: str = option(
        REQUIRED, "Format to write.", choices=tuple(formats.CONVERTERS)
    )
    output_dir: str = option(
        REQUIRED, "Folder to write, completely or not at all."
    )
    hidden_act: str | None = option(
        None,
        "Activation to write instead of the source's own: "
        + "; ".join(f"{name}: {x}" for name, x in formats.ACTIVATIONS.items())
        + ".",
        choices=tuple(formats.ACTIVATIONS),
    )
    overwrite: bool = option(
        False, "Replace the model in --output_dir, if there is one."
    )
    compare: bool = option(
        True,
        "Compute outputs too, and compare them with those of the source's and "
        "the target's own implementations, where these are installed.",
    )


FLAGS = common_flags.flags_of(ConvertConfig)
flags.DEFINE_string(  # A word of Python's, which no field can have as name.
    "from",
    None,
    "Checkpoint to convert: a folder, or the prefix of a TensorFlow one.",
    flag_values=FLAGS,
)
common_flags.require(FLAGS, "from")


def main(argv: list[str]) -> None:
    """Converts as the flags say, and prints the report."""
    common_flags.parse(FLAGS, argv, __doc__)
    from bert_tf.conversion import convert

    config = common_flags.config(ConvertConfig, FLAGS)
    report = convert.convert(FLAGS["from"].value, **dataclasses.asdict(config))
    print("\n".join(report))


run = common_flags.command(main)

if __name__ == "__main__":
    run()

r"""Checkpoint in any format -> the same model in another, and a report.

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

The output is read back and compared bit for bit with the source; on any
difference it is deleted. Adam's slots and the step are converted too if both
formats have them. README.md is a model card, with what the source records of
its data, settings and scores.

`gelu` is not the same function in all formats. By default the converted model
computes the same outputs as the source; --hidden_act selects another
activation.
"""

import dataclasses

from absl import flags

from bert_tf.checkpoint.options import ACTIVATIONS, FORMATS, WriteOptions
from run_scripts.flags import common_flags
from tfrecords.options import REQUIRED, check_path, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvertConfig(WriteOptions):
    """How to convert a checkpoint, and where to write it."""

    to: str = option(REQUIRED, "Format to write.", choices=FORMATS)
    output_dir: str = option(
        REQUIRED, "Folder to write, atomically.", writes="folder"
    )
    hidden_act: str | None = option(
        None,
        "Activation to write instead of the source's own: "
        + "; ".join(f"{name}: {x}" for name, x in ACTIVATIONS.items())
        + ".",
        choices=tuple(ACTIVATIONS),
    )
    allow_nan_weights: bool = option(
        False, "Convert weights that are NaN or infinite too, to inspect them."
    )
    max_position_embeddings: int | None = option(
        None,
        "More positions than the source has, for longer texts: its embeddings "
        "of them are interpolated, and the model must be trained before use.",
        at_least=1,
    )


FLAGS = common_flags.make_flags(ConvertConfig)
flags.DEFINE_string(  # `from` is a Python keyword, not a valid field name.
    "from",
    None,
    "Checkpoint to convert: a folder, or the prefix of a TensorFlow "
    "checkpoint.",
    flag_values=FLAGS,
)
common_flags.require(FLAGS, "from")


def main(argv: list[str]) -> None:
    """Converts the checkpoint and prints the report."""
    common_flags.parse(FLAGS, argv, __doc__)
    from bert_tf.workflows import conversion

    config = common_flags.config(ConvertConfig, FLAGS)
    check_path("--from", FLAGS["from"].value)
    report = conversion.convert(
        FLAGS["from"].value, **dataclasses.asdict(config)
    )
    print("\n".join(report))


run = common_flags.command(main)

if __name__ == "__main__":
    run()

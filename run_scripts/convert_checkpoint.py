r"""Checkpoint of any format -> the same in another, and a report on both.

    python -m run_scripts.convert_checkpoint \
      --from=uncased_L-12_H-768_A-12 --to=bert_tf --output_dir=models/base
    python -m run_scripts.convert_checkpoint \
      --from=runs/sst-2 --to=google --output_dir=converted/sst-2

Formats, told apart by looking:

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

from absl import flags

from bert_tf.conversion import formats
from run_scripts.flags import common_flags

FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "from",
    None,
    "Checkpoint to convert: a folder, or the prefix of a TensorFlow one.",
    flag_values=FLAGS,
)
flags.DEFINE_enum(
    "to",
    None,
    list(formats.CONVERTERS),
    "Format to write.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "output_dir",
    None,
    "Folder to write, whole or not at all.",
    flag_values=FLAGS,
)
flags.DEFINE_enum(
    "hidden_act",
    None,
    list(formats.ACTIVATIONS),
    "Activation to write instead of the source's own: "
    + "; ".join(f"{name}: {text}" for name, text in formats.ACTIVATIONS.items())
    + ".",
    flag_values=FLAGS,
)
flags.DEFINE_bool(
    "overwrite",
    False,
    "Replace the model in --output_dir, if there is one.",
    flag_values=FLAGS,
)
flags.DEFINE_bool(
    "compare",
    True,
    "Compute outputs too, and compare them with those of the source's and the "
    "target's own implementations, where these are installed.",
    flag_values=FLAGS,
)
common_flags.require(FLAGS, "from", "to", "output_dir")


def main(argv: list[str]) -> None:
    """Converts as the flags say, and prints the report."""
    common_flags.parse(FLAGS, argv, __doc__)
    from bert_tf.conversion import convert

    report = convert.convert(
        FLAGS["from"].value,
        FLAGS.to,
        FLAGS.output_dir,
        FLAGS.hidden_act,
        overwrite=FLAGS.overwrite,
        compare=FLAGS.compare,
    )
    print("\n".join(report))


run = common_flags.command(main)

if __name__ == "__main__":
    run()

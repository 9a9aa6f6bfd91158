r"""Lines of text, a checkpoint -> file with the hidden states of all tokens.

    python -m run_scripts.extract_features \
      --input_file=texts.txt --output_file=features.jsonl \
      --init_checkpoint=models/base --layers=-1,-2,-3,-4

A line is a text, or a pair of texts separated by ` ||| `. The output is that of
the original's extract_features.py; --output_format=npz or tfrecord stores the
same numbers unrounded in 0.4 of the space. The checkpoint may have any format
that convert_checkpoint reads. The same command resumes a stopped run.
"""

from bert_tf.workflows.features import feature_extraction
from run_scripts.flags import common_flags

FLAGS = common_flags.make_flags(feature_extraction.FeatureConfig)


def main(argv: list[str]) -> None:
    """Extracts the features."""
    common_flags.parse(FLAGS, argv, __doc__)
    feature_extraction.extract_features(
        common_flags.config(feature_extraction.FeatureConfig, FLAGS)
    )


run = common_flags.command(main)

if __name__ == "__main__":
    run()

r"""SWAG's files -> TFRecords for run_swag.

    python -m run_scripts.make_swag_records \
      --data_dir=swag --vocab_file=vocab.txt --output_dir=records/swag

Makes a folder for each split. The same command does only what is missing.
"""

from absl import flags, logging

from run_scripts.flags import common_flags, fine_tuning_flags, swag_flags
from tfrecords.tasks import swag_examples

FLAGS = flags.FlagValues()
fine_tuning_flags.define_records(FLAGS)
swag_flags.define_data(FLAGS)


def main(argv: list[str]) -> None:
    """Writes the records that the flags ask for."""
    common_flags.parse(FLAGS, argv, __doc__)
    tokenizer, _ = fine_tuning_flags.find_tokenizer(FLAGS)
    folders = swag_examples.make_records(
        swag_flags.find_files(FLAGS),
        FLAGS.output_dir,
        tokenizer,
        max_seq_length=FLAGS.max_seq_length,
    )
    logging.info("%s  splits %s", FLAGS.output_dir, ", ".join(folders))


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()

r"""SQuAD files -> TFRecords for run_squad.

    python -m run_scripts.make_squad_records \
      --data_dir=squad --vocab_file=vocab.txt --output_dir=records/squad

    python -m run_scripts.make_squad_records \
      --train_file=squad/train-v2.0.json --version_2_with_negative \
      --vocab_file=vocab.txt --output_dir=records/squad2

Makes a folder for each split. The same command does only what is missing.
"""

from absl import flags, logging

from run_scripts.flags import common_flags, fine_tuning_flags, squad_flags
from tfrecords.tasks import squad_examples

FLAGS = flags.FlagValues()
fine_tuning_flags.define_records(FLAGS, max_seq_length=384)
squad_flags.define_data(FLAGS)


def main(argv: list[str]) -> None:
    """Writes the records that the flags ask for."""
    common_flags.parse(FLAGS, argv, __doc__)
    tokenizer, _ = fine_tuning_flags.find_tokenizer(FLAGS)
    folders = squad_examples.make_records(
        squad_flags.find_files(FLAGS),
        FLAGS.output_dir,
        tokenizer,
        squad_flags.settings(FLAGS),
    )
    logging.info("%s  splits %s", FLAGS.output_dir, ", ".join(folders))


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()

r"""CoNLL column files -> TFRecords for run_ner.

    python -m run_scripts.make_ner_records \
      --data_dir=conll2003 --vocab_file=vocab.txt --nodo_lower_case \
      --output_dir=records/ner

Makes a folder for each split. The same command does only what is missing. IOB1,
IOB2 and BIOES are told apart; a word has its tag at its first piece, in windows
with as much of its document around it as they hold.
"""

from absl import flags, logging

from run_scripts.flags import common_flags, fine_tuning_flags, ner_flags

FLAGS = flags.FlagValues()
fine_tuning_flags.define_records(FLAGS)
ner_flags.define_data(FLAGS)


def main(argv: list[str]) -> None:
    """Writes the records that the flags ask for."""
    common_flags.parse(FLAGS, argv, __doc__)
    tokenizer, _ = fine_tuning_flags.find_tokenizer(FLAGS)
    files = ner_flags.find_files(FLAGS)
    labels = ner_flags.find_labels(FLAGS, files, None)
    read = ner_flags.make_reader(FLAGS, files, ner_flags.types_of(labels))
    folders = ner_flags.make_records(
        FLAGS, files, labels, read, tokenizer, FLAGS.output_dir
    )
    logging.info("%s  splits %s", FLAGS.output_dir, ", ".join(folders))


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()

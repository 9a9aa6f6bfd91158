r"""GLUE files, or a table of one's own -> TFRecords for run_glue.

    python -m run_scripts.make_glue_records \
      --task_name=CoLA --data_dir=glue/CoLA \
      --vocab_file=vocab.txt --output_dir=records/cola

    python -m run_scripts.make_glue_records \
      --train_file=reviews.csv --text_column=review --label_column=stars \
      --labels=bad,good --vocab_file=vocab.txt --output_dir=records/reviews

Makes a folder for each split. The same command does only what is missing.
"""

from absl import flags, logging

from run_scripts.flags import common_flags, fine_tuning_flags, glue_flags

FLAGS = flags.FlagValues()
fine_tuning_flags.define_records(FLAGS)
glue_flags.define_data(FLAGS)


def main(argv: list[str]) -> None:
    """Writes the records that the flags ask for."""
    common_flags.parse(FLAGS, argv, __doc__)
    task = glue_flags.find_task(FLAGS)
    tokenizer, _ = fine_tuning_flags.find_tokenizer(FLAGS)
    folders = glue_flags.make_records(FLAGS, task, tokenizer, FLAGS.output_dir)
    logging.info("%s  splits %s", FLAGS.output_dir, ", ".join(folders))


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()

r"""GLUE files, or your own table -> TFRecords for run_glue.

    python -m run_scripts.make_glue_records \
      --task_name=CoLA --data_dir=glue/CoLA \
      --vocab_file=vocab.txt --output_dir=records/cola

    python -m run_scripts.make_glue_records \
      --train_file=reviews.csv --text_column=review --label_column=stars \
      --labels=bad,good --vocab_file=vocab.txt --output_dir=records/reviews

Each split gets a folder. A rerun writes only what is missing.
"""

from absl import logging

from run_scripts.flags import common_flags
from tfrecords.io import leases
from tfrecords.tasks.data_files import LongTextOptions, RecordsConfig
from tfrecords.tasks.glue_tables import GlueData

FLAGS = common_flags.make_flags(RecordsConfig, GlueData, LongTextOptions)
common_flags.require(FLAGS, "vocab_file")


def main(argv: list[str]) -> None:
    """Writes the records."""
    common_flags.parse(FLAGS, argv, __doc__)
    from tfrecords.tasks import glue_examples, glue_rows, split_records

    data = common_flags.config(GlueData, FLAGS)
    config = common_flags.config(RecordsConfig, FLAGS)
    with leases.lock_folder(config.output_dir):
        folders = glue_examples.make_records(
            glue_rows.choose_task(data),
            data.data_dir or "",
            config.output_dir,
            split_records.open_tokenizer(config),
            max_seq_length=config.max_seq_length or 128,
            dev_share=data.dev_share,
            long_text=common_flags.config(LongTextOptions, FLAGS).long_text
            or "cut",
        )
    logging.info("%s  splits %s", config.output_dir, ", ".join(folders))


run = common_flags.command(main)

if __name__ == "__main__":
    run()

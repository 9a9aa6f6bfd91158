r"""SWAG files -> TFRecords for run_swag.

    python -m run_scripts.make_swag_records \
      --data_dir=swag --vocab_file=vocab.txt --output_dir=records/swag

Each split gets a folder. A rerun writes only what is missing.
"""

from absl import logging

from run_scripts.flags import common_flags
from tfrecords.io import leases
from tfrecords.tasks.data_files import RecordsConfig
from tfrecords.tasks.swag_files import SwagData

FLAGS = common_flags.make_flags(RecordsConfig, SwagData)
common_flags.require(FLAGS, "vocab_file")


def main(argv: list[str]) -> None:
    """Writes the records."""
    common_flags.parse(FLAGS, argv, __doc__)
    from tfrecords.tasks import split_records, swag_examples

    data = common_flags.config(SwagData, FLAGS)
    config = common_flags.config(RecordsConfig, FLAGS)
    with leases.lock_folder(config.output_dir):
        folders = swag_examples.make_records(
            data.find_files(),
            config.output_dir,
            split_records.open_tokenizer(config),
            max_seq_length=config.max_seq_length or 128,
        )
    logging.info("%s  splits %s", config.output_dir, ", ".join(folders))


run = common_flags.command(main)

if __name__ == "__main__":
    run()

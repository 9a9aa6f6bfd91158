r"""SQuAD files -> TFRecords for run_squad.

    python -m run_scripts.make_squad_records \
      --data_dir=squad --vocab_file=vocab.txt --output_dir=records/squad

    python -m run_scripts.make_squad_records \
      --train_file=squad/train-v2.0.json --version_2_with_negative \
      --vocab_file=vocab.txt --output_dir=records/squad2

Each split gets a folder. A rerun writes only what is missing.
"""

from absl import logging

from run_scripts.flags import common_flags
from tfrecords.io import leases
from tfrecords.tasks.data_files import RecordsConfig
from tfrecords.tasks.squad_files import SquadData

FLAGS = common_flags.make_flags(RecordsConfig, SquadData)
common_flags.require(FLAGS, "vocab_file")


def main(argv: list[str]) -> None:
    """Writes the records."""
    common_flags.parse(FLAGS, argv, __doc__)
    from tfrecords.tasks import split_records, squad_examples

    data = common_flags.config(SquadData, FLAGS)
    config = common_flags.config(RecordsConfig, FLAGS)
    settings = {
        "max_seq_length": config.max_seq_length,
        "doc_stride": data.doc_stride,
        "max_query_length": data.max_query_length,
        "version_2_with_negative": data.version_2_with_negative,
        "answer_alignment": data.answer_alignment,
        "skip_misplaced_answers": data.skip_misplaced_answers,
    }
    settings = {n: x for n, x in settings.items() if x is not None}
    with leases.lock_folder(config.output_dir):
        folders = squad_examples.make_records(
            data.find_files(),
            config.output_dir,
            split_records.open_tokenizer(config),
            squad_examples.Settings(**settings),
        )
    logging.info("%s  splits %s", config.output_dir, ", ".join(folders))


run = common_flags.command(main)

if __name__ == "__main__":
    run()

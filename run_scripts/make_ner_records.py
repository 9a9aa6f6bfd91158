r"""Files of tagged words -> TFRecords for run_ner.

    python -m run_scripts.make_ner_records \
      --data_dir=conll2003 --vocab_file=vocab.txt --nodo_lower_case \
      --output_dir=records/ner

Each split gets a folder. A rerun writes only what is missing. The tagging
scheme (IOB1, IOB2, BIOES, BILOU, BMES, IO, or plain tags) is detected, or given
by --tag_scheme. The first piece of each word carries its tag; windows are
filled up with context from the same document. In other column files, the words
and the tags are at --word_column and --tag_column, which are names in JSON
lines and Parquet, see run_ner.
"""

import functools

from absl import logging

from run_scripts.flags import common_flags
from tfrecords.io import leases
from tfrecords.tasks.data_files import RecordsConfig
from tfrecords.tasks.ner_files import NerData

FLAGS = common_flags.make_flags(RecordsConfig, NerData)
common_flags.require(FLAGS, "vocab_file")


def main(argv: list[str]) -> None:
    """Writes the records."""
    common_flags.parse(FLAGS, argv, __doc__)
    from tfrecords.tasks import ner_examples, ner_files, split_records

    data = common_flags.config(NerData, FLAGS)
    config = common_flags.config(RecordsConfig, FLAGS)
    files = data.find_files()
    labels = data.collect_labels(files)
    types = ner_files.types_of(*labels)
    with leases.lock_folder(config.output_dir):
        folders = ner_examples.make_records(
            files,
            config.output_dir,
            split_records.open_tokenizer(config),
            read=functools.cache(
                lambda split: data.read(
                    split, files[split], types, labels.scheme
                )
            ),
            labels=labels.tags,
            max_seq_length=config.max_seq_length or 128,
            doc_stride=data.doc_stride,
            columns=data.columns(),
        )
    logging.info("%s  splits %s", config.output_dir, ", ".join(folders))


run = common_flags.command(main)

if __name__ == "__main__":
    run()

r"""Text files -> TFRecords of pre-training examples.

  python -m run_scripts.make_pretraining_records \
    --input_file='text/*.txt' --vocab_file=vocab.txt \
    --output_dir=records --max_seq_length=128 --held_out_prob=0.02
  python -m run_scripts.make_pretraining_records ... \
    --runner=spark --spark_master=spark://HOST:7077
  python -m run_scripts.make_pretraining_records ... --runner=beam \
    -- --runner=PortableRunner --job_endpoint=HOST:8099

Writes records/train and, with --held_out_prob, records/held_out: sharded
TFRecords with a manifest.json each. The flags are those of
create_pretraining_data.py, but for --output_dir in place of --output_file.
The same command goes on where it stopped.

With --compat=original they are the very records, in order, that
create_pretraining_data.py writes for these flags. It needs memory for the whole
corpus: for small corpora, and for comparing.
"""

import os

from absl import flags, logging

from run_scripts.flags import common_flags, engine_flags, example_flags
from tfrecords.io import storage
from tfrecords.pretraining import (
    corpus,
    duplicates,
    original_records,
)
from tfrecords.pretraining import records as pretraining_records
from tfrecords.text import text_files

FLAGS = flags.FlagValues()

common_flags.define_vocabulary(FLAGS)
example_flags.define_examples(FLAGS)
common_flags.define_text(FLAGS)
flags.DEFINE_string(
    "output_dir",
    None,
    "Folder for the records; train/ and held_out/ are made in it.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "num_shards",
    None,
    "Files of train/; by default one for about a million tokens of text, and "
    "one with --compat=original. The records depend on it.",
    lower_bound=1,
    flag_values=FLAGS,
)
engine_flags.define(FLAGS)
flags.DEFINE_multi_enum(
    "drop_duplicates",
    [],
    duplicates.KINDS,
    "Leave out documents, or lines (paragraphs, where lines are wrapped), of "
    "which the very same came before, in the order of files and what is in "
    "them; manifest.json counts them. May be given twice. Lines that belong "
    "where they stand, such as short answers in dialogue, go too.",
    flag_values=FLAGS,
)
flags.DEFINE_float(
    "held_out_prob",
    0.0,
    "Share of documents that go to held_out/, one at least; 0 for none.",
    lower_bound=0.0,
    upper_bound=1.0,
    flag_values=FLAGS,
)
flags.DEFINE_enum(
    "compat",
    None,
    ["original"],
    "original: the very records, in order, that google-research/bert's "
    "create_pretraining_data.py writes for these flags; one sentence a line, "
    "blank line between documents; input files in the order named. All tokens "
    "and examples of the corpus are in memory, on one core: for small corpora "
    "and for comparing.",
    flag_values=FLAGS,
)
common_flags.require(FLAGS, "input_file", "output_dir", "vocab_file")


def main(argv: list[str]) -> None:
    """Makes records as the flags say, and logs what they hold."""
    argv, beam_flags = engine_flags.split(argv)
    common_flags.parse(FLAGS, argv, __doc__)
    settings = example_flags.settings(FLAGS)
    if FLAGS.compat == "original":
        check_compat()
        example_flags.check_compat(settings)
        manifests = original_records.make_records(
            read_corpus(
                original_records.expand_inputs(FLAGS.input_file), "sentences"
            ),
            settings,
            FLAGS.output_dir,
            num_shards=FLAGS.num_shards or 1,
        )
    else:
        manifests = pretraining_records.make_records(
            read_corpus(
                text_files.expand_inputs(FLAGS.input_file), FLAGS.input_format
            ),
            settings,
            FLAGS.output_dir,
            num_shards=FLAGS.num_shards,
            held_out_prob=FLAGS.held_out_prob,
            engine=engine_flags.engine(FLAGS, beam_flags, FLAGS.output_dir),
        )
    for name, manifest in manifests.items():
        statistics = manifest.statistics
        logging.info(
            "%s  shards %d  examples %d  documents %d  tokens %d  "
            "invalid_characters %d  digest %s",
            os.path.join(FLAGS.output_dir, name),
            len(manifest.shards),
            statistics["examples"],
            statistics["documents"],
            statistics["tokens"],
            statistics["corpus"]["invalid_characters"],
            manifest.digest,
        )
        if "rows" not in statistics:  # A manifest of before.
            continue
        logging.info(
            "%s  rows %d  padding %.1f %%, with a row for each example %.1f %%",
            os.path.join(FLAGS.output_dir, name),
            statistics["rows"],
            100 * statistics["padding_share"],
            100 * statistics["unpacked_padding_share"],
        )


def read_corpus(input_files: list[str], input_format: str) -> corpus.Corpus:
    """Returns text and vocabulary as the flags say."""
    return corpus.Corpus(
        input_files=tuple(input_files),
        vocab_file=FLAGS.vocab_file,
        do_lower_case=FLAGS.do_lower_case is not False,
        input_format=input_format,
        language=FLAGS.language,
        text_field=FLAGS.text_field,
        drop_duplicates=tuple(sorted(set(FLAGS.drop_duplicates))),
    )


def check_compat() -> None:
    """Raises ValueError if a flag is set that the original cannot follow."""
    if FLAGS.held_out_prob:
        raise ValueError(
            f"--held_out_prob={FLAGS.held_out_prob} does not go with "
            "--compat=original, which holds no document out. Put those "
            "documents into a file of their own and make their records in "
            "another --output_dir, or leave one of the two flags away."
        )
    if FLAGS.runner != "local":
        raise ValueError(
            f"--runner={FLAGS.runner} does not go with --compat=original, "
            "which draws all from one random stream, in one process. Leave "
            "one of the two flags away."
        )
    if (FLAGS.num_processes or 1) > 1:
        raise ValueError(
            f"--num_processes={FLAGS.num_processes} does not go with "
            "--compat=original, which draws all from one random stream, in "
            "one process. Leave one of the two flags away."
        )
    if not storage.is_local(FLAGS.output_dir):
        raise ValueError(
            f"--output_dir={FLAGS.output_dir} does not go with "
            "--compat=original, which writes to a folder of this machine. "
            "Name one, and copy it when it is finished."
        )
    if FLAGS.drop_duplicates:
        raise ValueError(
            f"--drop_duplicates={','.join(FLAGS.drop_duplicates)} does not go "
            "with --compat=original, which leaves out nothing. Leave one of "
            "the two flags away."
        )
    if FLAGS.input_format not in ("auto", "sentences"):
        raise ValueError(
            f"--input_format={FLAGS.input_format} does not go with "
            "--compat=original, which reads one sentence a line. Split the "
            "text into sentences first, or leave one of the two flags away."
        )


def run() -> None:
    """Console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()

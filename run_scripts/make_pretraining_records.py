r"""Text files -> TFRecords of pre-training examples.

  python -m run_scripts.make_pretraining_records \
    --input_file='text/*.txt' --vocab_file=vocab.txt \
    --output_dir=records --max_seq_length=128 --held_out_prob=0.02
  python -m run_scripts.make_pretraining_records ... \
    --runner=spark --spark_master=spark://HOST:7077
  python -m run_scripts.make_pretraining_records ... --runner=beam \
    -- --runner=PortableRunner --job_endpoint=HOST:8099

Writes records/train and, with --held_out_prob, records/held_out: sharded
TFRecords, each folder with a manifest.json. The flags are those of
create_pretraining_data.py, except --output_dir instead of --output_file.
The same command resumes where it stopped.

--compat=original writes exactly the records, in the same order, that
create_pretraining_data.py writes for these flags. It keeps the complete corpus
in memory: use it for small corpora and for comparisons.
"""

from absl import flags

from run_scripts.flags import common_flags, engine_flags
from tfrecords import libraries
from tfrecords.io import leases
from tfrecords.pretraining import corpus, duplicates, records, settings

FLAGS = common_flags.make_flags(
    corpus.Corpus, settings.Settings, records.Output
)
flags.DEFINE_multi_enum(
    "drop_duplicates",
    [],
    duplicates.KINDS,
    "Drop documents, or lines (paragraphs if lines are wrapped), that repeat "
    "an earlier one, in the order of the files and within them; manifest.json "
    "counts them. May be given twice. Lines that repeat on purpose, such as "
    "short answers in dialogue, are dropped too.",
    flag_values=FLAGS,
)
engine_flags.define(FLAGS)


def main(argv: list[str]) -> None:
    """Writes the records and logs their statistics."""
    argv, beam_flags = engine_flags.split(argv)
    common_flags.parse(FLAGS, argv, __doc__)
    libraries.leave_out_keras()
    output = common_flags.config(records.Output, FLAGS)
    source = common_flags.config(corpus.Corpus, FLAGS)
    made_with = common_flags.config(settings.Settings, FLAGS)
    with leases.lock_folder(output.output_dir):
        engine = engine_flags.engine(FLAGS, beam_flags, output)
        records.make(source, made_with, output, engine)


run = common_flags.command(main)

if __name__ == "__main__":
    run()

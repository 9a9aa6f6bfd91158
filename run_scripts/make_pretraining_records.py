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
The same command resumes where it stopped.

With --compat=original they are the very records, in order, that
create_pretraining_data.py writes for these flags. It needs memory for the whole
corpus: for small corpora, and for comparing.
"""

from absl import flags

from run_scripts.flags import common_flags, engine_flags
from tfrecords.pretraining import corpus, duplicates, records, settings

FLAGS = common_flags.flags_of(corpus.Corpus, settings.Settings, records.Output)
flags.DEFINE_multi_enum(
    "drop_duplicates",
    [],
    duplicates.KINDS,
    "Omit documents, or lines (paragraphs, where lines are wrapped), that are "
    "equal to an earlier one, in the order of files and within them; "
    "manifest.json counts them. May be given twice. Lines that are meant to "
    "repeat, such as short answers in dialogue, go too.",
    flag_values=FLAGS,
)
engine_flags.define(FLAGS)


def main(argv: list[str]) -> None:
    """Makes records as the flags say, and logs what they hold."""
    argv, beam_flags = engine_flags.split(argv)
    common_flags.parse(FLAGS, argv, __doc__)
    output = common_flags.config(records.Output, FLAGS)
    records.make(
        common_flags.config(corpus.Corpus, FLAGS),
        common_flags.config(settings.Settings, FLAGS),
        output,
        engine_flags.engine(FLAGS, beam_flags, output),
    )


run = common_flags.command(main)

if __name__ == "__main__":
    run()

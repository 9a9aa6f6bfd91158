r"""Lines of text, a checkpoint -> hidden states of their tokens, in a file.

    python -m run_scripts.extract_features \
      --input_file=texts.txt --output_file=features.jsonl \
      --init_checkpoint=models/base --layers=-1,-2,-3,-4

A text a line, or a pair with ` ||| ` between. The output is that of the
original's extract_features.py; --output_format=npz or tfrecord holds the same
numbers unrounded in 0.4 of the space. The checkpoint may have any format
that convert_checkpoint reads. A run that was stopped goes on.
"""

import os
import re
import tempfile

import tensorflow as tf
from absl import flags, logging

from bert_tf.conversion import formats
from bert_tf.model import layer_outputs
from bert_tf.training import model_folders
from bert_tf.workflows import feature_formats
from run_scripts.flags import common_flags, fine_tuning_flags
from tfrecords.io import atomic_files, part_files
from tfrecords.text import segments, text_files

# Lines in a part, which is what a run that is killed loses.
_LINES_AT_ONCE = 256
# extract_features.py: read_examples. The last separator counts.
_PAIR = re.compile(r"(.*) \|\|\| (.*)")

FLAGS = flags.FlagValues()
common_flags.define_vocabulary(FLAGS)
common_flags.define_max_seq_length(FLAGS)
flags.DEFINE_string(
    "input_file", None, "A text or a pair a line, UTF-8.", flag_values=FLAGS
)
flags.DEFINE_string(
    "output_file",
    None,
    "Where the features go; it gets its name when it is whole.",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "layers",
    "-1,-2,-3,-4",
    "Layers, where 0 is the first after the embeddings and -1 the last.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "init_checkpoint",
    None,
    "Folder of a run or model, or a checkpoint of any format that "
    "convert_checkpoint reads.",
    flag_values=FLAGS,
)
flags.DEFINE_enum(
    "output_format",
    "json",
    list(feature_formats.FORMATS),
    "json: the original's lines. npz: arrays values, token_ids, row_splits and "
    "layers. tfrecord: a tf.train.Example a line.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "batch_size", 32, "Texts in a batch.", lower_bound=1, flag_values=FLAGS
)
common_flags.require(FLAGS, "input_file", "output_file", "init_checkpoint")


def split_pair(line: str) -> tuple[str, str]:
    """Returns the one or two texts of a line; "" for no second one."""
    match = _PAIR.fullmatch(line)
    return (match[1], match[2]) if match else (line, "")


def make_encoder(tokenizer):
    """Returns texts a, texts b, each [N] -> encoder inputs, [N, S]."""

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string)] * 2, autograph=False
    )
    def encode(texts_a, texts_b):
        return segments.pack(
            tokenizer(texts_a),
            tokenizer(texts_b),
            FLAGS.max_seq_length,
            tokenizer.cls_id,
            tokenizer.sep_id,
        )

    return encode


def extract(folder: str) -> None:
    """Writes --output_file with the encoder of a model folder."""
    tokenizer, _ = fine_tuning_flags.find_tokenizer(FLAGS, folder)
    encoder = model_folders.build_encoder(folder)
    fine_tuning_flags.check_length(FLAGS, encoder.config)
    num_layers = encoder.config.num_hidden_layers
    layers = layer_outputs.parse(FLAGS.layers, num_layers)
    step = layer_outputs.make_step(
        encoder,
        [1 + i % num_layers for i in layers],  # 0 are the embeddings.
    )
    encode = make_encoder(tokenizer)
    lengths = layer_outputs.static_lengths(FLAGS.max_seq_length)
    statistics = text_files.ReadStatistics()
    lines = [
        line.strip()
        for line in text_files.read_lines(FLAGS.input_file, statistics)
    ]
    if not lines:
        raise ValueError(f"{FLAGS.input_file} has no line; give texts.")
    to_bytes, join = feature_formats.FORMATS[FLAGS.output_format]
    begins = range(0, len(lines), _LINES_AT_ONCE)

    def make_part(number: int) -> bytes:
        begin = begins[number]
        pairs = [split_pair(x) for x in lines[begin : begin + _LINES_AT_ONCE]]
        inputs = encode(
            *(tf.constant(side) for side in zip(*pairs, strict=True))
        )
        inputs = {name: tensor.numpy() for name, tensor in inputs.items()}
        values = layer_outputs.run_in_order(
            step, inputs, FLAGS.batch_size, lengths
        )
        texts = [
            feature_formats.Text(begin + i, ids[: len(found)], found)
            for i, (ids, found) in enumerate(
                zip(inputs["input_word_ids"], values, strict=True)
            )
        ]
        return to_bytes(texts, layers, tokenizer.vocab)

    settings = {
        "input": atomic_files.digest(FLAGS.input_file),
        "weights": atomic_files.digest(
            os.path.join(folder, model_folders.WEIGHTS)
        ),
        # The same weights give others with another activation.
        "config": atomic_files.digest(
            os.path.join(folder, model_folders.CONFIG)
        ),
        "vocabulary": tokenizer.sha256,
        "do_lower_case": tokenizer.do_lower_case,
        "max_seq_length": FLAGS.max_seq_length,
        "layers": layers,
        "output_format": FLAGS.output_format,
        "lines_at_once": _LINES_AT_ONCE,
    }
    part_files.write(
        FLAGS.output_file,
        settings,
        [min(_LINES_AT_ONCE, len(lines) - begin) for begin in begins],
        make_part,
        join,
        unit="texts",
    )
    logging.info("%s  texts %d", FLAGS.output_file, len(lines))


def main(argv: list[str]) -> None:
    """Extracts what the flags ask for."""
    common_flags.parse(FLAGS, argv, __doc__)
    with tempfile.TemporaryDirectory() as aside:
        extract(
            formats.as_model_folder(
                FLAGS.init_checkpoint, os.path.join(aside, "model")
            )
        )


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()

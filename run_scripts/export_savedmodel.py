r"""Trained model folder -> SavedModel that takes raw strings.

    python -m run_scripts.export_savedmodel \
      --model_dir=runs/sst2 --export_dir=exports/sst2

Tokenizer and vocabulary are inside; a client needs TensorFlow and
tensorflow_text. Its signature `serving_default` maps

    classification      text_a, text_b -> label, probabilities, logits
    regression          text_a, text_b -> score
    question_answering  question, context -> answer, start, end, nbest_answers
    tagging             text -> words, tags, starts, ends, probabilities
    multiple_choice     context, endings -> choice, ending, probabilities
    fill_mask           text with [MASK] in it -> tokens, probabilities
    sentence_embedding  text -> embedding
    encoder             input_word_ids, input_mask, input_type_ids ->
                        sequence_output, pooled_output, encoder_outputs_0, ...

Any model gives `--kind=sentence_embedding` and `--kind=encoder`. `text_b` may
be left out by a server and in `loaded.text(...)`; only Python's
`loaded.signatures[...]` wants an empty one, `[]`, in its place. All have the
last as their signature `encoder`, and the last takes strings by its signature
`text`. A tagger takes text that is split already by its signature `words`.
`classify` and `regress` are for TensorFlow Serving's APIs of these
names.
"""

import os
import tempfile
from collections.abc import Mapping

import keras
from absl import flags, logging

from bert_tf import config
from bert_tf.conversion import formats
from bert_tf.export import kinds, mask_signatures, saved_model
from bert_tf.model import models
from bert_tf.training import config as training_config
from bert_tf.training import model_folders
from run_scripts.flags import common_flags, export_flags
from tfrecords.text import tokenizer

FLAGS = flags.FlagValues()
flags.DEFINE_string(
    "model_dir",
    None,
    "Folder of a run, or of one of its checkpoints; or a checkpoint of any "
    "format that convert_checkpoint reads.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "export_dir",
    None,
    "Folder to write the SavedModel to.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "max_seq_length",
    None,
    "Tokens at which texts are cut; default: as in training.",
    lower_bound=5,
    flag_values=FLAGS,
)
flags.DEFINE_bool(
    "overwrite",
    False,
    "Replace the SavedModel in --export_dir, if there is one.",
    flag_values=FLAGS,
)
flags.DEFINE_enum(
    "precision",
    None,
    list(training_config.POLICIES),
    "Type of the matrix products; weights and answers are float32. Default: "
    "as in training, so that answers are those of the run.",
    flag_values=FLAGS,
)
export_flags.define(FLAGS, kinds.NEEDED)
common_flags.require(FLAGS, "model_dir", "export_dir")


def find_precision(folder: str, description: Mapping) -> str:
    """Returns the precision, from the flag or else as in training."""
    found = FLAGS.precision or description.get("precision", "float32")
    if found not in training_config.POLICIES:
        raise ValueError(
            f"{os.path.join(folder, model_folders.METADATA)} has precision "
            f"{found!r}; expected one of {', '.join(training_config.POLICIES)}."
        )
    return found


def load_model(
    folder: str, description: Mapping, precision: str
) -> keras.Model:
    """Returns the model of a model folder, with its weights."""
    sizes = config.BertConfig.from_json_file(
        os.path.join(folder, model_folders.CONFIG)
    )
    path = os.path.join(folder, model_folders.METADATA)
    task, labels = description.get("task"), description.get("labels") or ()
    if task not in kinds.KINDS:
        raise ValueError(
            f"{path} has task {task!r}; expected one of "
            f"{', '.join(kinds.KINDS)}."
        )
    if task in kinds.NEED_LABELS and not labels:
        raise ValueError(
            f'{path} names no labels; add "labels": a list of them in the '
            "order of classes."
        )
    model = models.for_task(
        task, sizes, len(labels), dtype=training_config.POLICIES[precision]
    )
    model_folders.load_weights(model, folder)
    return model


def load_tokenizer(
    folder: str, description: Mapping, vocab_size: int, kind: str
) -> tokenizer.BertTokenizer:
    """Returns the tokenizer that the model was trained with."""
    vocab_file = os.path.join(folder, model_folders.VOCABULARY)
    if not os.path.isfile(vocab_file):
        raise ValueError(
            f"{vocab_file} is missing, so strings cannot be read. Copy the "
            "vocabulary there that the training records were made with."
        )
    found = tokenizer.BertTokenizer(
        vocab_file,
        description.get("do_lower_case", True),
        kept_tokens=[mask_signatures.MASK] if kind == "fill_mask" else [],
    )
    if found.vocab_size > vocab_size:
        raise ValueError(
            f"{vocab_file} has {found.vocab_size} entries, the model "
            f"vocab_size={vocab_size}. Use the model's own vocabulary."
        )
    return found


def find_length(description: Mapping, config) -> int:
    """Returns S, from the flag or else as in training."""
    length = FLAGS.max_seq_length or description.get(
        "max_seq_length", config.max_position_embeddings
    )
    if length > config.max_position_embeddings:
        raise ValueError(
            f"--max_seq_length={length} exceeds the model's "
            f"max_position_embeddings={config.max_position_embeddings}."
        )
    return length


def export_folder(folder: str) -> None:
    """Exports a model folder as the flags say."""
    description = model_folders.read_metadata(folder)
    precision = find_precision(folder, description)
    model = load_model(folder, description, precision)
    absent = model_folders.find_newly_initialized(description, model.config)
    kind = kinds.find_kind(FLAGS, description["task"], absent, model.config)
    export_flags.check_kind(FLAGS, kind)
    has_pooler = model_folders.has_pooler(absent)
    if not has_pooler:
        logging.warning(
            "%s has no trained pooler: pooled_output is left out",
            FLAGS.model_dir,
        )
    words = load_tokenizer(folder, description, model.config.vocab_size, kind)
    length = find_length(description, model.config)
    texts = kinds.make(
        FLAGS, kind, model, words, length, description, has_pooler
    )
    by_kind = {"encoder": model.encoder, "sentence_embedding": model.encoder}
    saved_model.export_text(
        [by_kind.get(kind, model)],
        FLAGS.export_dir,
        signatures=texts.signatures,
        parts=texts.parts,
        encoder=model.encoder,
        has_pooler=has_pooler,
        default=saved_model.ENCODER if kind == "encoder" else saved_model.TEXT,
        description=description
        | {
            "kind": kind,
            "max_seq_length": length,
            "precision": precision,
            "vocab_sha256": words.sha256,
        },
        overwrite=FLAGS.overwrite,
    )
    logging.info(
        "%s of %s written to %s, in %s",
        kind,
        FLAGS.model_dir,
        FLAGS.export_dir,
        precision,
    )


def main(argv: list[str]) -> None:
    """Exports as the flags say."""
    common_flags.parse(FLAGS, argv, __doc__)
    with tempfile.TemporaryDirectory() as aside:
        export_folder(
            formats.as_model_folder(
                FLAGS.model_dir, os.path.join(aside, "model")
            )
        )


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()

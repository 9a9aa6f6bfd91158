r"""Trained model folder -> SavedModel that takes raw strings.

    python -m run_scripts.export_savedmodel \
      --model_dir=runs/sst2 --export_dir=exports/sst2

Tokenizer and vocabulary are inside; a client needs TensorFlow and
tensorflow_text. Its signature `serving_default` maps

    classification  text_a, text_b -> label, probabilities, logits
    regression      text_a, text_b -> score
    fill_mask       text with [MASK] in it -> tokens, probabilities
    encoder         input_word_ids, input_mask, input_type_ids ->
                    sequence_output, pooled_output, encoder_outputs_0, ...

`text_b` may be left out by a server and in `loaded.text(...)`; only Python's
`loaded.signatures[...]` wants an empty one, `[]`, in its place. The first three
have the last as their signature `encoder`, and the last takes strings by its
signature `text`.
"""

import os
import tempfile
from collections.abc import Mapping

import keras
from absl import flags, logging

from bert_tf import config, export, model_folders, task_models
from bert_tf.conversion import formats
from run_scripts import common_flags, text_signatures
from tfrecords import tokenizer

# By task of the model; the first is the default.
KINDS = {
    "pretraining": ("fill_mask", "encoder"),
    "classification": ("classification", "encoder"),
    "regression": ("regression", "encoder"),
}

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
flags.DEFINE_enum(
    "kind",
    "auto",
    ["auto", "classification", "regression", "fill_mask", "encoder"],
    "What `serving_default` answers; auto: what the model was trained for.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "max_seq_length",
    None,
    "Tokens at which texts are cut; default: as in training.",
    lower_bound=5,
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "top_k",
    5,
    "Candidates for each [MASK].",
    lower_bound=1,
    flag_values=FLAGS,
)
flags.DEFINE_bool(
    "overwrite",
    False,
    "Replace the SavedModel in --export_dir, if there is one.",
    flag_values=FLAGS,
)
common_flags.require(FLAGS, "model_dir", "export_dir")


def load_model(folder: str, description: Mapping) -> keras.Model:
    """Returns the model of a model folder, with its weights."""
    sizes = config.BertConfig.from_json_file(
        os.path.join(folder, model_folders.CONFIG)
    )
    path = os.path.join(folder, model_folders.DESCRIPTION)
    task, labels = description.get("task"), description.get("labels") or ()
    if task not in KINDS:
        raise ValueError(
            f"{path} has task {task!r}; expected one of {', '.join(KINDS)}."
        )
    if task == "classification" and not labels:
        raise ValueError(
            f'{path} names no labels; add "labels": a list of them in the '
            "order of classes."
        )
    model = task_models.for_task(task, sizes, len(labels))
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
        kept_tokens=[text_signatures.MASK] if kind == "fill_mask" else [],
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


POOLER = "encoder/pooler/"
# By kind: the starts of the weights that it answers with.
NEEDED = {
    "classification": ("classification/", POOLER),
    "regression": ("regression/", POOLER),
    "fill_mask": ("masked_lm/",),
    "encoder": ("encoder/layer",),
}


def find_kind(description: Mapping) -> str:
    """Returns the kind of export, from the flag or else by the task.

    Raises:
      ValueError: if the model has no such head, or one that was never trained
        since the checkpoint that it came from has none.
    """
    task, absent = description["task"], description.get("not_in_source", ())
    kinds = [
        kind
        for kind in KINDS[task]
        if not any(name.startswith(NEEDED[kind]) for name in absent)
    ]
    if FLAGS.kind not in ("auto", *kinds):
        lacking = f" without {', '.join(absent)}" if absent else ""
        raise ValueError(
            f"--kind={FLAGS.kind} does not fit a model of task {task!r}"
            f"{lacking}; it can be exported as {' or '.join(kinds)}."
        )
    return kinds[0] if FLAGS.kind == "auto" else FLAGS.kind


def export_folder(folder: str) -> None:
    """Exports a model folder as the flags say."""
    description = model_folders.read_description(folder)
    model = load_model(folder, description)
    kind = find_kind(description)
    absent = description.get("not_in_source", ())
    has_pooler = not any(name.startswith(POOLER) for name in absent)
    if not has_pooler:
        logging.warning(
            "%s has no trained pooler: pooled_output is left out",
            FLAGS.model_dir,
        )
    words = load_tokenizer(folder, description, model.config.vocab_size, kind)
    length = find_length(description, model.config)
    answer = {
        "classification": lambda: text_signatures.make_classify(
            description["labels"]
        ),
        "regression": lambda: text_signatures.score,
        "fill_mask": lambda: text_signatures.make_fill(words, FLAGS.top_k),
        "encoder": lambda: text_signatures.make_encode(has_pooler),
    }[kind]()
    preprocess = (
        text_signatures.MaskedTexts
        if kind == "fill_mask"
        else text_signatures.Pairs
    )
    export.export_text(
        model.encoder if kind == "encoder" else model,
        preprocess(words, length),
        FLAGS.export_dir,
        answer=answer,
        takes_pairs=kind != "fill_mask",
        encoder=model.encoder,
        has_pooler=has_pooler,
        default=export.ENCODER if kind == "encoder" else export.TEXT,
        description=description
        | {
            "kind": kind,
            "max_seq_length": length,
            "vocab_sha256": words.sha256,
        },
        overwrite=FLAGS.overwrite,
    )
    logging.info(
        "%s of %s written to %s", kind, FLAGS.model_dir, FLAGS.export_dir
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

r"""CoNLL column files, a frozen encoder -> a BiLSTM that tags by its features.

    python -m run_scripts.run_ner_features \
      --data_dir=conll2003 --init_checkpoint=models/base \
      --feature_layers=concat_last_four,last --output_dir=runs/ner-features

Table 7 of the paper: hidden states of each word's first piece are made once and
kept in a file; a two-layer BiLSTM is trained on each choice of layers, which
gets a folder in --output_dir with its results and predictions. `all` are the
six rows of the table. A run that was stopped goes on.
"""

import os

import numpy as np
from absl import flags, logging

from bert_tf.conversion import formats
from bert_tf.model import feature_tagger
from bert_tf.training import model_folders, run_folder, strategies
from run_scripts import feature_cache, feature_training
from run_scripts.flags import (
    common_flags,
    fine_tuning_flags,
    ner_flags,
    training_flags,
)
from tfrecords.io import atomic_files
from tfrecords.reading import word_features
from tfrecords.tasks import ner_files
from tfrecords.text import word_windows

FLAGS = flags.FlagValues()
ner_flags.define_data(FLAGS)
common_flags.define_vocabulary(FLAGS)
common_flags.define_max_seq_length(FLAGS)
training_flags.define_training(FLAGS, learning_rate=1e-3, train_batch_size=32)
fine_tuning_flags.define_epochs(FLAGS, num_train_epochs=20.0)
flags.DEFINE_string(
    "init_checkpoint",
    None,
    "Encoder whose hidden states are the features: folder of a run or model, "
    "or a checkpoint of any format that convert_checkpoint reads.",
    flag_values=FLAGS,
)
flags.DEFINE_list(
    "feature_layers",
    "concat_last_four",
    f"Choices of layers: {', '.join(feature_tagger.CHOICES)}; or all.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "features_dir",
    None,
    "Folder for the files of features, to share between runs; default: "
    "features in --output_dir.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "lstm_units",
    768,
    "Units of each direction of each BiLSTM.",
    lower_bound=1,
    flag_values=FLAGS,
)
common_flags.require(FLAGS, "output_dir", "init_checkpoint")
# What training an encoder needs, and this tagger cannot use.
flags.register_validator(
    "precision",
    lambda precision: precision == "float32",
    "should be float32: the encoder is not trained, and the BiLSTM is float32 "
    "under every policy.",
    flag_values=FLAGS,
)
flags.register_validator(
    "remat",
    lambda remat: not remat,
    "is for the layers of an encoder, which is not trained here.",
    flag_values=FLAGS,
)
flags.register_validator(
    "steps_per_loop",
    lambda steps: steps == 1,
    "should be 1: batches are as long as their longest sentence, and those of "
    "one call would have to be alike.",
    flag_values=FLAGS,
)


def find_choices(num_hidden_layers: int) -> dict[str, list[int]]:
    """Returns the choices that --feature_layers means, and their layers.

    Raises:
      ValueError: as `feature_tagger.find_layers`.
    """
    choices = FLAGS.feature_layers
    if choices == ["all"]:
        choices = list(feature_tagger.CHOICES)
    return {
        choice: feature_tagger.find_layers(choice, num_hidden_layers)
        for choice in choices
    }


def open_source(folder: str) -> feature_cache.Source:
    """Returns the encoder of a model folder, and how words come to it."""
    tokenizer, _ = fine_tuning_flags.find_tokenizer(FLAGS, folder)
    encoder = model_folders.build_encoder(folder)
    fine_tuning_flags.check_length(FLAGS, encoder.config)
    stride = FLAGS.doc_stride
    stride = stride or word_windows.default_stride(FLAGS.max_seq_length)
    word_windows.check_stride(FLAGS.max_seq_length, stride)
    weights = os.path.join(folder, model_folders.WEIGHTS)
    return feature_cache.Source(
        encoder,
        atomic_files.digest(weights),
        tokenizer,
        FLAGS.max_seq_length,
        stride,
        FLAGS.eval_batch_size,
    )


def run_choices(strategy) -> None:
    """Makes the features, then trains on each choice of layers."""
    files = ner_flags.find_files(FLAGS)
    for split in ("train", "dev"):
        if split not in files:
            raise ValueError(
                f"There is no {split} file; give --{split}_file, or a "
                f"--data_dir with {ner_flags.FILES[split]}."
            )
    labels = ner_flags.find_labels(FLAGS, files, None)
    read = ner_flags.make_reader(FLAGS, files, ner_flags.types_of(labels))
    folder = strategies.chief_first(
        strategy,
        lambda: formats.as_model_folder(
            FLAGS.init_checkpoint,
            os.path.join(FLAGS.output_dir, "init_checkpoint"),
        ),
    )
    source = open_source(folder)
    choices = find_choices(source.encoder.config.num_hidden_layers)
    corpora = {split: read(split) for split in files}  # Checked, all of them.
    cached = make_features(strategy, source, corpora, choices)
    tag_ids = {
        split: np.array(ner_files.tag_ids(c.sentences, labels), np.int32)
        for split, c in corpora.items()
    }
    table = {}
    for choice, layers in choices.items():
        sets = {
            split: word_features.Sentences(
                np.load(path, mmap_mode="r"),
                [made_layers.index(layer) for layer in layers],
                [len(s.columns) for s in corpora[split].sentences],
                tag_ids[split],
            )
            for split, (path, made_layers) in cached.items()
        }
        features = feature_training.Features(
            choice,
            sets,
            read,
            labels,
            source.encoder.config,
            identity_of(source, corpora["train"]),
        )
        table[choice] = feature_training.train_and_predict(
            FLAGS, features, strategy, os.path.join(FLAGS.output_dir, choice)
        )
    log_table(table)


def make_features(
    strategy, source: feature_cache.Source, corpora, choices
) -> dict[str, tuple[str, list[int]]]:
    """Returns split to its file of features and the layers that it has."""
    needed = sorted({layer for layers in choices.values() for layer in layers})
    folder = FLAGS.features_dir or os.path.join(FLAGS.output_dir, "features")

    def find_or_make() -> dict[str, tuple[str, list[int]]]:
        # Other runs may share the folder.
        with run_folder.lock(folder, strategies.is_chief(strategy)):
            return {
                split: feature_cache.find_or_make(
                    source, corpus, split, needed, folder
                )
                for split, corpus in corpora.items()
            }

    return strategies.chief_first(strategy, find_or_make)


def log_table(table: dict[str, dict[str, dict[str, float]]]) -> None:
    """Logs the entity F1 of each choice, beside the paper's."""
    for choice, results in table.items():
        for split, values in results.items():
            logging.info(
                "%s, %s  entity_f1 %.4f  (the paper's, of BERT-base: %.3f)",
                choice,
                split,
                values["entity_f1"],
                feature_tagger.CHOICES[choice].paper_f1 / 100,
            )


def identity_of(source: feature_cache.Source, train) -> dict:
    """Returns what the features that a run is trained on were made of."""
    return {
        "weights_sha256": source.weights_sha256,
        "vocabulary_sha256": source.tokenizer.sha256,
        "do_lower_case": source.tokenizer.do_lower_case,
        "max_seq_length": source.max_seq_length,
        "doc_stride": source.doc_stride,
        "train_sha256": atomic_files.digest(train.path),
    }


def main(argv: list[str]) -> None:
    """Makes features, trains, evaluates and predicts, as the flags say."""
    common_flags.parse(FLAGS, argv, __doc__)
    strategy = training_flags.make_strategy(FLAGS, True)
    with run_folder.open_run(FLAGS.output_dir, strategy):
        run_choices(strategy)


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()

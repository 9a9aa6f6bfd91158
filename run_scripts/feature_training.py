"""Features of words, tags -> a trained tagger on top of them, its answers.

What `fine_tuning.py` is to the whole model. The encoder is not here: what it
had to say is in the features.
"""

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import keras
import numpy as np
from absl import flags, logging

from bert_tf.config import BertConfig
from bert_tf.tasks import ner, ner_scores
from bert_tf.tasks import task as task_lib
from bert_tf.training import (
    checkpoints,
    evaluation,
    loop,
    model_folders,
    run_folder,
    strategies,
)
from bert_tf.workflows import dev_results, run_history
from run_scripts import ner_results
from run_scripts.flags import fine_tuning_flags, training_flags
from run_scripts.flags.ner_flags import Read
from tfrecords.reading import word_features
from tfrecords.tasks import ner_files

Sets = dict[str, word_features.Sentences]  # By split.
_BEST_METRIC = "entity_f1"


class Features(NamedTuple):
    """What a tagger is trained on, and for what.

    Attributes:
      choice: of layers, a key of `feature_tagger.CHOICES`.
      sets: sentences of each split, with the features of that choice.
      read: split -> what its file holds.
      labels: tags in the order of their ids.
      config: of the encoder that the features come from.
      identity: of the encoder, the training file and how it is read, which a
        run is tied to.
    """

    choice: str
    sets: Sets
    read: Read
    labels: Sequence[str]
    config: BertConfig
    identity: dict


def train_and_predict(
    values: flags.FlagValues, features: Features, strategy, output_dir: str
) -> dict[str, dict[str, float]]:
    """Trains, keeps the best on dev, and writes results and predictions.

    Args:
      values: with the flags of training, `num_train_epochs`,
        `warmup_proportion` and `lstm_units`.
      features: what to train on.
      strategy: whose devices train.
      output_dir: of this choice's run; given again, it goes on.

    Returns:
      Scores of each dev set, by the best model.
    """
    task = _task(values, features)
    keras.utils.set_random_seed(values.seed)
    with strategy.scope():
        model = task.build_model(features.config)
    description = _description(values, features)
    predict = _make_predict(model, features.sets, values.eval_batch_size)

    def evaluate() -> dict[str, dict[str, float]]:
        return {
            split: _score(features, split, predict(split))
            for split in features.sets
            if split.startswith("dev")
        }

    keep_best = dev_results.make_keep_best(
        model,
        evaluate,
        output_dir,
        best_metric=_BEST_METRIC,
        describe=lambda scores: description,
        vocab_file=None,  # The encoder has it.
    )
    _train(
        values,
        features,
        task,
        model,
        description,
        strategy=strategy,
        on_checkpoint=keep_best,
        output_dir=output_dir,
    )
    if not strategies.is_chief(strategy):
        return {}
    best = checkpoints.find(output_dir)
    model_folders.load_weights(model, best)
    results = evaluate()
    dev_results.write(
        results,
        ner_results.majority_baseline(features.read, features.sets),
        checkpoints.step_of(best),
        output_dir,
        task_name=task.name,
        best_metric=_BEST_METRIC,
    )
    for split in features.sets:
        if not split.startswith("train"):
            _write(features, split, predict(split), output_dir)
    return results


def _task(values, features: Features) -> task_lib.Task:
    return ner.feature_task(
        word_features.BATCH,
        len(features.labels),
        features.choice,
        values.lstm_units,
    )


def _description(values, features: Features) -> dict:
    """Returns what goes to model.json."""
    return {
        "task": "feature_tagging",
        "labels": list(features.labels),
        "feature_layers": features.choice,
        "lstm_units": values.lstm_units,
    }


def _make_predict(
    model: keras.Model, sets: Sets, batch_size: int
) -> Callable[[str], np.ndarray]:
    """Returns split -> logits of all its sentences, [sentences, words, C]."""
    step = evaluation.make_prediction_step(model)

    def predict(split: str) -> np.ndarray:
        batches = sets[split].evaluation_batches(batch_size)
        return evaluation.predict(step, batches)["logits"]

    return predict


def _score(features: Features, split: str, logits) -> dict[str, float]:
    corpus, mask = features.read(split), features.sets[split].mask
    tags = [s.tags for s in corpus.sentences]
    right = np.zeros(mask.shape, np.int32)
    right[mask > 0] = ner_files.tag_ids(corpus.sentences, features.labels)
    answers = ner_results.in_sentences(
        corpus, ner.predicted_tags(logits, mask), features.labels
    )
    return {"loss": ner.loss(logits, mask, right)} | ner_scores.score(
        tags, answers
    )


def _write(features: Features, split: str, logits, output_dir: str) -> None:
    corpus = features.read(split)
    ids = ner.predicted_tags(logits, features.sets[split].mask)
    ner_results.write_predictions(
        corpus,
        ner_results.in_sentences(corpus, ids, features.labels),
        os.path.join(output_dir, "predictions", f"{split}.txt"),
    )


def _train(
    values,
    features: Features,
    task: task_lib.Task,
    model: keras.Model,
    description: dict,
    *,
    strategy,
    on_checkpoint: Callable[[int], None],
    output_dir: str,
) -> None:
    """Trains for --num_train_epochs, from the last checkpoint if any."""
    found = features.sets["train"]
    steps = fine_tuning_flags.find_steps(values, len(found))
    settings = {
        **description,
        **features.identity,
        "config": features.config.to_dict(),
        "num_train_steps": steps.to_train,
        "num_warmup_steps": steps.to_warm_up,
    } | training_flags.run_settings(values)
    logging.info(
        "%s  sentences %d  epochs %g  steps %d",
        features.choice,
        len(found),
        values.num_train_epochs,
        steps.to_train,
    )
    is_chief = strategies.is_chief(strategy)
    run_folder.check(output_dir, settings, is_chief=is_chief)
    if is_chief:
        run_history.write_flag_values(values, "run_ner_features", output_dir)

    def batches(start_batch, **replicas):
        return found.training_batches(
            start_batch,
            batch_size=values.train_batch_size,
            seed=values.seed,
            num_batches=steps.to_train,
            **replicas,
        )

    loop.train(
        task,
        model,
        [loop.Phase(num_steps=steps.to_train, batches=batches)],
        dataclasses.replace(
            training_flags.find_config(values), output_dir=output_dir
        ),
        strategy=strategy,
        settings=settings,
        metadata=description,
        vocab_file=None,
        num_warmup_steps=steps.to_warm_up,
        on_checkpoint=on_checkpoint,
        save_checkpoints_steps=steps.between_checkpoints,
    )

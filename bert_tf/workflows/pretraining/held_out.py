"""Held-out records -> metrics of a model during pre-training, and after it."""

import hashlib
import json
import math
import os
from collections.abc import Mapping

import keras
import tensorflow as tf
from absl import logging

from bert_tf.checkpoint import run_models
from bert_tf.tasks import pretraining
from bert_tf.training import (
    evaluation,
    reporting,
    run_folder,
)
from bert_tf.workflows import dev_results
from bert_tf.workflows.pretraining.config import PretrainingConfig
from bert_tf.workflows.pretraining.data import PretrainingData
from tfrecords.io import json_files
from tfrecords.reading import batches


class HeldOutEvaluation:
    """Evaluates a model on held-out records; logs and writes the metrics.

    All worker processes evaluate; only the chief logs and writes.

    Args:
      config: config of the run.
      model: model to evaluate.
      data: held-out records.
      strategy: strategy of the model, whose replicas share the batches.
      folder: folder of the run.

    Call arguments:
      step: optimizer steps of the model.
    """

    def __init__(
        self,
        config: PretrainingConfig,
        model: keras.Model,
        data: PretrainingData,
        strategy: tf.distribute.Strategy,
        folder: run_folder.RunFolder,
    ):
        self.config = config
        self.folder = folder
        self.model = model
        self.data = data
        self.strategy = strategy
        self.vocab_size = model.config.vocab_size
        self.evaluation_step = evaluation.make_evaluation_step(
            data.task, model, strategy
        )
        # Baseline: always predicting the most frequent token.
        self.unigram_accuracy = pretraining.unigram_accuracy(
            self.batches(), self.vocab_size, data.task
        )
        self.writer: reporting.Writer | None = None

    def batches(self, **replicas: int) -> tf.data.Dataset:
        """Returns the batches to evaluate on, of all or the given replicas."""
        return batches.evaluation_batches(
            self.data.records,
            self.data.task.schema,
            self.data.sizes,
            batch_size=self.config.eval_batch_size,
            vocab_size=self.vocab_size,
            input_mode=self.config.input_mode,
            num_batches=self.config.max_eval_steps or None,
            **replicas,
        )

    def __call__(self, step: int) -> dict[str, float]:
        """Returns the metrics, by name."""
        metrics = evaluation.evaluate(
            self.evaluation_step, self.batches, self.strategy
        )
        metrics["perplexity"] = pretraining.perplexity(metrics)
        metrics["unigram_accuracy"] = self.unigram_accuracy
        if self.folder.is_chief:
            self._write(step, metrics)
        return metrics

    def _write(self, step: int, metrics: dict[str, float | None]) -> None:
        logging.info(
            "held out, step %d  %s", step, reporting.format_values(metrics)
        )
        infinite = [n for n, x in metrics.items() if not math.isfinite(x)]
        if infinite:
            logging.warning(
                "held out, step %d: %s not finite, null in files",
                step,
                ", ".join(infinite),
            )
            metrics = metrics | dict.fromkeys(infinite)
        if not self.writer:
            # Created here, after the run was restored from a checkpoint.
            self.writer = reporting.Writer(
                self._log_folder(), self.folder.newest_step()
            )
        # `best/` is older than the end of the log, which is kept.
        if step >= self.folder.newest_step():
            self.writer.write(step, metrics)
        json_files.write(
            os.path.join(self.folder.path, run_folder.RESULTS),
            {"step": step, **self.source(), **metrics},
        )

    def _log_folder(self) -> str:
        """Returns the folder of the log, which has one set of records."""
        folder = os.path.join(self.folder.path, "logs", "eval")
        path = os.path.join(folder, "evaluated_on.json")
        source = self.source()
        if not os.path.exists(path):
            os.makedirs(folder, exist_ok=True)
            json_files.write(path, source)
        if json_files.read(path) == source:
            return folder
        text = json.dumps(source, sort_keys=True)
        other = f"{folder}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        logging.warning(
            "%s has evaluations on other records or another --max_eval_steps; "
            "these are logged to %s",
            folder,
            other,
        )
        return other

    def is_done(self, step: int) -> bool:
        """Returns whether there are results of this step and these records."""
        folder = self.folder.path
        if not os.path.exists(os.path.join(folder, run_folder.RESULTS)):
            return False
        try:
            results = run_models.read_results(folder)
        except ValueError as error:
            logging.warning("%s Step %d is evaluated again.", error, step)
            return False
        return results.items() >= {"step": step, **self.source()}.items()

    def source(self) -> dict:
        """Returns the records and settings of the evaluation."""
        return {
            "records": self.data.digest,
            "max_eval_steps": self.config.max_eval_steps,
        }


class EarlyStopping:
    """Keeps the best model in `best/`; stops a run that no longer improves.

    The best one has the lowest held-out perplexity. The run stops at the
    `early_stopping_evaluations`-th evaluation after it.

    Args:
      evaluate: evaluation of the model.
      metadata: for `model.json`.
      vocabulary: content of vocab.txt, to save with the model, if any.

    Call arguments:
      step: optimizer steps of the model, a multiple of
        `save_checkpoints_steps` or the last.

    Raises:
      ValueError: if `best/` has the best model on other records.
      stopping.EarlyStopped: if it was not lower in as many evaluations.
    """

    def __init__(
        self,
        evaluate: HeldOutEvaluation,
        metadata: Mapping,
        vocabulary: bytes | None,
    ):
        self.evaluate = evaluate
        self.metadata = metadata
        self.vocabulary = vocabulary
        self.folder = evaluate.folder.best
        newest = evaluate.folder.newest_step()
        best, source = self._best(), evaluate.source()
        other = {name: best.get(name, x) for name, x in source.items()}
        if newest < evaluate.config.num_train_steps and other != source:
            raise ValueError(
                f"{self.folder} has the best model on other held-out records "
                f"or another --max_eval_steps: {other}, and these are {source}."
                " Perplexities cannot be compared. Give the earlier ones, or "
                "move that folder away."
            )

    def __call__(self, step: int) -> None:
        """Evaluates; saves the model or raises."""
        config = self.evaluate.config
        value = -math.log(self.evaluate(step)["perplexity"])
        if self.evaluate.folder.is_chief and value > self._best()["value"]:
            dev_results.save_best(
                self.folder,
                self.evaluate.model,
                {"step": step, "metric": "mean_log_likelihood", "value": value}
                | self.evaluate.source(),
                metadata=self.metadata,
                vocabulary=self.vocabulary,
            )
        if step < config.num_train_steps:
            dev_results.check_improves(
                *(self.evaluate.folder, self.evaluate.strategy, step),
                config.early_stopping_evaluations,
                config.save_checkpoints_steps,
            )

    def _best(self) -> dict:
        return dev_results.read_best(self.folder)

"""Held-out records -> metrics of a model during pre-training, and after it."""

import hashlib
import json
import os

import keras
import tensorflow as tf
from absl import logging

from bert_tf.tasks import pretraining
from bert_tf.training import checkpoints, evaluation, reporting, strategies
from bert_tf.workflows.configs import PretrainingConfig
from bert_tf.workflows.pretraining.data import PretrainingData
from tfrecords.io import json_files
from tfrecords.reading import batches

_RESULTS = "eval_results.json"


class HeldOutEvaluation:
    """Evaluates a model on held-out records; logs and writes the metrics.

    All worker processes evaluate; only the chief logs and writes.

    Args:
      config: config of the run.
      model: model to evaluate.
      data: held-out records.
      strategy: strategy of the model, whose replicas share the batches.

    Call arguments:
      step: optimizer steps of the model.
    """

    def __init__(
        self,
        config: PretrainingConfig,
        model: keras.Model,
        data: PretrainingData,
        strategy: tf.distribute.Strategy,
    ):
        self.config = config
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
        if strategies.is_chief(self.strategy):
            self._write(step, metrics)
        return metrics

    def _write(self, step: int, metrics: dict[str, float]) -> None:
        output_dir = self.config.output_dir
        logging.info(
            "held out, step %d  %s", step, reporting.format_values(metrics)
        )
        if not self.writer:
            # Created here, after the run was restored from a checkpoint.
            self.writer = reporting.Writer(
                self._log_folder(), checkpoints.newest_step(output_dir)
            )
        self.writer.write(step, metrics)
        json_files.write(
            os.path.join(output_dir, _RESULTS),
            {"step": step, **self._source(), **metrics},
        )

    def _log_folder(self) -> str:
        """Returns the folder of the log, which has one set of records."""
        folder = os.path.join(self.config.output_dir, "logs", "eval")
        path = os.path.join(folder, "evaluated_on.json")
        source = self._source()
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
        path = os.path.join(self.config.output_dir, _RESULTS)
        if not os.path.exists(path):
            return False
        results = json_files.read(path)
        return results.items() >= {"step": step, **self._source()}.items()

    def _source(self) -> dict:
        """Returns the entries that identify what the results are of."""
        return {
            "records": self.data.digest,
            "max_eval_steps": self.config.max_eval_steps,
        }

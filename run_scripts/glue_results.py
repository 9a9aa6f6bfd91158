"""Model and records -> dev scores, the best model, prediction files."""

import math
import os
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import (
    checkpoints,
    checksums,
    evaluation,
    model_folders,
    reporting,
)
from bert_tf.tasks import glue
from bert_tf.tasks import task as task_lib
from tfrecords import batches, glue_tables, records, schema, whole_files


class Run(NamedTuple):
    """What the stages below work on."""

    task: glue_tables.GlueTask
    bert_task: task_lib.Task
    model: keras.Model
    sets: dict[str, records.Records]  # By split.
    sizes: dict[str, int]
    bucket_lengths: tuple[int, ...]  # Static lengths of batches, if any.
    vocab_file: str
    description: dict  # For model.json.


def make_predict(
    run: Run, batch_size: int
) -> Callable[[str], dict[str, np.ndarray]]:
    """Returns split -> named outputs for each of its examples."""
    prediction_step = evaluation.make_prediction_step(run.model)

    def predict(split: str) -> dict[str, np.ndarray]:
        return evaluation.predict(
            prediction_step,
            batches.evaluation_batches(
                run.sets[split],
                schema.ENCODER_INPUTS,
                run.sizes,
                batch_size=batch_size,
                vocab_size=run.model.config.vocab_size,
                bucket_lengths=run.bucket_lengths,
            ),
        )

    return predict


def make_evaluate(run: Run, predict) -> Callable[[], dict[str, dict]]:
    """Returns () -> {dev split: {name: value}}, the loss and all metrics."""
    name = glue.label_name(run.bert_task)
    features = {name: run.bert_task.schema[name]}
    labels = {}
    for split, found in run.sets.items():
        if split.startswith("dev"):
            serialized = tf.constant(found.get(np.arange(len(found))))
            parsed = schema.parse(serialized, features, run.sizes)
            labels[split] = parsed[name].numpy()

    return lambda: {
        split: glue.score(
            run.bert_task, run.task.metrics, predict(split), labels[split]
        )
        for split in labels
    }


def make_keep_best(
    run: Run, evaluate, output_dir: str
) -> Callable[[int], None]:
    """Returns step -> None, which evaluates and keeps the best in `best/`."""
    best_dir = os.path.join(output_dir, checkpoints.BEST)
    writers: dict[str, reporting.Writer] = {}

    def keep_best(step: int) -> None:
        results = evaluate()
        # Asked for only now, when the run has gone back to a whole checkpoint.
        start_step = checkpoints.newest_step(output_dir)
        for split, values in results.items():
            if split not in writers:
                folder = os.path.join(output_dir, "logs", split)
                writers[split] = reporting.Writer(folder, start_step)
            writers[split].write(step, values)
            logging.info(
                "%s, step %d  %s", split, step, reporting.format_values(values)
            )
        # The first dev set decides: for MNLI that is the matched one.
        value = next(iter(results.values()))[run.task.best_metric]
        if value <= best_value(best_dir):
            return
        with whole_files.whole_folder(best_dir) as folder:
            model_folders.save_model(
                folder,
                run.model,
                description=run.description,
                vocab_file=run.vocab_file,
            )
            state = {"step": step, "metric": run.task.best_metric}
            checksums.seal(folder, state | {"value": value})

    return keep_best


def best_value(best_dir: str) -> float:
    """Returns the metric of the best model so far; -inf if there is none."""
    if not os.path.exists(best_dir):
        return -math.inf
    try:
        checksums.check_quickly(best_dir)
        return checksums.read_state(best_dir)["value"]
    except checksums.DamagedError as error:
        logging.warning("%s This step's model takes its place.", error)
        return -math.inf


def write_results(run: Run, results, step: int, output_dir: str) -> None:
    """Writes and logs `eval_results.json`: each dev set's loss and metrics."""
    content = {
        "task_name": run.task.name,
        "step": step,
        "best_metric": run.task.best_metric,
    }
    os.makedirs(output_dir, exist_ok=True)
    whole_files.write_json(
        os.path.join(output_dir, "eval_results.json"), content | results
    )
    for split, values in results.items():
        logging.info(
            "%s, step %d  %s", split, step, reporting.format_values(values)
        )


def write_predictions(task: glue_tables.GlueTask, path: str, outputs) -> None:
    """Writes a file as the GLUE site takes it, whole or not at all.

    index  prediction
    0      entailment
    1      not_entailment
    """
    predicted = glue.predicted_labels(outputs)
    if task.is_regression:
        low, high = task.score_range or (-np.inf, np.inf)
        values = [f"{score:.4f}" for score in np.clip(predicted, low, high)]
    else:
        values = [task.labels[label] for label in predicted]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with whole_files.whole_file(path) as file:
        file.write("index\tprediction\n")
        file.writelines(f"{row}\t{value}\n" for row, value in enumerate(values))
    logging.info("%s  rows %d", path, len(values))

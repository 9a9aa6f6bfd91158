"""Example plan of ablations -> settings, tasks and results, for tests."""

import json
import os

from experiments.ablations import jobs
from experiments.ablations.settings import Settings
from experiments.evaluation_tasks import EvaluationTask

TASKS = [
    EvaluationTask(
        "SST-2", "glue", "run_glue", {"task_name": "SST-2"}, 1000, 100, 20.0
    ),
    EvaluationTask(
        "SQuAD", "squad", "run_squad", {"doc_stride": 16}, 500, 50, 32.0
    ),
    EvaluationTask("NER", "ner", "run_ner", {}, 700, 70, 25.0),
    EvaluationTask(
        "NER, feature-based",
        "ner_features",
        "experiments.feature_based.run_ner_features",
        {"train_file": "eng.train"},
        700,
        70,
        25.0,
    ),
]


def make_settings(output_dir, **changes):
    """Returns settings of a plan with four checkpoints in 100 steps."""
    fields = {
        "output_dir": output_dir,
        "corpus": "text/*.txt",
        "vocab_size": 500,
        "num_hidden_layers": 4,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "max_seq_length": 32,
        "num_train_steps": 100,
        "num_checkpoints": 4,
        "train_batch_size": 16,
        "fine_tuning_batch_size": 16,
        "seed": 7,
        "num_seeds": 1,
        "max_eval_steps": 2,
        "held_out_prob": 0.1,
        "fine_tuning_learning_rate": 1e-4,
    }
    return Settings(**(fields | changes))


def write_result(settings, row, task, value, index=0):
    """Writes the results of a fine-tuning with this score."""
    step = settings.checkpoint_step(row.share)
    name = jobs.result_folder(row, task, step, index)
    folder = os.path.join(settings.output_dir, name)
    os.makedirs(folder, exist_ok=True)
    metric = "accuracy" if task.kind == "glue" else "f1"
    content = {"task_name": task.name, "step": 9, "best_metric": metric}
    content |= {"dev": {"loss": 1.0, metric: value}}
    content |= {"majority_baseline": {"dev": {metric: 0.5}}}
    with open(os.path.join(folder, "eval_results.json"), "w") as file:
        json.dump(content, file)


def write_perplexity(settings, model, value, index=0):
    """Writes the results of a pre-training."""
    name = jobs.pretraining_name(model, index)
    folder = os.path.join(settings.output_dir, name)
    os.makedirs(folder, exist_ok=True)
    content = {"step": settings.num_train_steps, "perplexity": value}
    with open(os.path.join(folder, "eval_results.json"), "w") as file:
        json.dump(content, file)

"""A plan of ablations -> settings, probes and finished runs for its tests."""

import json
import os

from experiments.ablations import jobs
from experiments.ablations import settings as ablation_settings
from experiments.ablations.evaluation_tasks import Probe
from experiments.ablations.settings import Settings

PROBES = [
    Probe("SST-2", "glue", "run_glue", {"task_name": "SST-2"}, 1000, 100, 20.0),
    Probe("SQuAD", "squad", "run_squad", {"doc_stride": 16}, 500, 50, 32.0),
    Probe("NER", "ner", "run_ner", {}, 700, 70, 25.0),
    Probe(
        "NER, feature-based",
        "ner_features",
        "run_ner_features",
        {"train_file": "eng.train"},
        700,
        70,
        25.0,
    ),
]


def make_settings(output_dir, **changes):
    """Settings of a plan with four checkpoints in a hundred steps."""
    values = {
        "output_dir": output_dir,
        "corpus": "text/*.txt",
        "vocab_file": f"{output_dir}/vocab.txt",
        "is_vocab_given": False,
        "vocab_size": 500,
        "max_seq_length": 32,
        "hidden_dropout_prob": 0.1,
        "num_train_steps": 100,
        "num_checkpoints": 4,
        "train_batch_size": 16,
        "fine_tuning_batch_size": 16,
        "num_train_epochs": 3.0,
        "max_train_examples": 0,
        "num_restarts": 1,
        "seed": 7,
        "max_eval_steps": 2,
        "precision": "float32",
        "rate": 1e11,
        "kept": frozenset(
            f"L-4_H-64_A-4_{name}"
            for name in ("next_sentence_80-10-10", "left_to_right")
        ),
        "options": {
            "vocabulary": {"do_lower_case": True},
            "records": {"held_out_prob": 0.1},
            "pretraining": {"learning_rate": 1e-3, "num_warmup_steps": 10},
            "fine_tuning": {"learning_rate": 1e-4},
        },
    }
    return Settings(**(values | changes))


def write_result(settings, row, probe, value, restart=0):
    """Writes what a fine-tuning leaves that has reached a value."""
    step = ablation_settings.step_of(row.share, settings)
    name = jobs.result_folder(row, probe, step, restart)
    folder = os.path.join(settings.output_dir, name)
    os.makedirs(folder, exist_ok=True)
    metric = "accuracy" if probe.kind == "glue" else "f1"
    content = {"task_name": probe.name, "step": 9, "best_metric": metric}
    content |= {"dev": {"loss": 1.0, metric: value}}
    content |= {"trivial": {"dev": {metric: 0.5}}}
    with open(os.path.join(folder, "eval_results.json"), "w") as file:
        json.dump(content, file)


def write_perplexity(settings, model, value):
    """Writes what a pre-training leaves."""
    folder = os.path.join(settings.output_dir, "pretrained", model.name)
    os.makedirs(folder, exist_ok=True)
    content = {"step": settings.num_train_steps, "perplexity": value}
    with open(os.path.join(folder, "eval_results.json"), "w") as file:
        json.dump(content, file)

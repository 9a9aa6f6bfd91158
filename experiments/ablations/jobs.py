"""Rows of a plan, tasks, settings -> distinct commands, estimated times."""

import itertools
import math
from collections.abc import Iterable, Sequence

from bert_tf.checkpoint import run_models
from bert_tf.workflows import estimates
from experiments import recipes, step_time
from experiments.ablations import tables
from experiments.ablations.settings import Settings
from experiments.ablations.tables import COLUMNS, Model, Row
from experiments.commands import Job
from experiments.evaluation_tasks import EvaluationTask

# Fixed time of a process: imports, tracing, last batches.
_START_SECONDS = 25.0
# Length of bucketed batches, relative to the mean length of rows.
_LENGTH_FACTOR = 1.25
# An evaluation step is the forward pass, a third of a training step.
_FORWARD = 1 / 3
_RECORDS_SECONDS = 60.0
_EVAL_BATCH_SIZE = 64  # Default of run_pretraining.
_DECIMALS = 4  # For numbers of epochs.
_VOCABULARY = "vocabulary"  # Name of a job.


def _vocabulary(settings: Settings) -> Job:
    flags = {
        "input_file": settings.corpus,
        "output_file": settings.vocab_path,
        "vocab_size": settings.vocab_size,
        "do_lower_case": settings.do_lower_case,
    }
    return Job(_VOCABULARY, "make_vocab", flags, _RECORDS_SECONDS)


def _needs_vocabulary(settings: Settings) -> tuple[str, ...]:
    return () if settings.vocab_file else (_VOCABULARY,)


def _records(model: Model, settings: Settings) -> Job:
    """Returns the job that makes the records of a model."""
    mask, same, random = model.mask_mix
    name = f"records/{model.records}"
    # One example to a row, as in the paper.
    flags = recipes.read("budget_records") | {
        "max_examples_per_row": 1,
        "input_file": settings.corpus,
        "vocab_file": settings.vocab_path,
        "output_dir": f"{settings.output_dir}/{name}",
        "max_seq_length": settings.max_seq_length,
        "max_predictions_per_seq": _predictions(settings),
        "masked_lm_prob": settings.masked_lm_prob,
        "pairs": model.pairs,
        "mask_mix": f"mask:{mask / 100:g},same:{same / 100:g},"
        f"random:{random / 100:g}",
        "do_lower_case": settings.do_lower_case,
        "held_out_prob": settings.held_out_prob,
    }
    return Job(
        name,
        "make_pretraining_records",
        flags,
        _RECORDS_SECONDS,
        needs=_needs_vocabulary(settings),
    )


def _task_records(task: EvaluationTask, settings: Settings) -> Job:
    """Returns the job that makes the records of a task."""
    return task.records_job(
        settings,
        settings.vocab_path,
        settings.max_seq_length,
        do_lower_case=settings.do_lower_case,
    )._replace(needs=_needs_vocabulary(settings))


def _predictions(settings: Settings) -> int:
    return math.ceil(settings.masked_lm_prob * settings.max_seq_length)


def pretraining_name(model: Model, index: int) -> str:
    """Returns the name of a pre-training; `index` counts the seeds."""
    return f"pretrained/{model.name}/seed-{index}"


def _pretraining(
    model: Model,
    index: int,
    settings: Settings,
    keeps_all_checkpoints: bool,
    rate: float,
) -> Job:
    """Returns the job that pre-trains a model.

    Args:
      model: the model.
      index: index of the seed.
      settings: settings of all runs.
      keeps_all_checkpoints: whether figure 5 needs all of its checkpoints.
      rate: see `make`.
    """
    steps, name = settings.num_train_steps, pretraining_name(model, index)
    records = f"{settings.output_dir}/records/{model.records}"
    flags = recipes.read("budget_cpu")
    # All examples have the same length, the number of steps is given, and all
    # words have logits, as in the paper.
    del flags["phases"], flags["train_hours"], flags["masked_lm_candidates"]
    flags |= {
        "input_file": f"{records}/train",
        "eval_input_file": f"{records}/held_out",
        "vocab_file": settings.vocab_path,
        "bert_config_file": settings.config_file(model),
        "output_dir": f"{settings.output_dir}/{name}",
        "num_train_steps": steps,
        "save_checkpoints_steps": settings.checkpoint_interval,
        "keep_checkpoint_max": settings.num_checkpoints
        if keeps_all_checkpoints
        else 1,
        "train_batch_size": settings.train_batch_size,
        "max_eval_steps": settings.max_eval_steps,
        "precision": settings.precision,
        "seed": settings.seed + index,
        "do_lower_case": settings.do_lower_case,
    }
    # Evaluated at each checkpoint.
    num_evaluated = (
        settings.num_checkpoints * settings.max_eval_steps * _EVAL_BATCH_SIZE
    )
    step = estimates.Step(
        config=settings.model_config(model),
        task="pretraining",
        precision=settings.precision,
        batch_size=settings.train_batch_size,
        max_seq_length=settings.max_seq_length,
        max_predictions_per_seq=settings.max_seq_length - 1
        if model.is_causal
        else _predictions(settings),
    )
    steps += _FORWARD * num_evaluated / settings.train_batch_size
    return Job(
        name,
        "run_pretraining",
        flags,
        _START_SECONDS + steps * step_time.step_seconds(step, rate),
        needs=(f"records/{model.records}",),
    )


def num_epochs(task: EvaluationTask, settings: Settings) -> float:
    """Returns the epochs of a fine-tuning on a task."""
    limit = settings.max_train_examples or math.inf
    epochs = min(settings.num_train_epochs, limit / task.num_train)
    return round(epochs, _DECIMALS)


def fine_tuning_name(
    row: Row, task: EvaluationTask, step: int, index: int
) -> str:
    """Returns the name of a fine-tuning, the same for all rows that share it.

    Args:
      row: row of any table.
      task: task to fine-tune on.
      step: step of the initial checkpoint.
      index: index of the seed.
    """
    begin = f"{row.model.name}/step-{step}" if row.model else "from_scratch"
    name = task.name.lower().replace(", ", "_").replace("-", "_")
    lstm = "_bilstm" if row.has_bilstm else ""
    return f"fine_tuned/{begin}/{name}{lstm}/seed-{index}"


def result_folder(row: Row, task: EvaluationTask, step: int, index: int) -> str:
    """Returns the folder of a fine-tuning's scores, in the output folder."""
    name = fine_tuning_name(row, task, step, index)
    if task.kind == "ner_features":
        return f"{name}/{feature_layers(row.model)}"
    return name


def feature_layers(model: Model) -> str:
    """Returns --feature_layers of a feature-based tagger.

    Section 5.3 and appendix C.2 of the paper: the last four layers.
    """
    return "concat_last_four" if model.num_hidden_layers >= 4 else "last"


def _fine_tuning(
    row: Row, task: EvaluationTask, index: int, settings: Settings, rate
) -> Job:
    step = settings.checkpoint_step(row.share)
    name = fine_tuning_name(row, task, step, index)
    model = row.model or settings.base
    flags = task.flags | {
        "output_dir": f"{settings.output_dir}/{name}",
        "max_seq_length": settings.max_seq_length,
        "train_batch_size": settings.fine_tuning_batch_size,
        "precision": settings.precision,
        "seed": settings.seed + index,
        "keep_checkpoint_max": 1,
        "do_lower_case": settings.do_lower_case,
        "do_train": True,
        "do_eval": True,
    }
    needs = ()
    if row.model:
        needs = (pretraining_name(model, index),)
        begin = f"{needs[0]}/checkpoints/{run_models.name(step)}"
        flags["init_checkpoint"] = f"{settings.output_dir}/{begin}"
    else:
        config_file = settings.config_file(model)
        flags["bert_config_file"] = config_file
        flags["vocab_file"] = settings.vocab_path
    if row.has_bilstm:
        flags["bilstm_units"] = model.hidden_size
    epochs = num_epochs(task, settings)
    if task.kind == "ner_features":
        # The encoder runs only once, so epochs are cheap.
        epochs = settings.num_train_epochs
        features = (
            f"{settings.output_dir}/features/{model.name}/seed-{index}"
            f"/step-{step}"
        )
        flags |= {
            "feature_layers": feature_layers(model),
            "features_dir": features,
            "lstm_units": model.hidden_size,
            "precision": "float32",  # No other is supported.
        }
    else:
        needs += (task.records_name,)
        flags |= {
            "records_dir": f"{settings.output_dir}/{task.records_name}",
            "learning_rate": settings.fine_tuning_learning_rate,
        }
    flags["num_train_epochs"] = epochs
    script = task.script
    if row.has_bilstm:
        script = f"experiments.bilstm.{script}"
    return Job(
        name,
        script,
        flags,
        _fine_tuning_seconds(task, epochs, settings, model, rate),
        needs,
    )


def _fine_tuning_seconds(
    task: EvaluationTask, epochs: float, settings: Settings, model, rate
) -> float:
    # Evaluated after each epoch, and once more at the end.
    dev_rows = _FORWARD * task.num_dev * (math.ceil(epochs) + 1)
    rows = epochs * task.num_train + dev_rows
    length = math.ceil(_LENGTH_FACTOR * task.num_tokens)
    step = estimates.Step(
        config=settings.model_config(model),
        task="classification",
        precision=settings.precision,
        batch_size=settings.fine_tuning_batch_size,
        max_seq_length=min(length, settings.max_seq_length),
    )
    steps = rows / settings.fine_tuning_batch_size
    return _START_SECONDS + steps * step_time.step_seconds(step, rate)


def row_tasks(
    row: Row, tasks: Iterable[EvaluationTask]
) -> list[EvaluationTask]:
    """Returns the tasks that a row's table has columns for."""
    return [task for task in tasks if task.kind in COLUMNS[row.table]]


def make(
    rows: Sequence[Row],
    tasks: Sequence[EvaluationTask],
    settings: Settings,
    rate: float,
) -> list[Job]:
    """Returns all jobs, each once, in the order of seeds and rows.

    Args:
      rows: rows of the tables.
      tasks: tasks to fine-tune on.
      settings: settings of all runs.
      rate: measured operations per second of a matrix product, for estimates.
    """
    jobs: dict[str, Job] = {}

    def add(job: Job) -> None:
        jobs.setdefault(job.name, job)

    # Even if figure 5 is not among the tables: a later plan may add it.
    figure = tables.make(["figure5"], settings.base, num_checkpoints=1)
    in_figure = {row.model for row in figure}
    # All rows with one seed, then with the next.
    for index, row in itertools.product(range(settings.num_seeds), rows):
        if not settings.vocab_file:
            add(_vocabulary(settings))
        if row.model:
            add(_records(row.model, settings))
            is_kept = row.model in in_figure
            add(_pretraining(row.model, index, settings, is_kept, rate))
        for task in row_tasks(row, tasks):
            if task.kind != "ner_features":
                add(_task_records(task, settings))
            add(_fine_tuning(row, task, index, settings, rate))
    return list(jobs.values())

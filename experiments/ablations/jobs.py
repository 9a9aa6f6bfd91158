"""Rows of a plan, probes, settings -> commands, each once, and their time."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bert_tf.training import checkpoints
from bert_tf.workflows.doctor import estimates
from experiments.ablations import settings as ablation_settings
from experiments.ablations.evaluation_tasks import Probe
from experiments.ablations.plan import COLUMNS, Model, Row
from experiments.ablations.settings import Settings

# A process begins: imports, the graph of its step, the end of its data.
_START_SECONDS = 25.0
# Batches of rows sorted by length are about so much longer than their mean.
_CUT = 1.25
# An evaluation is the forward third of a training step.
_FORWARD = 1 / 3
_RECORDS_SECONDS = 60.0
_PREDICTIONS = 0.15  # Devlin et al. 2018, section 3.1.
_ROUNDED = 4  # Decimals of epochs.


class Job(NamedTuple):
    """A command of the plan.

    Attributes:
      name: of the job, and of its folder in the output folder.
      script: a module of run_scripts.
      flags: name to value.
      seconds: about how long it takes.
      config_sha256: of the bert_config.json that a flag names, whose values
        are no flags; None if there is no such flag.
    """

    name: str
    script: str
    flags: dict
    seconds: float
    config_sha256: str | None = None


def _seconds(settings: Settings, steps: float, task: str, model, **sizes):
    """Returns about how long steps take, without the start."""
    step = estimates.Step(
        config=ablation_settings.config_of(model, settings),
        task=task,
        precision=settings.precision,
        **sizes,
    )
    return steps * estimates.step_seconds(step, settings.rate)


def _vocabulary(settings: Settings) -> Job:
    flags = {
        "input_file": settings.corpus,
        "output_file": settings.vocab_file,
        "vocab_size": settings.vocab_size,
        **settings.options["vocabulary"],
    }
    return Job("vocabulary", "make_vocab", flags, _RECORDS_SECONDS)


def _records(model: Model, settings: Settings) -> Job:
    """Returns what makes the records that a model reads."""
    mask, same, random = model.mask_mix
    name = f"records/{model.records}"
    flags = {
        "input_file": settings.corpus,
        "vocab_file": settings.vocab_file,
        "output_dir": f"{settings.output_dir}/{name}",
        "max_seq_length": settings.max_seq_length,
        "max_predictions_per_seq": _predictions(settings),
        "pairs": model.pairs,
        "masking_time": "dynamic",
        "mask_mix": f"mask:{mask / 100:g},same:{same / 100:g},"
        f"random:{random / 100:g}",
        **settings.options["records"],
    }
    return Job(name, "make_pretraining_records", flags, _RECORDS_SECONDS)


def _predictions(settings: Settings) -> int:
    return max(1, math.ceil(_PREDICTIONS * settings.max_seq_length))


def _pretraining(model: Model, settings: Settings) -> Job:
    """Returns a pre-training, with the checkpoints of figure 5."""
    steps, name = settings.num_train_steps, f"pretrained/{model.name}"
    records = f"{settings.output_dir}/records/{model.records}"
    flags = {
        "input_file": f"{records}/train",
        "eval_input_file": f"{records}/held_out",
        "vocab_file": settings.vocab_file,
        "bert_config_file": ablation_settings.config_file(model, settings),
        "output_dir": f"{settings.output_dir}/{name}",
        "num_train_steps": steps,
        "save_checkpoints_steps": ablation_settings.steps_between(settings),
        "keep_checkpoint_max": settings.num_checkpoints
        if model.name in settings.kept
        else 1,
        "train_batch_size": settings.train_batch_size,
        "max_eval_steps": settings.max_eval_steps,
        "precision": settings.precision,
        "seed": settings.seed,
        **settings.options["pretraining"],
    }
    seconds = _seconds(
        settings,
        # Evaluated at each checkpoint, in batches of 64.
        steps
        + settings.num_checkpoints
        * settings.max_eval_steps
        * _FORWARD
        * 64
        / settings.train_batch_size,
        "pretraining",
        model,
        batch_size=settings.train_batch_size,
        max_seq_length=settings.max_seq_length,
        max_predictions_per_seq=settings.max_seq_length - 1
        if model.is_causal
        else _predictions(settings),
    )
    return Job(
        name,
        "run_pretraining",
        flags,
        _START_SECONDS + seconds,
        ablation_settings.config_sha256(model, settings),
    )


def epochs_of(probe: Probe, settings: Settings) -> float:
    """Returns how often a fine-tuning sees the rows of a probe."""
    most = settings.max_train_examples or math.inf
    epochs = min(settings.num_train_epochs, most / probe.num_train)
    return round(epochs, _ROUNDED)


def fine_tuning_name(row: Row, probe: Probe, step: int, restart: int) -> str:
    """Returns the name of a fine-tuning, the same for all rows that share it.

    Args:
      row: of any table.
      probe: to fine-tune on.
      step: of the checkpoint to begin with.
      restart: number of the seed.
    """
    begin = f"{row.model.name}/step-{step}" if row.model else "from_scratch"
    name = probe.name.lower().replace(", ", "_").replace("-", "_")
    lstm = "_bilstm" if row.has_bilstm else ""
    return f"fine_tuned/{begin}/{name}{lstm}/restart-{restart}"


def result_folder(row: Row, probe: Probe, step: int, restart: int) -> str:
    """Returns where a fine-tuning leaves its scores, in the output folder."""
    name = fine_tuning_name(row, probe, step, restart)
    if probe.kind == "ner_features":
        return f"{name}/{feature_layers(row.model)}"
    return name


def feature_layers(model: Model) -> str:
    """Returns what a tagger by features reads, as --feature_layers has it.

    Section 5.3 and appendix C.2 of the paper: the last four layers.
    """
    return "concat_last_four" if model.num_hidden_layers >= 4 else "last"


def _fine_tuning(row, probe: Probe, restart: int, settings, base) -> Job:
    step = ablation_settings.step_of(row.share, settings)
    name = fine_tuning_name(row, probe, step, restart)
    model = row.model or base
    flags = probe.flags | {
        "output_dir": f"{settings.output_dir}/{name}",
        "max_seq_length": settings.max_seq_length,
        "train_batch_size": settings.fine_tuning_batch_size,
        "precision": settings.precision,
        "seed": settings.seed + restart,
        "keep_checkpoint_max": 1,
    }
    if row.model:
        begin = f"{model.name}/checkpoints/{checkpoints.name(step)}"
        flags["init_checkpoint"] = f"{settings.output_dir}/pretrained/{begin}"
    else:
        config_file = ablation_settings.config_file(model, settings)
        flags["bert_config_file"] = config_file
        flags["vocab_file"] = settings.vocab_file
    if row.has_bilstm:
        flags["bilstm_units"] = model.hidden_size
    epochs = epochs_of(probe, settings)
    if probe.kind == "ner_features":
        # The encoder is read once, so that epochs cost little.
        epochs = settings.num_train_epochs
        features = f"{settings.output_dir}/features/{model.name}/step-{step}"
        flags |= {
            "feature_layers": feature_layers(model),
            "features_dir": features,
            "lstm_units": model.hidden_size,
            "precision": "float32",  # It takes no other.
            **settings.options["vocabulary"],
        }
    else:
        records = f"{settings.output_dir}/records/{probe.script}/{probe.name}"
        flags |= {
            "do_train": True,
            "do_eval": True,
            "records_dir": records,
            **settings.options["fine_tuning"],
        }
    flags["num_train_epochs"] = epochs
    return Job(
        name,
        probe.script,
        flags,
        _probe_seconds(probe, epochs, settings, model),
        None if row.model else ablation_settings.config_sha256(model, settings),
    )


def _probe_seconds(probe: Probe, epochs: float, settings, model) -> float:
    """Returns about how long a fine-tuning takes."""
    # Evaluated after each epoch, and once more at the end.
    dev_rows = _FORWARD * probe.num_dev * (math.ceil(epochs) + 1)
    rows = epochs * probe.num_train + dev_rows
    length = math.ceil(_CUT * probe.num_tokens)
    return _START_SECONDS + _seconds(
        settings,
        rows / settings.fine_tuning_batch_size,
        "classification",
        model,
        batch_size=settings.fine_tuning_batch_size,
        max_seq_length=min(length, settings.max_seq_length),
    )


def probes_of(row: Row, probes: Iterable[Probe]) -> list[Probe]:
    """Returns the probes that a row's table has columns for."""
    return [probe for probe in probes if probe.kind in COLUMNS[row.table]]


def make(
    rows: Sequence[Row],
    probes: Sequence[Probe],
    settings: Settings,
    base: Model,
) -> list[Job]:
    """Returns all jobs, each once, those of the first rows first.

    Args:
      rows: of the tables.
      probes: to fine-tune on.
      settings: what the runs share.
      base: sizes of the model that is not pre-trained.
    """
    jobs: dict[str, Job] = {}

    def add(job: Job) -> None:
        jobs.setdefault(job.name, job)

    for row in rows:
        if not settings.is_vocab_given:
            add(_vocabulary(settings))
        if row.model:
            add(_records(row.model, settings))
            add(_pretraining(row.model, settings))
        for restart in range(settings.num_restarts):
            for probe in probes_of(row, probes):
                add(_fine_tuning(row, probe, restart, settings, base))
    return list(jobs.values())

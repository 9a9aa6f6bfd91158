"""Settings, tasks -> jobs: pre-training by each recipe, then fine-tuning.

`budget` is run_scripts/recipes/budget_cpu.flags, `deep` the same with more
layers, and `paper` the paper's, with a learning rate and initial weights that
suit the size of `budget`. All have the same text, sequence lengths and hours.
"""

import dataclasses
import math
from collections.abc import Sequence

from bert_tf.config import BertConfig
from bert_tf.training.config import MAX_SEED
from experiments import recipes
from experiments.commands import Job, PlanOptions
from experiments.evaluation_tasks import EvaluationTask, TaskFiles
from tfrecords.options import REQUIRED, option
from tfrecords.text import vocab

BUDGET, PAPER, DEEP = RECIPES = "budget", "paper", "deep"
SCRATCH = "from scratch"
LENGTHS = (64, 128)  # Sequence lengths of pre-training.
_DEEP_LAYERS = 4  # Well-Read Students' mini (Turc et al. 2019).
_MASKED = 0.15  # Devlin et al. 2018, section 3.1.
# The best of 3e-4, 5e-4 and 1e-3 after 900 steps; with 1e-3 the loss rises
# again while the rate does.
_PAPER_TRAINING = {
    "learning_rate": 5e-4,
    "warmup_proportion": 0.1,
    "train_batch_size": 32,
    "phases": "64:0.9,128:0.1",  # Appendix A.2, where they are 128 and 512.
}
# Fine-tuning: chosen on dev with one budget model. With dropout, as in Geiping
# and Goldstein 2022 after pre-training without it.
_EPOCHS = {"SST-2": 2, "CoLA": 5, "MNLI": 5, "SQuAD": 3, "NER": 10}
_FEW_EPOCHS = 10
_RATES = {"glue": 3e-4, "squad": 5e-4, "ner": 1e-3}
_NUM_EVALUATIONS = 20
_RECORDS_SECONDS, _TASK_SECONDS = 30.0, 300.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(PlanOptions, TaskFiles):
    """Settings of the experiment: flags of run_small_budget."""

    corpus: str = option(
        REQUIRED, "Text to pre-train on, as comma-separated globs."
    )
    vocab_file: str = option(REQUIRED, "WordPiece vocabulary.")
    recipes: tuple[str, ...] = option(
        (BUDGET, PAPER),
        "Recipes to pre-train by: budget, paper, or deep, which is budget with "
        f"{_DEEP_LAYERS} layers.",
    )
    num_train_steps: tuple[str, ...] = option(
        (),
        "Steps of each recipe that take the hours here, such as "
        "budget:6000,paper:7000. Default: measured in each run, so that runs "
        "with other seeds have other numbers of steps.",
    )
    train_hours: float = option(
        1.0, "Hours of each pre-training.", at_least=0.001
    )
    num_pretrainings: int = option(
        3,
        "Pre-trained models of each recipe, with different seeds.",
        at_least=1,
    )
    num_seeds: int = option(
        3,
        "Fine-tunings of each recipe on each task, with different seeds. They "
        "start from the pre-trained models in turn.",
        at_least=1,
    )
    few_labels: int = option(
        1000, "Training rows of a second run of SST-2; 0 for none.", at_least=0
    )
    precision: str = option(
        "float32",
        "Type of matrix products.",
        choices=("float32", "bfloat16"),
    )
    seed: int = option(12345, "First seed.", at_least=1, at_most=MAX_SEED)

    def __post_init__(self):
        super().__post_init__()
        known = [name for name in RECIPES if name in self.recipes]
        if not known or len(known) < len(self.recipes):
            raise ValueError(
                f"--recipes={','.join(self.recipes)} should name some of "
                f"{', '.join(RECIPES)}, each once."
            )
        names = []
        for word in self.num_train_steps:
            name, _, steps = word.partition(":")
            is_number = steps.isdecimal() and int(steps) > 0
            if name not in self.recipes or not is_number:
                raise ValueError(
                    f"--num_train_steps={word} should be one of --recipes, "
                    f"here {', '.join(self.recipes)}, a colon and a number "
                    "above 0, such as budget:6000."
                )
            names.append(name)
        if len(set(names)) < len(names):
            raise ValueError(
                f"--num_train_steps={','.join(self.num_train_steps)} should "
                "name each recipe once."
            )

    @property
    def few_labels_name(self) -> str:
        """Name of the task with few labels."""
        return f"SST-2 with {self.few_labels} labels"

    def num_steps(self, recipe: str) -> int | None:
        """Returns the steps of a recipe's runs; None if they are measured."""
        given = dict(word.split(":") for word in self.num_train_steps)
        return int(given[recipe]) if recipe in given else None


def model_configs(settings: Settings) -> dict[str, BertConfig]:
    """Returns the configs of the recipes, by path."""
    size = len(vocab.read(settings.vocab_file))
    budget, tuned = (
        dataclasses.replace(recipes.config(name), vocab_size=size)
        for name in ("budget", "budget_dropout")
    )
    deep, deep_tuned = (
        dataclasses.replace(config, num_hidden_layers=_DEEP_LAYERS)
        for config in (budget, tuned)
    )
    paper = dataclasses.replace(tuned, norm_first=False)
    return {
        config_file(BUDGET, settings): budget,
        config_file(PAPER, settings): paper,
        config_file(DEEP, settings): deep,
        fine_tuning_config_file(BUDGET, settings): tuned,
        fine_tuning_config_file(DEEP, settings): deep_tuned,
    }


def config_file(recipe: str, settings: Settings) -> str:
    """Returns the path of a recipe's bert_config.json in pre-training."""
    return f"{settings.output_dir}/configs/{recipe}.json"


def fine_tuning_config_file(row: str, settings: Settings) -> str:
    """Returns the path of a row's bert_config.json in fine-tuning.

    From scratch, the model is that of the first recipe.
    """
    recipe = settings.recipes[0] if row == SCRATCH else row
    # The paper's has dropout in pre-training, too.
    suffix = "" if recipe == PAPER else "_fine_tuning"
    return config_file(f"{recipe}{suffix}", settings)


def _records_folder(recipe: str) -> str:
    """Returns the recipe whose records a recipe reads."""
    return PAPER if recipe == PAPER else BUDGET


def _records(recipe: str, length: int, settings: Settings) -> Job:
    """Returns the job that makes the records of a recipe, of one length."""
    if recipe == BUDGET:
        flags = recipes.read("budget_records")
        share = recipes.masked_lm_prob()
    else:
        flags, share = {"dupe_factor": 1}, _MASKED
    return _make_records(f"{recipe}-{length}", length, share, flags, settings)


def _make_records(name, length, share, flags, settings: Settings) -> Job:
    flags = flags | {
        "input_file": settings.corpus,
        "vocab_file": settings.vocab_file,
        "output_dir": f"{settings.output_dir}/records/{name}",
        "max_seq_length": length,
        "masked_lm_prob": share,
        "max_predictions_per_seq": round(share * length),
        "held_out_prob": 0.01,
    }
    return Job(
        f"records/{name}", "make_pretraining_records", flags, _RECORDS_SECONDS
    )


def _held_out(recipe: str, length: int, settings: Settings) -> Job:
    """Returns the job that makes records to evaluate on, of one length.

    Their masks are the paper's; a run with pairs can only be evaluated on
    pairs.
    """
    flags = {"dupe_factor": 1}
    if recipe == BUDGET:
        flags["pairs"] = "none"
    name = f"{recipe}-held_out-{length}"
    return _make_records(name, length, _MASKED, flags, settings)


def _pretraining(recipe: str, index: int, settings: Settings) -> Job:
    """Returns the job that pre-trains a model; `index` counts the seeds."""
    source = _records_folder(recipe)
    records = [_records(source, n, settings) for n in LENGTHS]
    # Short, as in both phases: later positions are learnt in the second.
    held_out = _held_out(source, min(LENGTHS), settings)
    flags = (
        dict(_PAPER_TRAINING) if recipe == PAPER else recipes.read("budget_cpu")
    )
    flags |= {
        "input_file": ",".join(
            f"{job.flags['output_dir']}/train" for job in records
        ),
        "eval_input_file": f"{held_out.flags['output_dir']}/held_out",
        "vocab_file": settings.vocab_file,
        "bert_config_file": config_file(recipe, settings),
        "output_dir": f"{settings.output_dir}/{pretrained_name(recipe, index)}",
        "precision": settings.precision,
        "seed": settings.seed + index,
        "keep_checkpoint_max": 1,
    }
    steps = settings.num_steps(recipe)
    if steps:
        flags.pop("train_hours", None)
        flags["num_train_steps"] = steps
        flags["save_checkpoints_steps"] = math.ceil(steps / _NUM_EVALUATIONS)
    else:
        flags["train_hours"] = settings.train_hours
    return Job(
        pretrained_name(recipe, index),
        "run_pretraining",
        flags,
        3600 * settings.train_hours,
        needs=(held_out.name, *(job.name for job in records)),
    )


def scored_name(recipe: str, index: int) -> str:
    """Returns the name of the job that evaluates a pre-trained model."""
    return f"scored/{recipe}/seed-{index}"


def _scoring(recipe: str, index: int, settings: Settings) -> Job:
    """Returns the job that evaluates a model on the records of all models."""
    held_out = _held_out(BUDGET, max(LENGTHS), settings)
    begin = pretrained_name(recipe, index)
    flags = {
        "do_train": False,
        "eval_input_file": f"{held_out.flags['output_dir']}/held_out",
        "init_checkpoint": f"{settings.output_dir}/{begin}",
        "vocab_file": settings.vocab_file,
        "output_dir": f"{settings.output_dir}/{scored_name(recipe, index)}",
    }
    return Job(
        scored_name(recipe, index),
        "run_pretraining",
        flags,
        _RECORDS_SECONDS,
        needs=(held_out.name, begin),
    )


def pretrained_name(recipe: str, index: int) -> str:
    """Returns the name of a pre-training job, and of its folder."""
    return f"pretrained/{recipe}/seed-{index}"


def fine_tuned_name(row: str, task: EvaluationTask, index: int) -> str:
    """Returns the name of a fine-tuning job, and of its folder."""
    return f"fine_tuned/{row}/{task.name}/seed-{index}".replace(" ", "_")


def num_epochs(task: EvaluationTask, settings: Settings) -> int:
    """Returns the epochs of a fine-tuning."""
    if task.name == settings.few_labels_name:
        return _FEW_EPOCHS
    return _EPOCHS.get(task.name, 3)


def _fine_tuning(
    row: str, task: EvaluationTask, index: int, settings: Settings
) -> Job:
    name = fine_tuned_name(row, task, index)
    needs = (task.records_name,)
    flags = task.flags | {
        "records_dir": f"{settings.output_dir}/{needs[0]}",
        "output_dir": f"{settings.output_dir}/{name}",
        "max_seq_length": max(LENGTHS),
        "num_train_epochs": num_epochs(task, settings),
        "learning_rate": _RATES[task.kind],
        "bert_config_file": fine_tuning_config_file(row, settings),
        "train_batch_size": 32,
        "precision": settings.precision,
        "seed": settings.seed + index,
        "keep_checkpoint_max": 1,
        "do_train": True,
        "do_eval": True,
    }
    if row == SCRATCH:
        flags["vocab_file"] = settings.vocab_file
    else:
        begin = pretrained_name(row, index % settings.num_pretrainings)
        needs += (begin,)
        flags["init_checkpoint"] = f"{settings.output_dir}/{begin}"
    return Job(name, task.script, flags, _TASK_SECONDS, needs=needs)


def model_names(settings: Settings) -> list[str]:
    """Returns the kinds of models, in the order of the report."""
    return [*settings.recipes, SCRATCH]


def make(tasks: Sequence[EvaluationTask], settings: Settings) -> list[Job]:
    """Returns all jobs, each after those that it needs.

    Args:
      tasks: tasks to fine-tune on.
      settings: settings of the experiment.
    """
    jobs = [_held_out(BUDGET, max(LENGTHS), settings)]
    for source in dict.fromkeys(map(_records_folder, settings.recipes)):
        jobs.append(_held_out(source, min(LENGTHS), settings))
        jobs += [_records(source, length, settings) for length in LENGTHS]
    for index in range(settings.num_pretrainings):
        for recipe in settings.recipes:
            jobs.append(_pretraining(recipe, index, settings))
            jobs.append(_scoring(recipe, index, settings))
    jobs += [
        task.records_job(settings, settings.vocab_file, max(LENGTHS))
        for task in tasks
    ]
    # One seed of all rows, then the next; from scratch last.
    for rows in (settings.recipes, (SCRATCH,)):
        jobs += [
            _fine_tuning(row, task, index, settings)
            for index in range(settings.num_seeds)
            for row in rows
            for task in tasks
        ]
    return jobs

"""Flags of run_ablations -> base model, rows, probes and what runs share."""

import os

from absl import flags

from bert_tf.training import config as training_config
from bert_tf.workflows import estimates
from experiments.ablations import evaluation_tasks, plan, settings
from experiments.ablations.evaluation_tasks import Probe
from experiments.ablations.plan import Model, Row
from experiments.ablations.settings import Settings
from tfrecords.text import text_files, vocab


def define(values: flags.FlagValues) -> None:
    """Adds all of them but those of `common_flags`."""
    flags.DEFINE_string(
        "output_dir",
        None,
        "Folder for all runs and the report. The same command goes on.",
        flag_values=values,
    )
    flags.DEFINE_list(
        "tables",
        list(plan.TABLES),
        "Which of them to make: 5, 6, 8, figure5.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "corpus",
        None,
        "Text to pre-train on, as comma-separated globs.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "vocab_size",
        8000,
        "Entries of the vocabulary that is learnt without --vocab_file.",
        flag_values=values,
    )
    flags.DEFINE_bool(
        "dry_run",
        False,
        "Print the commands, and about how long they take, and do nothing.",
        flag_values=values,
    )
    flags.DEFINE_float(
        "log_every_seconds",
        60.0,
        "Seconds between two progress lines.",
        lower_bound=1.0,
        flag_values=values,
    )
    _define_model(values)
    _define_pretraining(values)
    _define_probes(values)


def _define_model(values: flags.FlagValues) -> None:
    for name, default, text in (
        ("num_hidden_layers", 4, "Layers of the base model (L)."),
        ("hidden_size", 128, "Its width (H)."),
        ("num_attention_heads", 4, "Its heads (A)."),
    ):
        flags.DEFINE_integer(
            name, default, text, lower_bound=1, flag_values=values
        )
    flags.DEFINE_float(
        "hidden_dropout_prob",
        0.1,
        "Dropout everywhere; 0 for runs that see little of each text twice.",
        lower_bound=0.0,
        upper_bound=0.9,
        flag_values=values,
    )


def _define_pretraining(values: flags.FlagValues) -> None:
    for name, default, text in (
        ("num_train_steps", 10000, "Optimizer steps of each pre-training."),
        ("train_batch_size", 32, "Examples in one of them."),
        ("num_checkpoints", 5, "Points of figure 5, evenly apart."),
        ("max_eval_steps", 30, "Batches of 64 held-out examples to look at."),
        ("seed", 12345, "Seed of weights, order and dropout."),
    ):
        flags.DEFINE_integer(
            name, default, text, lower_bound=1, flag_values=values
        )
    flags.DEFINE_float(
        "learning_rate",
        6e-4,
        "Peak learning rate of pre-training, after a tenth of the steps; 1e-4 "
        "in the paper, whose models are larger.",
        flag_values=values,
    )
    flags.DEFINE_float(
        "held_out_prob",
        0.01,
        "Share of documents that perplexity is measured on.",
        lower_bound=0.0001,
        upper_bound=0.5,
        flag_values=values,
    )
    flags.DEFINE_enum(
        "precision",
        "float32",
        list(training_config.POLICIES),
        "Type of matrix products.",
        flag_values=values,
    )


def _define_probes(values: flags.FlagValues) -> None:
    flags.DEFINE_list(
        "glue_dir",
        [],
        "Folders of GLUE tasks, each called as its task, such as glue/SST-2.",
        flag_values=values,
    )
    for name, what in (
        ("squad", "SQuAD 1.1 file, JSON, for table 5"),
        ("ner", "CoNLL-2003 file for table 8"),
    ):
        for split in ("train", "dev"):
            flags.DEFINE_string(
                f"{name}_{split}_file",
                None,
                f"A {what}: {split}.",
                flag_values=values,
            )
    flags.DEFINE_integer(
        "fine_tuning_batch_size",
        32,
        "Examples in a step of fine-tuning.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_float(
        "fine_tuning_learning_rate",
        3e-4,
        "Peak learning rate of fine-tuning; 2e-5 to 5e-5 in the paper.",
        flag_values=values,
    )
    flags.DEFINE_float(
        "num_train_epochs",
        3.0,
        "Times that a fine-tuning sees its rows.",
        lower_bound=0.01,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "max_train_examples",
        0,
        "Examples that a fine-tuning sees at most, by fewer epochs; 0 for any.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "num_restarts",
        1,
        "Fine-tunings of each kind, with seeds of their own; 5 in the paper.",
        lower_bound=1,
        flag_values=values,
    )


def base_model(values: flags.FlagValues) -> Model:
    """Returns the base model.

    Raises:
      ValueError: if its heads do not divide its width.
    """
    found = Model(
        values.num_hidden_layers, values.hidden_size, values.num_attention_heads
    )
    if found.hidden_size % found.num_attention_heads:
        raise ValueError(
            f"--hidden_size={found.hidden_size} is not a multiple of "
            f"--num_attention_heads={found.num_attention_heads}."
        )
    return found


def find_rows(values: flags.FlagValues) -> list[Row]:
    """Returns the rows of --tables."""
    return plan.make(values.tables, base_model(values), values.num_checkpoints)


def find_probes(values: flags.FlagValues) -> list[Probe]:
    """Returns the probes whose files are given.

    Raises:
      ValueError: if there is none, one is given twice or in half, or a file
        is not what it should be.
    """
    found = [evaluation_tasks.glue(folder) for folder in values.glue_dir]
    for kind in ("squad", "ner"):
        files = [values[f"{kind}_{split}_file"].value for split in _SPLITS]
        if any(files) and not all(files):
            raise ValueError(
                f"--{kind}_train_file and --{kind}_dev_file belong together; "
                "give both or none."
            )
        if not all(files):
            continue
        if kind == "squad":
            found.append(evaluation_tasks.squad(*files, values.max_seq_length))
        else:
            found += evaluation_tasks.ner(*files, values.max_seq_length)
    evaluation_tasks.check_names(found)
    return found


_SPLITS = ("train", "dev")


def find_settings(values: flags.FlagValues) -> Settings:
    """Returns what all runs share.

    Raises:
      ValueError: if there is no such text, or no such vocabulary; or if
        checkpoints would fall together.
    """
    text_files.expand_inputs(values.corpus)
    base = base_model(values)
    steps = values.num_train_steps
    settings.check_checkpoints(steps, values.num_checkpoints)
    given = values.vocab_file
    case = {"do_lower_case": values.do_lower_case}
    figure = plan.make(["figure5"], base, 1)
    names = (
        "output_dir",
        "corpus",
        "max_seq_length",
        "hidden_dropout_prob",
        "num_train_steps",
        "num_checkpoints",
        "train_batch_size",
        "fine_tuning_batch_size",
        "num_train_epochs",
        "max_train_examples",
        "num_restarts",
        "seed",
        "max_eval_steps",
        "precision",
    )
    return Settings(
        **{name: values[name].value for name in names},
        vocab_file=given or os.path.join(values.output_dir, "vocab.txt"),
        is_vocab_given=bool(given),
        vocab_size=len(vocab.read(given)) if given else values.vocab_size,
        rate=estimates.measure_rate(values.precision),
        kept=frozenset(row.model.name for row in figure),
        options={
            "vocabulary": case,
            "records": case | {"held_out_prob": values.held_out_prob},
            "pretraining": case
            | {
                "learning_rate": values.learning_rate,
                "num_warmup_steps": max(1, steps // 10),
            },
            "fine_tuning": case
            | {"learning_rate": values.fine_tuning_learning_rate},
        },
    )

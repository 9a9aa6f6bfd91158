"""Rows, settings of a plan -> differences from the paper's runs, as text."""

from collections.abc import Sequence

from experiments import recipes
from experiments.ablations import jobs, tables
from experiments.ablations.settings import Settings
from experiments.ablations.tables import Row
from experiments.evaluation_tasks import EvaluationTask

# Appendix A.2 of the paper: 256 sequences; 128 tokens in 90 % of the steps.
_PAPER_TOKENS = 1_000_000 * 256 * (0.9 * 128 + 0.1 * 512)


def scale(settings: Settings) -> list[str]:
    """Returns the scale of the runs, compared with the paper's."""
    base = settings.base
    tokens = (
        settings.num_train_steps
        * settings.train_batch_size
        * settings.max_seq_length
    )
    limit = settings.max_train_examples
    cut = f", and at most {limit:,} examples" if limit else ""
    seeds = settings.num_seeds
    return [
        "**Scale.** Runs of this scale check the shape of the paper's tables, "
        "that is the order of the rows, and not the numbers. Each model "
        f"here reads {settings.num_train_steps:,} batches of "
        f"{settings.train_batch_size} x {settings.max_seq_length} tokens, "
        f"{tokens:,} in total; the paper's read "
        f"{_PAPER_TOKENS / tokens:,.0f} times as many. The base model is "
        f"{base.size} with {settings.vocab_size:,} entries; the paper's is "
        f"{tables.PAPER_BASE.size} with 30,522.",
        "",
        f"Text: `{settings.corpus}`. Epochs of fine-tuning: "
        f"{settings.num_train_epochs:g}{cut}; a score is that of the best "
        "epoch on dev by the task's metric, F1 for MRPC and QQP. "
        + (
            f"Each row was run with {seeds} seeds, from pre-training on; "
            "scores are their mean and its standard error."
            if seeds > 1
            else "Each row was run with one seed, so that the standard error "
            "is unknown: differences of a few points may be chance."
        )
        + " Scores are in percent, next to the paper's; a dash means none.",
    ]


def _training(settings: Settings) -> list[str]:
    """Returns differences from the training of appendix A.2 and A.3."""
    flags = recipes.read("budget_cpu")
    config = settings.model_config(settings.base)
    return [
        "Masks differ each time that a text is read, hide "
        f"{100 * settings.masked_lm_prob:.0f} % of the tokens, and all "
        f"sequences have {settings.max_seq_length} tokens; the paper's masks "
        "were written once, ten for each text, with 15 % of the tokens, and "
        "sequences had 128 tokens, 512 in the last tenth of the steps.",
        "Optimizer and schedule are those of `budget_cpu.flags`: matrices of "
        "the layers are trained by Muon, at a peak learning rate of "
        f"{flags['muon_learning_rate']}, other weights by AdamW, at "
        f"{flags['learning_rate']} with beta_2 = {flags['adam_beta_2']}; both "
        f"rates rise for {100 * float(flags['warmup_proportion']):.0f} % of "
        "the steps, "
        "and then fall linearly to 0. The paper has AdamW at 1e-4 with beta_2 "
        "= 0.999, and a warmup of 1 %. In fine-tuning the rate is "
        f"{settings.fine_tuning_learning_rate:g}, the paper's the best of 2e-5 "
        "to 5e-5.",
        "Layers are pre-LN without dropout, as in `budget_bert_config.json`, "
        "and the weights of the base model start with a standard deviation of "
        f"{config.initializer_range:.3g}; the paper's are post-LN with a "
        "dropout of 0.1, and start with 0.02.",
    ]


def differences(
    rows: Sequence[Row],
    tasks: Sequence[EvaluationTask],
    settings: Settings,
) -> list[str]:
    """Returns differences of the plan from the paper, besides its scale."""
    base = settings.base
    models = [row.model for row in rows if row.model]
    kinds = {kind for row in rows for kind in tables.COLUMNS[row.table]}
    by_features = any(
        task.kind == "ner_features" and task.kind in kinds for task in tasks
    )
    lines = _training(settings)
    if any(model.is_causal for model in models):
        lines.append(
            "Left-to-right models classify by their last token, since their "
            "[CLS] attends to nothing but itself; the paper does not say "
            "which token its models use."
        )
    if any(model.pairs == "none" for model in models):
        lines.append(
            "Models without next sentence prediction, including left-to-right "
            "ones, are pre-trained on single segments: the embedding of "
            "segment B is untrained when SQuAD and tasks with two sentences "
            "first use it, which may explain a part of their lower scores."
        )
    if any(row.table == "8" for row in rows):
        lines.append(
            "The models of table 8 are pre-trained without next sentence "
            "prediction: with it, the step at which a small model begins to "
            "use its context depends more on the seed than on the mix."
        )
    if by_features:
        layers = jobs.feature_layers(base)
        if layers != "concat_last_four":
            lines.append(
                f"Feature-based NER uses `{layers}`, one layer, since "
                f"the base model has {base.num_hidden_layers} layers; the "
                "paper's uses the last four."
            )
        if base.hidden_size != 768:
            lines.append(
                f"The BiLSTM of feature-based NER has {base.hidden_size} units "
                "per direction, the model's hidden size; the paper's has 768."
            )
    return ["Besides the scale, these runs differ from the paper's:", ""] + [
        f"- {text}" for text in lines
    ]

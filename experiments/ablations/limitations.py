"""Rows, settings of a plan -> how they differ from the paper's, in words."""

from collections.abc import Sequence

from experiments.ablations import jobs, plan
from experiments.ablations import settings as ablation_settings
from experiments.ablations.evaluation_tasks import Probe
from experiments.ablations.plan import Model, Row
from experiments.ablations.settings import Settings

# Appendix A.2 of the paper: 256 sequences, 90 % of the steps of 128 tokens.
_PAPER_TOKENS = 1_000_000 * 256 * (0.9 * 128 + 0.1 * 512)


def scale(settings: Settings, base: Model) -> list[str]:
    """Returns what the runs are, and how far from the paper's."""
    tokens = (
        settings.num_train_steps
        * settings.train_batch_size
        * settings.max_seq_length
    )
    most = settings.max_train_examples
    cut = f", and at most {most:,} examples" if most else ""
    restarts = settings.num_restarts
    return [
        "**What this is.** Runs of this scale check the shape of the paper's "
        "tables, that is what is above what, and not their numbers. Each model "
        f"here reads {settings.num_train_steps:,} batches of "
        f"{settings.train_batch_size} x {settings.max_seq_length} tokens, "
        f"{tokens / 1e6:.2g} million in all; the paper's read "
        f"{_PAPER_TOKENS / tokens:,.0f} times as many. The base model is "
        f"{base.size} with {settings.vocab_size:,} entries; the paper's is "
        f"{plan.PAPER_BASE.size} with 30,522.",
        "",
        f"Text: `{settings.corpus}`. Epochs of fine-tuning: "
        f"{settings.num_train_epochs:g}{cut}; a score is of the epoch that "
        "is best on dev by the task's own metric, which is F1 of MRPC and QQP. "
        f"Restarts of each fine-tuning: {restarts}"
        + (
            "; their mean, and its standard error."
            if restarts > 1
            else ", so that how much is chance is not known: differences of a "
            "few points may be."
        )
        + " Scores are in percent. The paper's stand beside; a dash is where "
        "one of the two has none.",
    ]


def _training(settings: Settings, base: Model) -> list[str]:
    """Returns what of training is not as in appendix A.2 and A.3."""
    pretraining = settings.options["pretraining"]
    warmup = pretraining["num_warmup_steps"] / settings.num_train_steps
    lines = [
        "Masks are drawn anew each time that a text is read, and all sequences "
        f"are of {settings.max_seq_length} tokens; the paper's masks were "
        "written once, ten of each text, and its last tenth of the steps had "
        "512 tokens, 128 before.",
        f"Peak learning rates: {pretraining['learning_rate']:g} after "
        f"{100 * warmup:.0f} % of the steps, "
        f"{settings.options['fine_tuning']['learning_rate']:g} in fine-tuning; "
        "the paper's are 1e-4 after 1 %, and the best of 2e-5 to 5e-5.",
    ]
    if settings.hidden_dropout_prob != 0.1:
        lines.append(
            f"Dropout is {settings.hidden_dropout_prob:g}; the paper's is 0.1."
        )
    deviation = ablation_settings.config_of(base, settings).initializer_range
    if deviation != 0.02:
        lines.append(
            "Narrow models begin with larger weights, the base model with a "
            f"deviation of {deviation:g}; the paper's begin with 0.02."
        )
    return lines


def unlike(
    rows: Sequence[Row],
    probes: Sequence[Probe],
    settings: Settings,
    base: Model,
) -> list[str]:
    """Returns what of the plan, besides its scale, is not as in the paper."""
    models = [row.model for row in rows if row.model]
    kinds = {kind for row in rows for kind in plan.COLUMNS[row.table]}
    by_features = any(
        probe.kind == "ner_features" and probe.kind in kinds for probe in probes
    )
    lines = _training(settings, base)
    if any(model.is_causal for model in models):
        lines.append(
            "Left-to-right models classify by their last token, as their "
            "[CLS] has read nothing but itself; the paper does not say by "
            "which theirs do."
        )
    if any(model.pairs == "none" for model in models):
        lines.append(
            "Models without next sentences, left-to-right ones too, are "
            "pre-trained on single segments: the embedding of segment B is "
            "untrained when SQuAD and tasks of two sentences first use "
            "it. A part of what they lose there may be that."
        )
    if by_features:
        layers = jobs.feature_layers(base)
        if layers != "concat_last_four":
            lines.append(
                f"NER by features reads `{layers}`, the last layer alone, as "
                f"the base model has {base.num_hidden_layers} layers; the "
                "paper's reads the last four."
            )
        if base.hidden_size != 768:
            lines.append(
                f"The BiLSTM of NER by features has {base.hidden_size} units "
                "in each direction, the model's width; the paper's has 768."
            )
    return ["Besides the scale, not as in the paper:", ""] + [
        f"- {text}" for text in lines
    ]

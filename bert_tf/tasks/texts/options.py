"""Flags of the loss of labels, of thresholds and best model -> LabelOptions."""

import dataclasses

from tfrecords.options import Options, option, to_number
from tfrecords.tasks.data_files import LongTextOptions
from tfrecords.tasks.glue_tables import GlueData


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelOptions(Options):
    """Settings of the loss of labels, of thresholds and of the best model."""

    class_weights: tuple[str, ...] | None = option(
        None,
        "balanced: each class has the same weight in the loss, rows / (classes "
        "x rows of the class); or weights, such as spam:5,other:1. Of several "
        "labels: the weight of the rows that have the label; balanced: rows "
        "without it / rows with it. Default: 1.",
    )
    label_smoothing: float = option(
        0.0,
        "Share of the target probability that is divided equally among all "
        "classes (Szegedy et al. 2015, section 7); of several labels, between "
        "yes and no.",
        at_least=0.0,
        at_most=0.99,
    )
    threshold: str = option(
        "one",
        "Of several labels: probability from which a label is an answer. one: "
        "that of the best micro F1 on dev, for all labels; each: those of the "
        "best F1 of each label; or a number. It is kept in the model.",
    )
    calibrate: bool = option(
        False,
        "Of classes: divide the logits by the temperature of the least "
        "cross-entropy on dev (Guo et al. 2017), in the weights of the best "
        "model, so that probabilities are nearer to shares of right answers.",
    )
    best_metric: str | None = option(
        None,
        "Metric on dev that decides which model is kept in best/: one of those "
        "in eval_results.json. Default: accuracy, spearman of scores, ndcg@10 "
        "of rankings, micro_f1 of several labels; for GLUE, that of the paper.",
    )

    def __post_init__(self):
        super().__post_init__()
        if self.threshold not in ("one", "each"):
            self.fixed_threshold()

    def fixed_threshold(self) -> float | None:
        """Returns the threshold if it is given as a number.

        Raises:
          ValueError: if it is no number in (0, 1), "one" or "each".
        """
        if self.threshold in ("one", "each"):
            return None
        value = to_number(self.threshold)
        if not 1e-38 < value < 1.0:  # Not 0 as float32, either.
            raise ValueError(
                f"--threshold={self.threshold} should be one, each, or a "
                "probability above 0 and below 1."
            )
        return value

    def decisive(self) -> dict:
        """Returns the settings that decide the weights, or the best model.

        Only those that are not the default, which earlier runs had.
        """
        fields = dataclasses.fields(LabelOptions)
        found = {field.name: getattr(self, field.name) for field in fields}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in found.items()
            if value != getattr(LabelOptions, name)
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledData(GlueData, LabelOptions, LongTextOptions):
    """Tables of texts and labels, and how to read and learn them."""

    folds: int | None = option(
        None,
        "Cross-validation: a run for each of this many folds of the rows of "
        "train, which are its dev, in place of --dev_share. Folds have equal "
        "shares of each class, and whole groups of --group_column. trials.json "
        "has mean and deviation, predictions/out_of_fold.jsonl all rows.",
        at_least=2,
        at_most=1000,
    )
    fold: int | None = option(
        None,
        "With --folds: only the run of this fold, from 0.",
        at_least=0,
        needs="folds",
    )

    def __post_init__(self):
        super().__post_init__()
        if self.fold is not None and self.fold >= self.folds:
            raise ValueError(
                f"--fold={self.fold} should be below --folds={self.folds}: "
                "folds are counted from 0."
            )
        if self.folds and self.dev_share != GlueData.dev_share:
            raise ValueError(
                f"--dev_share={self.dev_share}: --folds makes dev; omit it."
            )


def read_weights(
    words: tuple[str, ...], labels: tuple[str, ...]
) -> dict[str, float]:
    """Returns label -> weight, of `LabelOptions.class_weights`.

    Raises:
      ValueError: if a word is not label:weight, or names no label.
    """
    found = {}
    for word in words:
        label, colon, number = word.rpartition(":")
        weight = to_number(number)
        if not colon or not 0.0 <= weight < 1e9:
            raise ValueError(
                f"--class_weights={','.join(words)}: {word!r} should be a "
                "label and its weight, such as spam:5; or give balanced."
            )
        if label not in labels:
            raise ValueError(
                f"--class_weights={','.join(words)}: {label!r} is none of the "
                f"labels, {', '.join(labels)}."
            )
        if label in found:
            raise ValueError(
                f"--class_weights={','.join(words)} has {label!r} twice. Give "
                "each label one weight."
            )
        found[label] = weight
    if len(found) == len(labels) and not any(found.values()):
        raise ValueError(
            f"--class_weights={','.join(words)}: all are 0, so that nothing "
            "would be learned. Give a label a weight above 0."
        )
    return found

"""Flags of vectors, rankings and few examples -> their dataclasses."""

import dataclasses

from bert_tf.contrib.search.records.ranking_tables import RankingData
from bert_tf.contrib.search.records.search_files import SearchOptions
from bert_tf.contrib.search.records.text_tables import SimilarityData
from bert_tf.tasks.texts.options import LabelOptions
from bert_tf.workflows.configs import TrialsConfig
from tfrecords.options import Options, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorTraining(Options):
    """How tokens become a vector, and how similarities become a loss."""

    pooling: str | None = option(
        None,
        "How the vectors of tokens become one. Default: that of a folder of "
        "sentence-transformers, otherwise mean.",
        choices=("mean", "cls", "max"),
    )
    normalize: bool | None = option(
        None,
        "Whether vectors are divided by their lengths. Default: as in a folder "
        "of sentence-transformers, otherwise true.",
    )
    query_prompt: str | None = option(
        None,
        "Text put before each first text, and before queries; it is kept in "
        "the model. Default: the model's prompt query, or its default one.",
    )
    corpus_prompt: str | None = option(
        None,
        "The same of the other texts, and of documents. Default: the model's "
        "prompt document, passage or corpus, or its default one.",
    )
    similarity_scale: float = option(
        20.0,
        "Cosines are multiplied by it before the softmax over the texts of a "
        "batch: the inverse of its temperature.",
        above=0.0,
        at_most=100.0,
    )

    def decisive(self) -> dict:
        """Returns the settings that decide the weights."""
        fields = dataclasses.fields(VectorTraining)
        return {field.name: getattr(self, field.name) for field in fields}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingData(SimilarityData, SearchOptions, VectorTraining):
    """Tables of similar texts, what to evaluate, and how vectors learn."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledRankings(RankingData, LabelOptions):
    """Tables of passages and grades, and how to learn the grades."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FewShotConfig(TrialsConfig):
    """Settings of a run on few rows of each class."""

    min_save_steps = 50  # Fewer hardly change the vectors of a sentence model.

    def __post_init__(self):
        super().__post_init__()
        if not self.do_train:
            return
        if self.search == ("paper",):
            raise ValueError(
                "--search=paper has up to 4 epochs, and run_few_shot "
                "needs tens. Omit the flag."
            )
        if self.train_batch_size == 1:
            raise ValueError(
                "--train_batch_size=1: run_few_shot learns from pairs of the "
                "rows of a batch, of which there are none. Choose a larger "
                "batch."
            )
        parts = self.gradient_accumulation_steps
        for name, value, reason in (
            (
                "gradient_accumulation_steps",
                parts if parts > 1 else None,
                "each part of a batch would only have its own pairs",
            ),
            ("teacher", self.teacher, "a teacher trains the head by gradients"),
        ):
            if value:
                raise ValueError(
                    f"--{name}={value} with run_few_shot: {reason}. Omit the "
                    "flag."
                )

"""Flags of vectors and their loss -> EmbeddingData."""

import dataclasses

from bert_tf.contrib.search.records.search_files import SearchOptions
from bert_tf.contrib.search.records.text_tables import SimilarityData
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
    learn_scale: bool = option(
        False,
        "Whether the factor is learned, from --similarity_scale, up to 100.",
    )

    def decisive(self) -> dict:
        """Returns the settings that decide the weights."""
        fields = dataclasses.fields(VectorTraining)
        return {field.name: getattr(self, field.name) for field in fields}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingData(SimilarityData, SearchOptions, VectorTraining):
    """Tables of similar texts, what to evaluate, and how vectors learn."""

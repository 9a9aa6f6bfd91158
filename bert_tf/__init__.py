"""Batches -> a served model: BERT in Keras 3, its training and its export."""

from bert_tf.config import BertConfig
from bert_tf.model.encoder import BertEncoder, EncoderOutputs
from bert_tf.model.heads import (
    ClassificationHead,
    MaskedLMHead,
    NextSentenceHead,
    SpanHead,
    TaggingHead,
)
from bert_tf.model.models import (
    BertClassifier,
    BertMultipleChoice,
    BertPretrainer,
    BertRegressor,
    BertSpanPredictor,
    BertTagger,
)

__all__ = [
    "BertClassifier",
    "BertConfig",
    "BertEncoder",
    "BertMultipleChoice",
    "BertPretrainer",
    "BertRegressor",
    "BertSpanPredictor",
    "BertTagger",
    "ClassificationHead",
    "EncoderOutputs",
    "MaskedLMHead",
    "NextSentenceHead",
    "SpanHead",
    "TaggingHead",
]

"""Batches -> a served model: BERT in Keras 3, its training and its export."""

from bert_tf.config import BertConfig
from bert_tf.encoder import BertEncoder, EncoderOutputs
from bert_tf.heads import ClassificationHead, MaskedLMHead, NextSentenceHead
from bert_tf.models import BertClassifier, BertPretrainer, BertRegressor

__all__ = [
    "BertClassifier",
    "BertConfig",
    "BertEncoder",
    "BertPretrainer",
    "BertRegressor",
    "ClassificationHead",
    "EncoderOutputs",
    "MaskedLMHead",
    "NextSentenceHead",
]

"""Batches -> a served model: BERT in Keras 3, its training and its export."""

from bert_tf.config import BertConfig

__all__ = ["BertConfig"]

"""Sizes and settings of models with a BiLSTM -> frozen dataclasses."""

import dataclasses

from bert_tf.config import BertConfig
from bert_tf.workflows.configs import FineTuningConfig
from tfrecords.io import json_files
from tfrecords.options import REQUIRED, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class BiLSTMConfig(BertConfig):
    """Sizes of a BERT, and of a BiLSTM between encoder and head.

    Attributes:
      bilstm_units: units of each direction.

    Raises:
      ValueError: as in BertConfig, or if `bilstm_units` is out of its range.
    """

    bilstm_units: int

    def __post_init__(self):
        super().__post_init__()
        name = "bilstm_units"
        kind = range(1, 2**16)
        json_files.check(getattr(self, name), kind, "BERT config", name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BiLSTMFineTuningConfig(FineTuningConfig):
    """Settings of a fine-tuned model with a BiLSTM."""

    bilstm_units: int = option(
        REQUIRED,
        "Units per direction of the newly initialized BiLSTM between encoder "
        "and head. The paper has 768.",
        at_least=1,
    )

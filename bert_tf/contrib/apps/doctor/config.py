"""Flags of the doctor -> DoctorConfig; the script needs it for `--help`."""

import dataclasses

from bert_tf.training.config import OptimizerOptions
from bert_tf.workflows.configs import ModelSource
from tfrecords.options import REQUIRED, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class DoctorConfig(OptimizerOptions, ModelSource):
    """Records to diagnose, and settings of the planned run."""

    records: str = option(
        REQUIRED,
        "Records to diagnose: a folder written by a make_*_records script, or "
        "TFRecord files of the original, as comma-separated globs.",
        reads=True,
    )
    all: bool = option(False, "Read all records and shards, not a sample.")
    output_dir: str | None = option(
        None,
        "Output folder of the planned run; nothing is written to it.",
        on_disk=True,
    )
    max_seq_length: int | None = option(
        None,
        "Value of the planned run, to compare with the records. Default: not "
        "compared.",
        at_least=1,
    )
    max_predictions_per_seq: int | None = option(
        None,
        "Value of the planned run, to compare with the records. Default: not "
        "compared.",
        at_least=1,
    )
    num_train_steps: int | None = option(
        None,
        "Optimizer steps of the planned run, to print its epochs.",
        at_least=1,
    )
    num_replicas: int = option(
        1,
        "Devices of the planned run, such as the cores of a TPU: with several, "
        "the memory is that of one of them, with its share of the batch, and "
        "is not compared with that of this machine.",
        at_least=1,
    )

"""Settings of taggers of features -> a frozen dataclass, without TensorFlow."""

import dataclasses

from bert_tf.workflows.configs import FineTuningConfig
from tfrecords.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeaturesConfig(FineTuningConfig):
    """Settings of a BiLSTM on a frozen encoder."""

    feature_layers: tuple[str, ...] = option(
        ("all",),
        "Train a two-layer BiLSTM on hidden states of the frozen encoder, once "
        "for each choice of layers given here, each in its own folder: "
        "embeddings, second_to_last, last, weighted_sum_last_four, "
        "concat_last_four, weighted_sum_all; or all of them.",
    )
    features_dir: str | None = option(
        None,
        "Folder for the extracted features, which runs may share. Default: "
        "features in --output_dir.",
        writes="folder",
    )
    lstm_units: int = option(
        768, "Units per direction of each LSTM layer.", at_least=1
    )

"""CoNLL files, hidden states of words -> NerFeatures: model, tags, metadata.

Devlin et al. 2018, section 5.3 and table 7.
"""

import numpy as np

from bert_tf.tasks.ner import Ner
from experiments.feature_based import feature_tagger, word_features
from tfrecords.tasks import ner_files


class NerFeatures(Ner):
    """Tagging of words by hidden states of a frozen encoder.

    Args:
      data: files and options.
      choice: choice of layers, a key of `feature_tagger.CHOICES`.
      lstm_units: units of the LSTM in each direction.
      labels: as for `Ner`.
      scheme: scheme of the training file; None for that of the labels.
    """

    schema = word_features.BATCH

    def __init__(
        self, data, choice: str, lstm_units: int, labels=None, scheme=None
    ):
        super().__init__(data, labels)
        self.scheme = scheme or self.scheme
        self.choice = choice
        self.lstm_units = lstm_units

    def build_model(self, config, dtype=None):
        """Returns a FeatureTagger; it is float32 under every dtype policy."""
        return feature_tagger.FeatureTagger(
            config,
            num_classes=len(self.labels),
            choice=self.choice,
            lstm_units=self.lstm_units,
        )

    def open_splits(self, splits):
        """Reads the positions of words in padded sentences, and their tags."""
        self.tags = {}
        for split, sentences in splits.items():
            if split != "train":
                mask = sentences.mask
                tag_ids = np.zeros(mask.shape, np.int32)
                tag_ids[mask > 0] = ner_files.tag_ids(
                    self.read(split).sentences, self.labels
                )
                self.tags[split] = mask, tag_ids

    def metadata(self, scores=None):
        """Returns task, tags, layers and LSTM units, for model.json."""
        entries = super().metadata() | {
            "task": "feature_tagging",
            "feature_layers": self.choice,
            "lstm_units": self.lstm_units,
        }
        del entries["doc_stride"]  # Sentences are not cut to windows.
        return entries

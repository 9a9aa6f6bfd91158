"""Batch -> named logits: the encoder with its heads, one model a task.

Letters: B batch, S sequence, P predictions, V vocabulary, C classes.
"""

import keras

from bert_tf import encoder, heads


@keras.saving.register_keras_serializable("bert_tf")
class BertPretrainer(encoder.ConfiguredModel):
    """Masked LM and next sentence (Devlin et al. 2018, section 3.1).

    Args:
      config: BertConfig.

    Call arguments:
      batch: dict of the encoder's inputs, [B, S] int32, and
        `masked_lm_positions`, [B, P] int32.
      training: whether to drop values.
      place: [3] int64, see `dropout.place`.

    Returns:
      `masked_lm_logits` [B, P, V] and `next_sentence_logits` [B, 2], float32.
    """

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        config, policy = self.config, self.dtype_policy
        self.encoder = encoder.BertEncoder(config, name="encoder", dtype=policy)
        self.masked_lm = heads.MaskedLMHead(
            config, name="masked_lm", dtype=policy
        )
        self.next_sentence = heads.NextSentenceHead(
            config, name="next_sentence", dtype=policy
        )
        self.build()

    def build(self, batch_shape=None):
        size = self.config.hidden_size
        self.masked_lm.build((None, None, size))
        self.next_sentence.build((None, size))

    def call(self, batch, training=None, place=None):
        outputs = self.encoder(batch, training=training, place=place)
        return {
            "masked_lm_logits": self.masked_lm(
                outputs.sequence_output,
                batch["masked_lm_positions"],
                self.encoder.embeddings.word_embeddings.value,
            ),
            "next_sentence_logits": self.next_sentence(outputs.pooled_output),
        }


@keras.saving.register_keras_serializable("bert_tf")
class BertClassifier(encoder.ConfiguredModel):
    """One of C classes for a text or a pair (section 4.1 of the paper).

    Args:
      config: BertConfig.
      num_classes: C, at least 2.

    Call arguments:
      batch: dict of the encoder's inputs, [B, S] int32.
      training: whether to drop values.
      place: [3] int64, see `dropout.place`.

    Returns:
      `logits` [B, C] float32.

    Raises:
      ValueError: if `num_classes` is below 2.
    """

    def __init__(self, config, num_classes: int, **kwargs):
        super().__init__(config, **kwargs)
        if num_classes < 2:
            raise ValueError(
                f"num_classes={num_classes}; a classifier needs 2 or more. "
                "For a score use BertRegressor."
            )
        policy = self.dtype_policy
        self.num_classes = num_classes
        self.encoder = encoder.BertEncoder(
            self.config, name="encoder", dtype=policy
        )
        self.classification = heads.ClassificationHead(
            self.config, num_classes, name="classification", dtype=policy
        )
        self.build()

    def build(self, batch_shape=None):
        self.classification.build((None, self.config.hidden_size))

    def call(self, batch, training=None, place=None):
        pooled = self.encoder(
            batch, training=training, place=place
        ).pooled_output
        logits = self.classification(pooled, training=training, place=place)
        return {"logits": logits}

    def get_config(self):
        """Returns what `from_config` takes."""
        return super().get_config() | {"num_classes": self.num_classes}


@keras.saving.register_keras_serializable("bert_tf")
class BertRegressor(encoder.ConfiguredModel):
    """A score for a text or a pair, as STS-B asks (appendix B.1).

    Args:
      config: BertConfig.

    Call arguments:
      batch: dict of the encoder's inputs, [B, S] int32.
      training: whether to drop values.
      place: [3] int64, see `dropout.place`.

    Returns:
      `predictions` [B] float32.
    """

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        policy = self.dtype_policy
        self.encoder = encoder.BertEncoder(
            self.config, name="encoder", dtype=policy
        )
        self.regression = heads.ClassificationHead(
            self.config, 1, name="regression", dtype=policy
        )
        self.build()

    def build(self, batch_shape=None):
        self.regression.build((None, self.config.hidden_size))

    def call(self, batch, training=None, place=None):
        pooled = self.encoder(
            batch, training=training, place=place
        ).pooled_output
        scores = self.regression(pooled, training=training, place=place)
        return {"predictions": scores[:, 0]}  # [B]

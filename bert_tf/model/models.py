"""Batch -> dict of logits: the encoder with heads, one model per task.

Shapes: B batch, S sequence, H hidden, P predictions, V vocabulary, C classes.
"""

import keras
import tensorflow as tf

from bert_tf.model import encoder, heads


@keras.saving.register_keras_serializable("bert_tf")
class BertPretrainer(encoder.ConfiguredModel):
    """Masked LM and next-sentence prediction (Devlin et al. 2018, section 3.1).

    With a causal config it is the left-to-right language model of section 5.1:
    it only predicts the next token, at every position except the last.

    Args:
      config: BertConfig.

    Call arguments:
      batch: dict of the encoder's inputs, [B, S] int32, and, unless causal,
        `masked_lm_positions`, [B, P] int32. Rows may be packed, with up to E
        examples in each, see BertEncoder. With `masked_lm_candidates`, [C]
        int32, only these entries have masked-LM logits, [B, P, C].
      training: whether to apply dropout.
      dropout_key: [3] int64, see `dropout.make_key`.
      encoder_outputs: EncoderOutputs of the batch, if the caller has them.

    Returns:
      Dict of `masked_lm_logits` [B, P, V] and `next_sentence_logits` [B, 2],
      or [B, E, 2] for packed rows, float32. With a causal config:
      `next_token_logits` [B, S - 1, V].

    Example:
      >>> config = bert_tf.BertConfig.from_name("tiny-uncased")
      >>> model = bert_tf.BertPretrainer(config)
      >>> preprocess = bert_tf.TextPreprocessor("bert/vocab.txt")
      >>> batch = preprocess(["The cat sat."], ["It purred."])
      >>> batch["masked_lm_positions"] = np.array([[2, 3]], "int32")
      >>> model(batch)["masked_lm_logits"].shape  # [B, P, V]
      TensorShape([1, 2, 30522])
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
        self.masked_lm.build((None, None, config.hidden_size))
        self.next_sentence.build((None, config.hidden_size))
        self.build()

    def input_shapes(self):
        """Returns name -> shape of the inputs; see the base class."""
        positions = {"masked_lm_positions": (None, None)}  # [B, P]
        is_causal = self.config.is_causal
        return super().input_shapes() | ({} if is_causal else positions)

    def call(
        self, batch, training=None, dropout_key=None, encoder_outputs=None
    ):
        outputs = encoder_outputs or self.encoder(
            batch, training=training, dropout_key=dropout_key
        )
        table = self.encoder.embeddings.word_embeddings.value
        if self.config.is_causal:
            hidden = outputs.sequence_output[:, :-1]
            logits = self.masked_lm(hidden, None, table, training=training)
            return {"next_token_logits": logits}
        candidates = batch.get("masked_lm_candidates")
        if candidates is not None:
            embeddings = self.encoder.embeddings
            table = embeddings.rows(embeddings.word_embeddings, candidates)
        return {
            "masked_lm_logits": self.masked_lm(
                outputs.sequence_output,
                batch["masked_lm_positions"],
                table,
                training=training,
                candidates=candidates,
            ),
            "next_sentence_logits": self.next_sentence(outputs.pooled_output),
        }


# Keras's losses, as functions -> their classes, which can take logits.
_LOSSES_OF_LOGITS = {
    keras.losses.binary_crossentropy: keras.losses.BinaryCrossentropy,
    keras.losses.binary_focal_crossentropy: (
        keras.losses.BinaryFocalCrossentropy
    ),
    keras.losses.categorical_crossentropy: keras.losses.CategoricalCrossentropy,
    keras.losses.categorical_focal_crossentropy: (
        keras.losses.CategoricalFocalCrossentropy
    ),
    keras.losses.sparse_categorical_crossentropy: (
        keras.losses.SparseCategoricalCrossentropy
    ),
}
# Losses that take only probabilities.
_LOSSES_OF_PROBABILITIES = (
    keras.losses.categorical_generalized_cross_entropy,
    keras.losses.dice,
    keras.losses.kl_divergence,
    keras.losses.tversky,
)


def _make_logits_loss(loss):
    """Returns a loss for `compile`, by name or as given, that takes logits."""
    is_configured = isinstance(loss, keras.Loss)
    found = loss if is_configured else keras.losses.get(loss)
    function = getattr(found, "fn", found)  # Keras's classes have it.
    if function in _LOSSES_OF_PROBABILITIES:
        raise ValueError(
            f"loss={function.__name__} takes probabilities, but the model "
            "returns logits. Pass a loss of logits, or no loss."
        )
    if is_configured and loss.get_config().get("from_logits") is False:
        raise ValueError(
            f"loss={type(loss).__name__} has from_logits=False, but the "
            "model returns logits. Pass from_logits=True, or no loss."
        )
    if function in _LOSSES_OF_LOGITS and not is_configured:
        return _LOSSES_OF_LOGITS[function](from_logits=True)
    return loss


class _FineTunedModel(encoder.ConfiguredModel):
    """Base class of BERT with one head, which the subclasses add.

    If the config has `classifier_pooling`, a head of texts reads the pooled
    hidden states.

    Args:
      config: BertConfig.

    Attributes:
      default_loss: Keras's name of the loss if `compile` gets none.

    Call arguments:
      batch: dict of the encoder's inputs, [B, S] int32 unless noted otherwise.
      training: whether to apply dropout.
      dropout_key: [3] int64, see `dropout.make_key`.
      encoder_outputs: EncoderOutputs of the batch, if the caller has them;
        not for BertMultipleChoice.
    """

    default_loss = "sparse_categorical_crossentropy"

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        config, policy = self.config, self.dtype_policy
        self.encoder = encoder.BertEncoder(config, name="encoder", dtype=policy)

    def add_head(self, layer, name: str, *sizes: int, width: int = 0):
        """Adds the head, a layer of `heads`, and builds it for [..., width]."""
        self.head = layer(
            self.config, *sizes, name=name, dtype=self.dtype_policy
        )
        self.head.build((None, width or self.config.hidden_size))
        self.build()

    def head_inputs(self, batch, encoder_outputs=None, **kwargs):
        """Returns the head's inputs: tokens [B, S, H], text [B, H]."""
        outputs = encoder_outputs or self.encoder(batch, **kwargs)
        hidden, mask = outputs.sequence_output, batch["input_mask"]
        if mode := self.config.classifier_pooling:
            from bert_tf.model.sentence_embedding import SentenceEmbedding

            return hidden, SentenceEmbedding((mode,))(hidden, mask)
        return hidden, outputs.pooled_output

    def score_text(
        self, batch, training=None, dropout_key=None, encoder_outputs=None
    ):
        """Returns the head's logits for the text, [B, C]."""
        if training and dropout_key is None:
            dropout_key = self.encoder.draw_key(batch)
        kwargs = {"training": training, "dropout_key": dropout_key}
        _, pooled = self.head_inputs(batch, encoder_outputs, **kwargs)
        return self.head(pooled, **kwargs)

    def compile(self, optimizer="rmsprop", loss=None, **kwargs):
        """Like `keras.Model.compile`, for losses of logits.

        Args:
          optimizer: as in Keras.
          loss: None for the loss of the paper: cross-entropy with integer
            labels, or for BertRegressor the mean squared error. Names, such as
            "sparse_categorical_crossentropy", are here for the losses of
            logits, which these models return.
          **kwargs: as in Keras, such as `metrics=["accuracy"]`.

        Raises:
          ValueError: if `loss` is one of Keras's losses of probabilities.
        """
        if loss is None:
            loss = self.default_loss
        # One loss, or a dict or list of losses for the outputs.
        loss = keras.tree.map_structure(_make_logits_loss, loss)
        super().compile(optimizer, loss, **kwargs)

    def compile_from_config(self, config):
        """Compiles a loaded model; Keras does so only for its own `compile`."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        # Adam's slots have to exist before saved values are loaded.
        self.optimizer.build(self.trainable_variables)


class _ModelOfClasses(_FineTunedModel):
    """Base class of models that predict classes.

    Args:
      config: BertConfig.
      num_classes: number of classes (C).

    Raises:
      ValueError: if `num_classes` is below 2.
    """

    def __init__(self, config, num_classes: int, **kwargs):
        super().__init__(config, **kwargs)
        if num_classes < 2:
            raise ValueError(
                f"num_classes={num_classes}; {type(self).__name__} needs 2 or "
                "more. For regression use BertRegressor."
            )
        self.num_classes = num_classes

    def get_config(self):
        """Returns the dict for `from_config`."""
        return super().get_config() | {"num_classes": self.num_classes}

    def call(
        self, batch, training=None, dropout_key=None, encoder_outputs=None
    ):
        logits = self.score_text(batch, training, dropout_key, encoder_outputs)
        return {"logits": logits}


@keras.saving.register_keras_serializable("bert_tf")
class BertClassifier(_ModelOfClasses):
    """Classifies a text or a text pair (section 4.1 of the paper).

    Args:
      config: BertConfig, or a dict from `BertConfig.to_dict`.
      num_classes: number of classes (C), 2 or more.
      **kwargs: `name` and `dtype`, as for every Keras layer.

    Call arguments:
      batch: dict of the inputs of BertEncoder, [B, S] int32.
      training: whether to apply dropout.

    Returns:
      Dict of `logits` [B, C] float32.

    Example:
      >>> config = bert_tf.BertConfig.from_name("tiny-uncased")
      >>> model = bert_tf.BertClassifier(config, num_classes=2)
      >>> model.compile("adamw", metrics=["accuracy"])
      >>> preprocess = bert_tf.TextPreprocessor("bert/vocab.txt")
      >>> texts, labels = preprocess(["a fine film", "dull"]), np.array([1, 0])
      >>> history = model.fit(texts, labels, verbose=0)
    """

    def __init__(self, config, num_classes: int, **kwargs):
        super().__init__(config, num_classes, **kwargs)
        self.add_head(heads.ClassificationHead, "classification", num_classes)


@keras.saving.register_keras_serializable("bert_tf")
class BertMultiLabelClassifier(_ModelOfClasses):
    """Decides for each of several labels whether a text or pair has it.

    The head is that of `BertClassifier`; the probability of a label is the
    sigmoid of its logit.

    Args:
      config: BertConfig, or a dict from `BertConfig.to_dict`.
      num_classes: number of labels (C), 2 or more.
      **kwargs: `name` and `dtype`, as for every Keras layer.

    Call arguments:
      batch: dict of the inputs of BertEncoder, [B, S] int32.
      training: whether to apply dropout.

    Returns:
      Dict of `logits` [B, C] float32.

    Example:
      >>> config = bert_tf.BertConfig.from_name("tiny-uncased")
      >>> model = bert_tf.BertMultiLabelClassifier(config, num_classes=3)
      >>> model.compile("adamw")
      >>> preprocess = bert_tf.TextPreprocessor("bert/vocab.txt")
      >>> texts = preprocess(["a fine film", "dull"])
      >>> labels = np.array([[1, 0, 1], [0, 0, 0]], "float32")
      >>> history = model.fit(texts, labels, verbose=0)
    """

    default_loss = "binary_crossentropy"

    def __init__(self, config, num_classes: int, **kwargs):
        super().__init__(config, num_classes, **kwargs)
        self.add_head(heads.ClassificationHead, "multi_label", num_classes)


@keras.saving.register_keras_serializable("bert_tf")
class BertRegressor(_FineTunedModel):
    """Predicts a score of a text or a text pair, as in STS-B (appendix B.1).

    Args:
      config: BertConfig, or a dict from `BertConfig.to_dict`.
      **kwargs: `name` and `dtype`, as for every Keras layer.

    Call arguments:
      batch: dict of the inputs of BertEncoder, [B, S] int32.
      training: whether to apply dropout.

    Returns:
      Dict of `predictions` [B] float32.

    Example:
      >>> config = bert_tf.BertConfig.from_name("tiny-uncased")
      >>> model = bert_tf.BertRegressor(config)
      >>> preprocess = bert_tf.TextPreprocessor("bert/vocab.txt")
      >>> outputs = model(preprocess(["It rained."], ["It was wet."]))
      >>> outputs["predictions"].shape
      TensorShape([1])
    """

    default_loss = "mean_squared_error"

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.add_head(heads.ClassificationHead, "regression", 1)

    def call(
        self, batch, training=None, dropout_key=None, encoder_outputs=None
    ):
        scores = self.score_text(batch, training, dropout_key, encoder_outputs)
        return {"predictions": scores[:, 0]}  # [B]


@keras.saving.register_keras_serializable("bert_tf")
class BertSpanPredictor(_FineTunedModel):
    """Predicts the answer span in a text (section 4.2 of the paper).

    Args:
      config: BertConfig, or a dict from `BertConfig.to_dict`.
      **kwargs: `name` and `dtype`, as for every Keras layer.

    Call arguments:
      batch: dict of the inputs of BertEncoder, [B, S] int32.
      training: whether to apply dropout.

    Returns:
      Dict of `start_logits` and `end_logits`, [B, S] float32.

    Example:
      >>> config = bert_tf.BertConfig.from_name("tiny-uncased")
      >>> model = bert_tf.BertSpanPredictor(config)
      >>> preprocess = bert_tf.TextPreprocessor("bert/vocab.txt")
      >>> outputs = model(preprocess(["Who sat?"], ["The cat sat."]))
      >>> start = np.argmax(outputs["start_logits"], axis=-1)  # [B]
    """

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.add_head(heads.SpanHead, "spans")

    def compile(self, optimizer="rmsprop", loss=None, metrics=None, **kwargs):
        """Like the other models'; names of metrics are for both outputs."""
        is_list = isinstance(metrics, (list, tuple))
        if is_list and all(isinstance(metric, str) for metric in metrics):
            outputs = ("start_logits", "end_logits")
            metrics = {name: list(metrics) for name in outputs}
        super().compile(optimizer, loss, metrics=metrics, **kwargs)

    def call(
        self, batch, training=None, dropout_key=None, encoder_outputs=None
    ):
        kwargs = {"training": training, "dropout_key": dropout_key}
        hidden, _ = self.head_inputs(batch, encoder_outputs, **kwargs)
        start, end = tf.unstack(self.head(hidden), axis=-1)  # [B, S] each
        return {"start_logits": start, "end_logits": end}


@keras.saving.register_keras_serializable("bert_tf")
class BertTagger(_ModelOfClasses):
    """Classifies each token (section 5.3 of the paper).

    Args:
      config: BertConfig, or a dict from `BertConfig.to_dict`.
      num_classes: number of classes (C), 2 or more.
      **kwargs: `name` and `dtype`, as for every Keras layer.

    Call arguments:
      batch: dict of the inputs of BertEncoder, [B, S] int32.
      training: whether to apply dropout.

    Returns:
      Dict of `logits` [B, S, C] float32.

    Example:
      >>> config = bert_tf.BertConfig.from_name("tiny-uncased")
      >>> model = bert_tf.BertTagger(config, num_classes=9)
      >>> preprocess = bert_tf.TextPreprocessor(
      ...     "bert/vocab.txt", max_seq_length=16
      ... )
      >>> model(preprocess(["The cat sat."]))["logits"].shape
      TensorShape([1, 16, 9])
    """

    def __init__(self, config, num_classes: int, **kwargs):
        super().__init__(config, num_classes, **kwargs)
        self.add_head(heads.TaggingHead, "tagging", num_classes)

    def call(
        self, batch, training=None, dropout_key=None, encoder_outputs=None
    ):
        if training and dropout_key is None:
            dropout_key = self.encoder.draw_key(batch)
        kwargs = {"training": training, "dropout_key": dropout_key}
        hidden, _ = self.head_inputs(batch, encoder_outputs, **kwargs)
        logits = self.head(hidden, **kwargs)
        return {"logits": logits}


@keras.saving.register_keras_serializable("bert_tf")
class BertMultipleChoice(_FineTunedModel):
    """Scores N continuations of a text (section 4.4 of the paper).

    Args:
      config: BertConfig, or a dict from `BertConfig.to_dict`.
      **kwargs: `name` and `dtype`, as for every Keras layer.

    Call arguments:
      batch: dict of the inputs of BertEncoder, [B, N, S] int32.
      training: whether to apply dropout.

    Returns:
      Dict of `logits` [B, N] float32.

    Example:
      >>> config = bert_tf.BertConfig.from_name("tiny-uncased")
      >>> model = bert_tf.BertMultipleChoice(config)
      >>> preprocess = bert_tf.TextPreprocessor("bert/vocab.txt")
      >>> rows = preprocess(["It rained."] * 2, ["It was wet.", "It was dry."])
      >>> model({name: x[None] for name, x in rows.items()})["logits"].shape
      TensorShape([1, 2])
    """

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.add_head(heads.ClassificationHead, "multiple_choice", 1)

    def input_shapes(self):
        """Returns name -> shape of the inputs; see the base class."""
        return dict.fromkeys(super().input_shapes(), (None,) * 3)  # [B, N, S]

    def call(self, batch, training=None, dropout_key=None):
        rows, dropout_key, choices = encoder.flatten(batch, dropout_key)
        scores = self.score_text(
            rows, training=training, dropout_key=dropout_key
        )
        return {"logits": tf.reshape(scores, [-1, choices])}


# Name of a task, as in model.json -> its model.
TASK_MODELS = {
    "pretraining": BertPretrainer,
    "classification": BertClassifier,
    "multi_label": BertMultiLabelClassifier,
    "regression": BertRegressor,
    "spans": BertSpanPredictor,
    "tagging": BertTagger,
    "multiple_choice": BertMultipleChoice,
}


def for_task(
    task: str, config, num_labels: int = 0, dtype: str | None = None
) -> keras.Model:
    """Returns a new model of a task.

    Args:
      task: a key of `TASK_MODELS`.
      config: BertConfig.
      num_labels: number of classes of a classifier or tagger.
      dtype: Keras dtype policy; None for Keras's global policy.

    Raises:
      ValueError: if there is no such task.
    """
    if task not in TASK_MODELS:
        raise ValueError(
            f"task {task!r} is not one of {', '.join(TASK_MODELS)}."
        )
    if issubclass(TASK_MODELS[task], _ModelOfClasses):
        return TASK_MODELS[task](config, num_labels, dtype=dtype)
    return TASK_MODELS[task](config, dtype=dtype)

"""Encoder outputs -> logits: one layer per head.

The last product of a head is float32 under every dtype policy: logits rounded
to the 8 significant bits of bfloat16 would often be equal. The one exception is
MaskedLMHead in training, see there.

Shapes: B batch, S sequence, H hidden, P predictions, V vocabulary, C classes,
E examples per packed row.
"""

import keras
import tensorflow as tf

from bert_tf.model import dropout, layers

# Above every dropout_id of an encoder, the highest of which is 3 L.
DROPOUT_ID = 4000


class MaskedLMHead(keras.layers.Layer):
    """Masked-LM head; in a left-to-right model it predicts the next token.

    run_pretraining.py: get_masked_lm_output. The output weights are the word
    embeddings, passed to the call so that the weight tying is visible there.
    In training the product with them follows the dtype policy, since a loss
    needs no distinct logits, and V makes it the largest product of a model.

    Args:
      config: reads `hidden_size` (H), `vocab_size` (V), `hidden_act` and
        `initializer_range`.

    Call arguments:
      sequence_output: [B, S, H] float.
      masked_lm_positions: [B, P] int32, indices into S; None for every
        position (then P is S).
      word_embeddings: [V, H] float; [C, H] those of the candidates.
      training: whether the logits are only for a loss.
      candidates: [C] int32, entries of V to predict; None for all.

    Returns:
      [B, P, V] float32, or [B, P, C].

    Example:
      >>> config = bert_tf.BertConfig.from_name("tiny", vocab_size=100)
      >>> head = bert_tf.MaskedLMHead(config)
      >>> hidden = np.zeros([8, 16, 128], "float32")
      >>> positions = np.zeros([8, 3], "int32")
      >>> head(hidden, positions, np.zeros([100, 128], "float32")).shape
      TensorShape([8, 3, 100])
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.transform = layers.dense(
            config.hidden_size,
            config,
            activation=layers.ACTIVATIONS[config.hidden_act],
            name="transform",
            dtype=self.dtype_policy,
        )
        self.norm = layers.LayerNorm(name="norm")

    def build(
        self,
        sequence_output_shape,
        masked_lm_positions_shape=None,
        word_embeddings_shape=None,
    ):
        self.transform.build(sequence_output_shape)
        self.norm.build(sequence_output_shape)
        self.bias = self.add_weight(
            name="bias",
            shape=(self.config.vocab_size,),
            initializer="zeros",
            dtype="float32",
            autocast=False,
        )

    def call(
        self,
        sequence_output,
        masked_lm_positions,
        word_embeddings,
        training=None,
        candidates=None,
    ):
        masked = sequence_output
        if masked_lm_positions is not None:
            masked = tf.gather(masked, masked_lm_positions, batch_dims=1)
        shape = tf.shape(masked)[:2]
        masked = self.norm(self.transform(masked))  # [B, P, H]
        # One matrix, since einsum's gradient takes twice as long as matmul's.
        rows = tf.reshape(masked, [-1, self.config.hidden_size])  # [B P, H]
        dtype = self.compute_dtype if training else tf.float32
        bias = self.bias.value
        if candidates is not None:
            bias = tf.gather(tf.identity(bias), candidates)  # [C]
        logits = tf.matmul(
            tf.cast(rows, dtype),
            tf.cast(word_embeddings, dtype),
            transpose_b=True,
        )
        logits = tf.nn.bias_add(tf.cast(logits, tf.float32), bias)
        return tf.reshape(logits, [shape[0], shape[1], logits.shape[1]])


class _TwoScores(keras.layers.Layer):
    """Two logits for each vector: [..., H] float -> [..., 2] float32.

    Args:
      config: reads `initializer_range`.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.dense(2, config, name="dense", dtype="float32")

    def build(self, hidden_shape):
        self.dense.build(hidden_shape)

    def call(self, hidden):
        return self.dense(hidden)


class NextSentenceHead(_TwoScores):
    """Classifies segment B as following A (class 0) or random (class 1).

    run_pretraining.py: get_next_sentence_output.

    Args:
      config: reads `initializer_range`.

    Call arguments:
      pooled_output: [B, H] float, or [B, E, H] for packed rows.

    Returns:
      [B, 2] float32, or [B, E, 2].

    Example:
      >>> config = bert_tf.BertConfig.from_name("tiny")
      >>> head = bert_tf.NextSentenceHead(config)
      >>> head(np.zeros([8, 128], "float32")).shape
      TensorShape([8, 2])
    """


class SpanHead(_TwoScores):
    """Start and end logits of an answer span, for each token.

    run_squad.py: create_model, which has no dropout either.

    Args:
      config: reads `initializer_range`.

    Call arguments:
      sequence_output: [B, S, H] float.

    Returns:
      [B, S, 2] float32, start and end.

    Example:
      >>> config = bert_tf.BertConfig.from_name("tiny")
      >>> head = bert_tf.SpanHead(config)
      >>> head(np.zeros([8, 16, 128], "float32")).shape
      TensorShape([8, 16, 2])
    """


class ClassificationHead(keras.layers.Layer):
    """Class logits from the pooled output, after dropout.

    run_classifier.py: create_model. With C = 1 it is a regression head.

    Args:
      config: reads `hidden_dropout_prob` and `initializer_range`.
      num_classes: number of classes (C).

    Call arguments:
      pooled_output: [B, H] float.
      training: whether to apply dropout.
      dropout_key: [3] int64, see `dropout.make_key`.

    Returns:
      [B, C] float32.

    Example:
      >>> config = bert_tf.BertConfig.from_name("tiny")
      >>> head = bert_tf.ClassificationHead(config, num_classes=3)
      >>> head(np.zeros([8, 128], "float32")).shape
      TensorShape([8, 3])
    """

    def __init__(self, config, num_classes: int, **kwargs):
        super().__init__(**kwargs)
        self.dropout = dropout.Dropout(
            config.hidden_dropout_prob, DROPOUT_ID, dtype=self.dtype_policy
        )
        self.dense = layers.dense(
            num_classes, config, name="dense", dtype="float32"
        )

    def build(self, pooled_output_shape):
        self.dense.build(pooled_output_shape)

    def call(self, pooled_output, training=None, dropout_key=None):
        pooled_output = self.dropout(
            pooled_output, training=training, dropout_key=dropout_key
        )
        return self.dense(pooled_output)


class TaggingHead(ClassificationHead):
    """Class logits for each token (paper, section 5.3), after dropout.

    The same layer as ClassificationHead, for each token.

    Args:
      config: reads `hidden_dropout_prob` and `initializer_range`.
      num_classes: number of classes (C).

    Call arguments:
      sequence_output: [B, S, H] float.
      training: whether to apply dropout.
      dropout_key: [3] int64, see `dropout.make_key`.

    Returns:
      [B, S, C] float32.

    Example:
      >>> config = bert_tf.BertConfig.from_name("tiny")
      >>> head = bert_tf.TaggingHead(config, num_classes=9)
      >>> head(np.zeros([8, 16, 128], "float32")).shape
      TensorShape([8, 16, 9])
    """

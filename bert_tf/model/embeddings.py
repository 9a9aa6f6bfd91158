"""Token ids -> hidden states: the normalized sum of three embeddings.

Shapes: B batch, S sequence, H hidden, V vocabulary, T segment types.
"""

import keras
import tensorflow as tf

from bert_tf.model import dropout, layers


class Embeddings(keras.layers.Layer):
    """Sum of token, position and segment embeddings, LayerNorm, dropout.

    Section 3 of the paper, "Input/Output Representations".

    Args:
      config: reads `vocab_size` (V), `hidden_size` (H),
        `max_position_embeddings`, `type_vocab_size` (T; 0 for no embedding of
        segments), `initializer_range` and `hidden_dropout_prob`.

    Attributes:
      use_one_hot: whether tables are multiplied with one-hot vectors instead of
        gathered from, as in modeling.py: embedding_lookup. TPUs may be faster
        at it, other devices are much slower. The result is the same, unless
        the device rounds products of float32, as TPUs and some GPUs do.

    Call arguments:
      input_word_ids: [B, S] int32.
      input_type_ids: [B, S] int32; ignored if T is 0.
      position_ids: [B, S] int32, position of each token in its example;
        None for 0, 1, 2, ... in each row.
      word_vectors: [B, S, H] float, used in place of the word embeddings of
        `input_word_ids`; None for these.
      training: whether to apply dropout.
      dropout_key: [3] int64, see `dropout.make_key`.

    Returns:
      [B, S, H] float.

    Raises:
      ValueError: if there are no `position_ids` and S exceeds
        `max_position_embeddings`.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.use_one_hot = False
        self.norm = layers.LayerNorm(name="norm")
        self.dropout = dropout.Dropout(
            config.hidden_dropout_prob, dropout_id=0, dtype=self.dtype_policy
        )

    def build(
        self,
        input_word_ids_shape=None,
        input_type_ids_shape=None,
        position_ids_shape=None,
        word_vectors_shape=None,
    ):
        config = self.config
        for name, entries in (
            ("word_embeddings", config.vocab_size),
            ("position_embeddings", config.max_position_embeddings),
            ("type_embeddings", config.type_vocab_size),
        ):
            if not entries:
                continue
            # Autocast would cast the complete table, of which a batch uses few
            # rows.
            table = self.add_weight(
                name=name,
                shape=(entries, config.hidden_size),
                initializer=layers.initializer(config),
                dtype=self.table_dtype(),
                autocast=False,
            )
            setattr(self, name, table)
        self.norm.build((None, None, config.hidden_size))

    def table_dtype(self):
        if isinstance(self.dtype_policy, layers.StoredInBfloat16):
            return self.variable_dtype
        return self.sum_dtype()

    def sum_dtype(self):  # Rows are added in float32, under every policy.
        return keras.backend.result_type(self.variable_dtype, "float32")

    def call(
        self,
        input_word_ids,
        input_type_ids,
        position_ids=None,
        word_vectors=None,
        training=None,
        dropout_key=None,
    ):
        words = word_vectors
        if words is None:
            words = self.rows(self.word_embeddings, input_word_ids)
        if self.config.type_vocab_size:
            words = words + self.rows(self.type_embeddings, input_type_ids)
        if position_ids is None:
            positions = self.first_positions(input_word_ids)  # [S, H]
        else:
            positions = self.rows(self.position_embeddings, position_ids)
        hidden = self.norm(words + positions)  # [B, S, H]
        hidden = tf.cast(hidden, self.compute_dtype)
        return self.dropout(hidden, training=training, dropout_key=dropout_key)

    def first_positions(self, input_word_ids):  # [B, S] -> [S, H]
        length = input_word_ids.shape[1]
        if (length or 0) > self.config.max_position_embeddings:
            raise ValueError(
                f"Sequences have {length} tokens; this model accepts at most "
                f"max_position_embeddings={self.config.max_position_embeddings}"
                ". Lower max_seq_length."
            )
        rows = self.position_embeddings[: tf.shape(input_word_ids)[1]]
        return tf.cast(rows, self.sum_dtype())

    def rows(self, table, ids):  # [N, H], [...] -> [..., H]
        # tf.gather of a variable, instead of its value, would make TensorFlow
        # copy the variable whenever it is read or assigned, for the rest of the
        # process. The gradient of tf.reshape is dense: of slices Adam in Keras
        # (3.15) sums the squares of a token's gradients, not the gradients.
        table = tf.reshape(table.value, table.shape)
        if self.use_one_hot:
            rows = tf.matmul(
                tf.one_hot(ids, table.shape[0], dtype=table.dtype), table
            )
        else:
            rows = tf.gather(table, ids)
        return tf.cast(rows, self.sum_dtype())

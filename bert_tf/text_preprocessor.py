"""Strings -> encoder inputs: the tokenizer as a Keras layer.

Shapes: B batch, S max_seq_length.
"""

import operator
import os
import reprlib
from collections.abc import Sequence

import keras
import tensorflow as tf

from tfrecords.text import segments

_LEAST_LENGTH = 3  # As in `segments.pack`, which checks that of pairs.


@keras.saving.register_keras_serializable("bert_tf")
class TextPreprocessor(keras.layers.Layer):
    """Converts texts or text pairs to the inputs of BertEncoder.

    The same operations make the records for training and run in exported
    models, so the results are equal. It runs in eager code, in a functional
    model and in `tf.data`, always on the CPU; models that contain it are not
    compiled by XLA. It has no weights. Its config holds the vocabulary, so a
    `.keras` file needs no other file.

    Args:
      vocabulary: path of a vocab.txt, one entry per line, as released with
        BERT; or the entries in the order of their ids.
      do_lower_case: whether to lower-case and to strip accents; True for
        uncased vocabularies.
      max_seq_length: S. Longer texts are truncated, the longer text of a pair
        first; shorter ones are padded.
      strip_accents: whether to strip accents; None: as `do_lower_case`.
      tokenize_chinese_chars: whether each Chinese character is a word.
      split_special_tokens: whether "[SEP]" and other special tokens in a text
        are split as any text; otherwise they are these tokens.
      **kwargs: `name`, as for every Keras layer.

    Call arguments:
      text_a: [B] string, UTF-8; invalid bytes are dropped.
      text_b: [B] string, the second text of each pair, "" for a single text;
        None if all are single.

    Returns:
      Dict of `input_word_ids`, `input_mask` and `input_type_ids`, each [B, S]
      int32.

    Raises:
      ValueError: if the vocabulary is missing or malformed, if S leaves no room
        for a token of each text, or if an input is not a vector of strings.

    Example:
      >>> preprocess = bert_tf.TextPreprocessor(
      ...     "bert/vocab.txt", max_seq_length=16
      ... )
      >>> inputs = preprocess(["a fine film"], ["It was dull."])  # A pair.
      >>> inputs["input_word_ids"].shape
      TensorShape([1, 16])
    """

    def __init__(
        self,
        vocabulary: str | Sequence[str],
        do_lower_case: bool = True,
        max_seq_length: int = 128,
        *,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
        split_special_tokens: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        # Loads tensorflow_text, which `import bert_tf` alone does not need.
        from tfrecords.text import tokenizer

        _check_vocabulary(vocabulary)
        self.max_seq_length = _check_length(max_seq_length)
        self.tokenizer = tokenizer.BertTokenizer(
            vocabulary,
            do_lower_case,
            strip_accents=strip_accents,
            tokenize_chinese_chars=tokenize_chinese_chars,
            split_special_tokens=split_special_tokens,
        )
        # XLA has no strings.
        self.supports_jit = False
        # As in Keras's own layers of texts: accept lists of strings.
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True
        self.built = True

    def call(self, text_a, text_b=None):
        """Returns the encoder inputs; see the class."""
        texts = [_strings(text_a, "text_a")]
        if text_b is not None:
            texts.append(_strings(text_b, "text_b"))
            texts[1] = _same_number(*texts)
        with tf.device("CPU"):
            tokens = self.tokenizer.tokenize_each(*texts)
            inputs = segments.pack(
                tokens[0],
                None if text_b is None else tokens[1],
                self.max_seq_length,
                self.tokenizer.cls_id,
                self.tokenizer.sep_id,
            )
        # A static B stays static, as XLA needs it after `tf.data`.
        shape = [texts[0].shape[0], self.max_seq_length]
        return {name: tf.ensure_shape(x, shape) for name, x in inputs.items()}

    def get_config(self):
        """Returns the dict for `from_config`, with the whole vocabulary."""
        return super().get_config() | {
            "vocabulary": list(self.tokenizer.vocab),
            **self.tokenizer.rules,
            "max_seq_length": self.max_seq_length,
        }


def _check_vocabulary(vocabulary) -> None:
    if isinstance(vocabulary, (str, os.PathLike)):
        return
    if not isinstance(vocabulary, Sequence) or not all(
        isinstance(entry, str) for entry in vocabulary
    ):
        raise ValueError(
            f"vocabulary={reprlib.repr(vocabulary)}; expected the path of a "
            "vocab.txt, or a list of its entries, each a str."
        )


def _check_length(max_seq_length) -> int:
    try:
        length = operator.index(max_seq_length)
    except TypeError:
        length = 0
    if length < _LEAST_LENGTH:
        raise ValueError(
            f"max_seq_length={max_seq_length!r}; expected an integer of "
            f"{_LEAST_LENGTH} or more, for [CLS], a token and [SEP]."
        )
    return length


def _strings(text, name: str) -> tf.Tensor:
    """Returns a vector of strings, [B]."""
    if isinstance(text, (tf.RaggedTensor, tf.SparseTensor)):
        raise ValueError(
            f"{name} is a {type(text).__name__}; TextPreprocessor expects a "
            "vector of strings [B], one for each row."
        )
    text = tf.convert_to_tensor(text)
    if text.dtype != tf.string:
        raise ValueError(
            f"{name} has dtype {text.dtype.name}; TextPreprocessor expects "
            'strings. Declare an input as keras.Input((), dtype="string").'
        )
    if text.shape.rank != 1:
        raise ValueError(
            f"{name} has shape {text.shape}; TextPreprocessor expects a vector "
            'of strings [B]: keras.Input((), dtype="string"), or in tf.data '
            "map after batch."
        )
    return text


def _same_number(text_a: tf.Tensor, text_b: tf.Tensor) -> tf.Tensor:
    """Returns `text_b`; fails if `text_a` has another number of texts."""
    message = "text_a and text_b must have the same number of texts."
    check = tf.debugging.assert_equal(
        tf.shape(text_a)[0], tf.shape(text_b)[0], message
    )
    with tf.control_dependencies([check] if check is not None else []):
        return tf.identity(text_b)

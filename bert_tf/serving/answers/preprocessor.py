"""Tokenizer -> the preprocessor of a text encoder, a SavedModel of its own.

    preprocessor = tf.saved_model.load("served/preprocessor/1")
    encoder = tf.saved_model.load("served/encoder/1")
    outputs = encoder(preprocessor(["a text", "another"]))

Source: "Common SavedModel APIs for text tasks" of TensorFlow Hub, text
embeddings with Transformer encoders.

Shapes: B batch, S max_seq_length, t tokens, which vary by row.
"""

import functools

import tensorflow as tf

from bert_tf import text_preprocessor
from bert_tf.serving import batches
from bert_tf.serving.answers.kind import TEXT, Kind
from tfrecords.text import segments, tokenizer

_TOKENS = tf.RaggedTensorSpec([None, None], tf.int32)  # [B, (t)]


class Tokenize(tf.Module):
    """Strings [B] -> token ids, ragged [B, (t)] int32, not yet packed."""

    def __init__(self, words: tokenizer.BertTokenizer):
        super().__init__()
        self.words = words

    @tf.function(input_signature=[batches.STRINGS], autograph=False)
    def __call__(self, text):
        """Returns the ids of each text; see the class."""
        return self.words(text)

    @tf.function(input_signature=[], autograph=False)
    def get_special_tokens_dict(self):
        """Returns the ids of special tokens, and vocab_size, scalar int32.

        The page of TensorFlow Hub does not name it; its models have it.
        """
        words = self.words
        return {
            "vocab_size": tf.constant(words.vocab_size),
            "start_of_sequence_id": tf.constant(words.cls_id),
            "end_of_segment_id": tf.constant(words.sep_id),
            "padding_id": tf.constant(words.pad_id),
            "mask_id": tf.constant(words.mask_id),
        }


class Pack(tf.Module):
    """One or two segments of tokens -> encoder inputs, as `segments.pack`.

    Args:
      words: the tokenizer.
      max_seq_length: the default of `seq_length`.

    Call arguments:
      inputs: list of one or two ragged tensors [B, (t)] int32, the segments.
      seq_length: S of the outputs, scalar int32.
    """

    def __init__(self, words: tokenizer.BertTokenizer, max_seq_length: int):
        super().__init__()
        self.words = words
        self.max_seq_length = max_seq_length
        # A SavedModel contains only functions that were traced.
        for count in (1, 2):
            tokens = [_TOKENS] * count
            self.__call__.get_concrete_function(tokens)
            self.__call__.get_concrete_function(
                tokens, seq_length=tf.TensorSpec([], tf.int32)
            )

    @tf.function(autograph=False)
    def __call__(self, inputs, seq_length=None):
        """Returns `schema.ENCODER_INPUTS`, [B, S]; `inputs` are segments."""
        return segments.pack(
            inputs[0],
            inputs[1] if len(inputs) == 2 else None,
            self.max_seq_length if seq_length is None else seq_length,
            self.words.cls_id,
            self.words.sep_id,
        )


class Preprocessor(Kind):
    """The inputs of the encoder, from text; a SavedModel without weights.

    Its signature `text`, of `text_a` and `text_b` [B] string, "" for single
    texts, returns `schema.ENCODER_INPUTS`, each [B, S] int32.
    """

    name = "preprocessor"
    weights = None
    inputs = {TEXT: {"text_a": 1, "text_b": 1}}
    has_answers = False

    def make_signatures(self):
        """Returns `text`, and the other parts of the SavedModel.

        These are the callable of TensorFlow Hub, which takes `text` [B] string,
        and its `tokenize` and `bert_pack_inputs`; and `num_tokens`, see
        `batches.count_tokens`.
        """
        words, length = self.tokenizer, self.max_seq_length
        layer = text_preprocessor.TextPreprocessor(
            words.vocab, max_seq_length=length, **words.rules
        )
        count = functools.partial(batches.count_tokens, layer.tokenizer)
        return {TEXT: self.signature(layer)}, {
            "__call__": batches.of_texts(layer),
            "num_tokens": self.signature(count),
            "tokenize": Tokenize(layer.tokenizer),
            "bert_pack_inputs": Pack(layer.tokenizer, length),
        }

"""Texts or words -> windows of words; logits -> the tag of each word.

Shapes: N texts, W maximum words per text, T words in total, C tags, M windows,
S max_seq_length.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from bert_tf.serving.answers import text_signatures
from tfrecords.text import raw_words, word_windows

# Words -> (tags string, their probabilities float32), each [N, (words)].
TagWords = Callable[[tf.RaggedTensor], tuple[tf.RaggedTensor, tf.RaggedTensor]]


def make_tag(
    model,
    tokenizer,
    labels: Sequence[str],
    max_seq_length: int,
    doc_stride: int | None,
) -> TagWords:
    """Returns the function from words to best tags and their probabilities.

    Words are [N, (words)] string. Rows of any length are split into windows, as
    in `make_ner_records`.

    Args:
      model: batch -> `logits` [M, S, C].
      tokenizer: a BertTokenizer.
      labels: C tags in the order of their ids.
      max_seq_length: S.
      doc_stride: as for `word_windows.make`.
    """

    def tag(words):
        windows = word_windows.make(
            words, tokenizer, max_seq_length, doc_stride
        )
        outputs = text_signatures.in_parts(
            model, windows.inputs, {"logits": [max_seq_length, len(labels)]}
        )
        logits = tf.gather_nd(outputs["logits"], windows.positions)  # [T, C]
        best = tf.argmax(logits, axis=-1)
        probabilities = tf.reduce_max(tf.nn.softmax(logits), axis=-1)
        return (
            words.with_flat_values(tf.gather(tf.constant(labels), best)),
            words.with_flat_values(probabilities),
        )

    return tag


def tag_texts(tag: TagWords) -> text_signatures.Function:
    """Returns a signature of `text` [N] string; its outputs are [N, W].

    `words`, `tags` string; `starts`, `ends` int32, in characters of the text,
    end exclusive; `probabilities` float32 of the tags. Rows with fewer than W
    words are padded with "", -1 and 0.
    """

    def answer(text):
        split = raw_words.split(text)
        tags, probabilities = tag(split.words)
        return {
            "words": split.words.to_tensor(""),
            "tags": tags.to_tensor(""),
            "probabilities": probabilities.to_tensor(0.0),
            "starts": tf.cast(split.starts, tf.int32).to_tensor(-1),
            "ends": tf.cast(split.ends, tf.int32).to_tensor(-1),
        }

    return text_signatures.of_texts(answer)


def tag_words(tag: TagWords) -> text_signatures.Function:
    """Returns a signature of `words` [N, W] string, padded with "".

    Its outputs are [N, W]: `tags` string and `probabilities` float32, "" and 0
    at padding.
    """

    @tf.function(
        input_signature=[tf.TensorSpec([None, None], tf.string)],
        autograph=False,
    )
    def of_words(words):
        indices = tf.where(words != "")  # [T, 2]
        shape = tf.shape(words, tf.int64)
        rows = tf.RaggedTensor.from_value_rowids(
            tf.gather_nd(words, indices), indices[:, 0], nrows=shape[0]
        )
        tags, probabilities = tag(rows)
        return {
            "tags": tf.tensor_scatter_nd_update(
                tf.fill(shape, ""), indices, tags.flat_values
            ),
            "probabilities": tf.scatter_nd(
                indices, probabilities.flat_values, shape
            ),
        }

    return of_words

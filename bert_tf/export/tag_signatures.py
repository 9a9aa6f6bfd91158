"""Texts, or words -> windows of words, logits -> the tag of each word.

Letters: N texts, W the most words of one, T words in all, C tags, M windows, S
max_seq_length. All of it runs in the graph, as in text_signatures.py.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from bert_tf.export import text_signatures
from tfrecords.text import raw_words, word_windows

# Ragged rows -> (tags, their probabilities), both as ragged.
TagWords = Callable[[tf.RaggedTensor], tuple[tf.RaggedTensor, tf.RaggedTensor]]


def make_tag(
    model,
    tokenizer,
    labels: Sequence[str],
    max_seq_length: int,
    doc_stride: int | None,
) -> TagWords:
    """Returns words [N, (words)] string -> the best tag of each, and how sure.

    Rows of any length are read in windows, as `make_ner_records` makes them.

    Args:
      model: batch -> `logits` [M, S, C].
      tokenizer: a BertTokenizer.
      labels: C tags, in the order of classes.
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
        logits = tf.gather_nd(outputs["logits"], windows.places)  # [T, C]
        best = tf.argmax(logits, axis=-1)
        probabilities = tf.reduce_max(tf.nn.softmax(logits), axis=-1)
        return (
            words.with_flat_values(tf.gather(tf.constant(labels), best)),
            words.with_flat_values(probabilities),
        )

    return tag


def tag_texts(tag: TagWords) -> text_signatures.Function:
    """Returns a function of `text` [N]; its outputs are [N, W].

    `words`, `tags` string; `starts`, `ends` int32, in characters of the text,
    end exclusive; `probabilities` float32 of the tags. A text with fewer than W
    words has "", -1 and 0 at its end.
    """

    def answer(text):
        found = raw_words.split(text)
        tags, probabilities = tag(found.words)
        starts, ends = (
            tf.cast(rows, tf.int32).to_tensor(-1)
            for rows in (found.starts, found.ends)
        )
        return {
            "words": found.words.to_tensor(""),
            "tags": tags.to_tensor(""),
            "probabilities": probabilities.to_tensor(0.0),
            "starts": starts,
            "ends": ends,
        }

    return text_signatures.of_texts(answer)


def tag_words(tag: TagWords) -> text_signatures.Function:
    """Returns a function of `words` [N, W], "" where a row has fewer than W.

    Its outputs are [N, W]: `tags` string, "" where there is no word, and
    `probabilities` float32, 0 there.
    """

    @tf.function(
        input_signature=[tf.TensorSpec([None, None], tf.string)],
        autograph=False,
    )
    def of_words(words):
        places = tf.where(words != "")  # [T, 2]
        rows = tf.RaggedTensor.from_value_rowids(
            tf.gather_nd(words, places),
            places[:, 0],
            nrows=tf.shape(words, tf.int64)[0],
        )
        tags, probabilities = tag(rows)
        shape = tf.shape(words, tf.int64)
        return {
            "tags": tf.tensor_scatter_nd_update(
                tf.fill(shape, ""), places, tags.flat_values
            ),
            "probabilities": tf.scatter_nd(
                places, probabilities.flat_values, shape
            ),
        }

    return of_words

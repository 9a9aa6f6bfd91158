"""Texts or text pairs -> batches, and outputs of a few rows at a time.

Shapes: N texts, S max_seq_length, s length of the longest row in a batch.
Everything runs in the graph and is saved with the model.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import tensorflow as tf

from tfrecords.text import segments

# Maximum rows in one call of the model.
ROWS_AT_ONCE = 32
STRINGS = tf.TensorSpec([None], tf.string)
# Signatures for TensorFlow Serving's Classify and Regress APIs.
CLASSIFY = "classify"
REGRESS = "regress"
# Of a batch of windows: the text of each, [M] int64, see `segments.shorten`.
TEXT_OF_WINDOW = "text_of_window"

Tensors = Mapping[str, tf.Tensor]
Function = tf.types.experimental.PolymorphicFunction


def of_texts(function: Callable[[tf.Tensor], Tensors]) -> Function:
    """Returns a signature with the input `text` [N] string."""

    @tf.function(input_signature=[STRINGS], autograph=False)
    def of_text(text):
        return function(text)

    return of_text


def of_first_texts(function: Callable[[tf.Tensor], Tensors]) -> Function:
    """Returns a signature with the input `text_a` [N] string."""

    @tf.function(input_signature=[STRINGS], autograph=False)
    def of_first(text_a):
        return function(text_a)

    return of_first


def check_rows(
    strings: tf.Tensor, others: tf.Tensor, message: str
) -> tf.Tensor:
    """Returns `strings`; fails if `others` has another number of rows.

    The error has `message`, because what uses the strings waits for the check.
    """
    check = tf.debugging.assert_equal(
        tf.shape(strings)[0], tf.shape(others)[0], message
    )
    with tf.control_dependencies([check]):
        return tf.identity(strings)


def _default_text_b(text_b: tf.Tensor, text_a: tf.Tensor) -> tf.Tensor:
    """Returns `text_b`; if it is empty, "" for each string of `text_a`."""
    is_missing = tf.cast(tf.equal(tf.size(text_b), 0), tf.int32)
    text_b = tf.concat([text_b, tf.fill([is_missing * tf.size(text_a)], "")], 0)
    message = "text_b must have as many strings as text_a, or none."
    text_b = check_rows(text_b, text_a, message)
    return tf.ensure_shape(text_b, text_a.shape)


def of_pairs(function: Callable[..., Tensors]) -> Function:
    """Returns a signature with the inputs `text_a` and `text_b`.

    Both are [N] string; `text_b` may also be [0].
    """
    # A default that is a tensor is saved with the signature, so that clients
    # may omit text_b.
    nothing = tf.constant([], tf.string)

    @tf.function(input_signature=[STRINGS, STRINGS], autograph=False)
    def of_pair(text_a, text_b=nothing):
        return function(text_a, _default_text_b(text_b, text_a))

    return of_pair


def classes_of(
    answer: Callable[..., Tensors], labels: Sequence[str], names: Iterable[str]
) -> Function:
    """Returns a signature of examples: `classes` and `scores`, [N, C].

    Args:
      answer: texts -> `probabilities` [N, C], among others.
      labels: [C] names.
      names: of the texts.
    """

    def classes(*texts):
        scores = answer(*texts)["probabilities"]
        names = tf.broadcast_to(tf.constant(labels), tf.shape(scores))
        return {"classes": names, "scores": scores}

    return of_examples(classes, names)


def of_examples(
    function: Callable[..., Tensors], names: Iterable[str]
) -> Function:
    """Returns a signature of `inputs` [N], serialized tf.train.Examples.

    TensorFlow Serving's Classify and Regress APIs create them from the features
    in a client's request: here `names`, of which `text_b` may be missing.
    """
    features = {
        name: tf.io.FixedLenFeature(
            [], tf.string, "" if name == "text_b" else None
        )
        for name in names
    }

    @tf.function(input_signature=[STRINGS], autograph=False)
    def of_example(inputs):
        parsed = tf.io.parse_example(inputs, features)
        return function(*(parsed[name] for name in features))

    return of_example


def without_padding(batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns [N, S] inputs as [N, s], without columns that are all padding."""
    used = tf.reduce_max(tf.reduce_sum(batch["input_mask"], axis=1))
    used = tf.maximum(used, 1)  # The maximum of no rows is negative.
    return {name: tensor[:, :used] for name, tensor in batch.items()}


def count_tokens(tokenizer, *texts: tf.Tensor) -> tf.Tensor:
    """Returns the number of tokens of each row before it is cut, [N] int32.

    Special tokens are counted, and of several endings the longest.

    Args:
      tokenizer: a BertTokenizer.
      *texts: the texts of a row, [N] string each; endings are [N, C].
    """
    flat = [tf.reshape(strings, [-1]) for strings in texts]
    count = 1  # [CLS]
    for strings, ids in zip(texts, tokenizer.tokenize_each(*flat), strict=True):
        lengths = tf.reshape(ids.row_lengths(), tf.shape(strings))
        lengths += tf.cast(lengths > 0, lengths.dtype)  # [SEP]
        if strings.shape.rank == 2:  # A column more, as there may be none.
            lengths = tf.reduce_max(tf.pad(lengths, [[0, 0], [0, 1]]), axis=1)
        count += lengths
    return tf.cast(count, tf.int32)


def pack(
    tokenizer, max_seq_length: int, tokens_a: tf.RaggedTensor, tokens_b=None
) -> dict[str, tf.Tensor]:
    """Packs tokens, [N, (t)] int32, into `schema.ENCODER_INPUTS`, [N, s] int32.

    Like `segments.pack` in training, but only as long as the longest row.
    """
    return without_padding(
        segments.pack(
            tokens_a,
            tokens_b,
            max_seq_length,
            tokenizer.cls_id,
            tokenizer.sep_id,
        )
    )


def pack_listed(
    tokenizer, max_seq_length: int, texts: tf.Tensor, listed: tf.Tensor
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Packs each text with each one of its list: a row for each pair.

      texts           the cat sat .   it rained .
      listed          on   ""         all  day
      rows            CLS the cat sat . SEP on SEP
                      CLS it rained . SEP all SEP
                      CLS it rained . SEP day SEP
      indices         [0, 0] [1, 0] [1, 1]

    Args:
      tokenizer: a BertTokenizer.
      max_seq_length: S.
      texts: [N] string.
      listed: [N, C] string, padded with "".

    Returns:
      `schema.ENCODER_INPUTS`, each [M, s] int32; and [M, 2] int64, row and
      column of each pair in `listed`.
    """
    indices = tf.where(listed != "")
    firsts, seconds = tokenizer.tokenize_each(
        texts, tf.gather_nd(listed, indices)
    )
    firsts = tf.gather(firsts, indices[:, 0])
    return pack(tokenizer, max_seq_length, firsts, seconds), indices


def scatter_listed(
    values: tf.Tensor, indices: tf.Tensor, listed: tf.Tensor
) -> tf.Tensor:
    """Returns [N, C] float32, the lowest float where there is no pair.

    Args:
      values: [M] float32, of the pairs of `pack_listed`.
      indices: [M, 2], of them.
      listed: [N, C] string.
    """
    lowest = tf.fill(tf.shape(listed), tf.float32.min)
    return tf.tensor_scatter_nd_update(lowest, indices, values)


def pack_pairs(
    tokenizer,
    max_seq_length: int,
    text_a: tf.Tensor,
    text_b=None,
    *,
    long_text: str = "cut",
) -> dict[str, tf.Tensor]:
    """Returns a batch of texts or pairs, as in GLUE records but padded to s.

    A row for each window, with TEXT_OF_WINDOW, if there are any.

      text_a          the cat                        a
      text_b          sat                            ""
      input_word_ids  CLS the cat SEP sat SEP        CLS a SEP 0 0 0

    Args:
      tokenizer: a BertTokenizer.
      max_seq_length: S.
      text_a: [N] string.
      text_b: [N] string, "" for single texts; None if all are single.
      long_text: see `data_files.LongTextOptions`.

    Returns:
      `schema.ENCODER_INPUTS`, each [N, s] int32.
    """
    texts = [text_a] if text_b is None else [text_a, text_b]
    tokens = tokenizer.tokenize_each(*texts)
    more = {}
    if long_text != "cut":
        tokens, rows = segments.shorten(tokens, max_seq_length, long_text)
        if long_text.startswith("windows"):
            more = {TEXT_OF_WINDOW: rows}
    return pack(tokenizer, max_seq_length, *tokens) | more


def in_parts(
    network: Callable[[Tensors], Tensors],
    inputs: Mapping[str, tf.Tensor],
    shapes: Mapping[str, Sequence[int]],
    most_rows: int = ROWS_AT_ONCE,
) -> dict[str, tf.Tensor]:
    """Returns the outputs of a network that is called on a few rows at a time.

    This limits the memory for a long text, which has many windows. Each part is
    only as long as its longest row.

    Args:
      network: batch -> outputs.
      inputs: `schema.ENCODER_INPUTS`, each [M, S], for any number M of rows.
      shapes: name of an output -> its shape without the first dimension,
        beginning with S, or 1.
      most_rows: maximum rows in a part.

    Returns:
      These outputs, [M, ...] float32, with arbitrary values at padding.
    """
    length = tf.shape(inputs["input_mask"])[1]
    num_rows = tf.shape(inputs["input_mask"])[0]
    # At least one, so that the outputs for zero rows have a shape.
    num_parts = tf.maximum(1, -(-num_rows // most_rows))

    def run(part, arrays):
        first = part * most_rows
        rows = {
            name: tensor[first : first + most_rows]
            for name, tensor in inputs.items()
        }
        outputs = network(without_padding(rows))
        for name in shapes:
            output = outputs[name]
            # A vector of the whole row needs no place for each token.
            is_whole = shapes[name][0] == 1
            rest = 0 if is_whole else length - tf.shape(output)[1]
            paddings = [[0, 0], [0, rest], [0, 0]][: output.shape.rank]
            arrays[name] = arrays[name].write(part, tf.pad(output, paddings))
        return part + 1, arrays

    arrays = {
        name: tf.TensorArray(
            tf.float32, num_parts, element_shape=[None, *shape]
        )
        for name, shape in shapes.items()
    }
    _, arrays = tf.while_loop(
        lambda part, _: part < num_parts,
        run,
        (0, arrays),
        parallel_iterations=1,
    )
    return {name: array.concat() for name, array in arrays.items()}

"""Strings -> batches, outputs -> answers, for one text or two.

Letters: N texts, S max_seq_length, s the longest row of a batch, C classes.

All of it runs in the graph and is saved with the model. The other kinds of
export have a `*_signatures.py` each.
"""

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from bert_tf.export import saved_model
from tfrecords.text import segments

# Windows that the model reads at once.
ROWS_AT_ONCE = 32
STRINGS = tf.TensorSpec([None], tf.string)

Answers = Mapping[str, tf.Tensor]
Function = tf.types.experimental.PolymorphicFunction


def make_answer(model, preprocess, answer) -> Callable[..., Answers]:
    """Returns strings -> answers.

    Args:
      model: batch -> outputs.
      preprocess: strings -> batch.
      answer: (outputs, batch) -> named tensors [N, ...].
    """

    def answer_texts(*texts):
        batch = preprocess(*texts)
        return dict(answer(model(batch, training=False), batch))

    return answer_texts


def of_texts(function: Callable[[tf.Tensor], Answers]) -> Function:
    """Returns a function of `text` [N], as clients name it."""

    @tf.function(input_signature=[STRINGS], autograph=False)
    def of_text(text):
        return function(text)

    return of_text


def _as_many(text_b: tf.Tensor, text_a: tf.Tensor) -> tf.Tensor:
    """Returns `text_b`, or as many empty strings as there are in `text_a`."""
    absent = tf.cast(tf.equal(tf.size(text_b), 0), tf.int32)
    text_b = tf.concat([text_b, tf.fill([absent * tf.size(text_a)], "")], 0)
    tf.debugging.assert_equal(
        tf.size(text_b),
        tf.size(text_a),
        "text_b should have one string for each of text_a, or none at all.",
    )
    return tf.ensure_shape(text_b, text_a.shape)


def of_pairs(function: Callable[..., Answers]) -> Function:
    """Returns a function of `text_a` [N] and `text_b`, [N] or [0]."""
    # As a tensor, the default goes into the graph and so to every client.
    nothing = tf.constant([], tf.string)

    @tf.function(input_signature=[STRINGS, STRINGS], autograph=False)
    def of_pair(text_a, text_b=nothing):
        return function(text_a, _as_many(text_b, text_a))

    return of_pair


def of_examples(function: Callable[..., Answers]) -> Function:
    """Returns a function of `inputs` [N], serialised tf.train.Examples.

    TensorFlow Serving's Classify and Regress APIs make them of what a client
    sends: here `text_a`, and `text_b` if there is one.
    """
    features = {
        "text_a": tf.io.FixedLenFeature([], tf.string),
        "text_b": tf.io.FixedLenFeature([], tf.string, ""),
    }

    @tf.function(input_signature=[STRINGS], autograph=False)
    def of_example(inputs):
        parsed = tf.io.parse_example(inputs, features)
        return function(parsed["text_a"], parsed["text_b"])

    return of_example


def without_padding(batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Cuts off columns that are padding in every row: most texts are short."""
    used = tf.reduce_max(tf.reduce_sum(batch["input_mask"], axis=1))
    used = tf.maximum(used, 1)  # The maximum of no rows is no length.
    return {name: tensor[:, :used] for name, tensor in batch.items()}


def in_parts(
    model,
    inputs: Mapping[str, tf.Tensor],
    shapes: Mapping[str, Sequence[int]],
    most_rows: int = ROWS_AT_ONCE,
) -> dict[str, tf.Tensor]:
    """Returns a model's outputs, computed for some rows after the other.

    So one long text, of which many windows are made, needs no more memory than
    a few short ones. Padding that no row of a part needs is not computed.

    Args:
      model: batch -> outputs.
      inputs: `schema.ENCODER_INPUTS`, each [M, S], with any number of rows.
      shapes: name of an output -> its shape without the first dimension; the
        first of it is S.
      most_rows: in a part.

    Returns:
      Those outputs, [M, ...] float32; at padding they mean nothing.
    """
    length = tf.shape(inputs["input_mask"])[1]
    num_rows = tf.shape(inputs["input_mask"])[0]
    # One at least: of no rows, too, the outputs have a shape.
    num_parts = tf.maximum(1, -(-num_rows // most_rows))

    def run(part, arrays):
        first = part * most_rows
        rows = {
            name: tensor[first : first + most_rows]
            for name, tensor in inputs.items()
        }
        outputs = model(without_padding(rows), training=False)
        for name in shapes:
            output = outputs[name]
            rest = length - tf.shape(output)[1]
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


class Pairs(tf.Module):
    """One text or two -> a batch, packed as `make_glue_records` does.

    Args:
      tokenizer: a BertTokenizer.
      max_seq_length: S.

    Call arguments:
      text_a: [N] string.
      text_b: [N] string, "" for none; or left out.

    Returns:
      `schema.ENCODER_INPUTS`, each [N, s] with s the longest row's, up to S.
    """

    def __init__(self, tokenizer, max_seq_length: int):
        super().__init__()
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length

    def __call__(self, text_a, text_b=None):
        """Returns the batch; see the class."""
        return without_padding(
            segments.pack(
                self.tokenizer(text_a),
                None if text_b is None else self.tokenizer(text_b),
                self.max_seq_length,
                self.tokenizer.cls_id,
                self.tokenizer.sep_id,
            )
        )


def make_classify(labels: list[str]):
    """Returns (outputs, batch) -> label [N], probabilities, logits [N, C]."""

    def classify(outputs, batch):
        best = tf.argmax(outputs["logits"], axis=-1)
        return {
            "label": tf.gather(tf.constant(labels), best),
            "probabilities": tf.nn.softmax(outputs["logits"]),
            "logits": outputs["logits"],
        }

    return classify


def classes_of(answers: Answers, labels: list[str]) -> Answers:
    """Returns what the Classify API takes: classes and scores, [N, C] each."""
    scores = answers["probabilities"]
    classes = tf.broadcast_to(tf.constant(labels), tf.shape(scores))
    return {"classes": classes, "scores": scores}


def make_score(score_range: Sequence[float] | None = None):
    """Returns (outputs, batch) -> score [N], in the range of the task."""

    def score(outputs, batch):
        found = outputs["predictions"]
        if score_range is not None:
            found = tf.clip_by_value(found, *score_range)
        return {"score": found}

    return score


def make_encode(has_pooler: bool):
    """Returns (outputs, batch) -> encoder outputs.

    With `input_mask`, to tell which are padding.
    """

    def encode(outputs, batch):
        values = saved_model.encoder_interface(outputs, has_pooler)
        return {
            "input_mask": batch["input_mask"],
            **saved_model.flatten(values),
        }

    return encode

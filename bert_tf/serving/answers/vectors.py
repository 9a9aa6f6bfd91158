"""Texts -> one vector for each.

Shapes: N texts, s length of the longest row in a batch, H hidden, K selected
layers, E size of a vector: K H, unless the model has other pooling or a dense
layer.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from bert_tf.checkpoint import contents
from bert_tf.serving import batches
from bert_tf.serving.answers.kind import TEXT, Kind
from tfrecords.options import quoted, some

# Attributes of a SavedModel that no signature of a prompt may replace.
_TAKEN = (
    *(TEXT, "serving_default", "encoder", "preprocess", "num_tokens"),
    *("tokenizer", "variables", "trainable_variables"),
    *(batches.CLASSIFY, batches.REGRESS, *dir(tf.train.Checkpoint)),
)


class SentenceEmbedding(Kind):
    """The vector of a text, of any model.

    Its signature `text` returns `embedding` [N, E] float32. A folder of
    sentence-transformers says how; other models have the mean of the vectors
    of the last layer. If the folder has prompts, `text` puts the chosen one
    before each text, and each has a signature of its own, such as `query`.

    Attributes:
      prompt: what `text`, `preprocess` and `num_tokens` put before each text.
      prompts: name -> text of all prompts.
    """

    name = "sentence_embedding"
    made_for = contents.SENTENCE_EMBEDDING
    options = ("pooling", "layers", "prompt_name")

    def set_options(self, options):
        """Sets the prompt, the layers, and the steps from them to a vector.

        Raises:
          ValueError: if there is no such prompt or layer, or a dense layer does
            not fit.
        """
        from bert_tf.model import layer_outputs, sentence_embedding

        steps = self.model.sentence_embedding
        steps = steps or sentence_embedding.SentenceEmbedding()
        if options.pooling:
            steps = dataclasses.replace(steps, pooling=(options.pooling,))
        config = self.model.config
        given = ["-1"] if options.layers is None else options.layers
        self.layers = layer_outputs.parse(given, config.num_hidden_layers)
        steps.check_width(len(self.layers) * config.hidden_size)
        self.steps = steps
        self.prompts = self.metadata.get(contents.PROMPTS) or {}
        self.prompt = choose_prompt(self.metadata, options.prompt_name)

    def encode(self, text: tf.Tensor):
        """Returns the batch of texts [N] string, with their prompts."""
        return super().encode(text)

    def network(self, batch):
        """Returns `embedding` [N, E] float32."""
        outputs = self.model.encoder(batch, training=False)
        hidden = [outputs.encoder_outputs[i] for i in self.layers]
        hidden = tf.concat(hidden, axis=-1)  # [N, s, K H]
        return {"embedding": self.steps(hidden, batch["input_mask"])}

    def decode(self, numbers, batch):
        """Returns the same numbers."""
        return numbers

    def signature(self, function):
        """Returns a function of texts, which puts the prompt before each."""
        return _prompted(function, self.prompt)

    def more_signatures(self, answer):
        """Returns a signature for each prompt."""
        names = _signature_names(self.prompts)
        return {names[n]: _prompted(answer, x) for n, x in self.prompts.items()}

    def make_signatures(self):
        """Returns those of `Kind`, and `num_tokens_query` for a `query`."""
        signatures, parts = super().make_signatures()
        count = functools.partial(batches.count_tokens, self.tokenizer)
        for name, signature in _signature_names(self.prompts).items():
            function = _prompted(count, self.prompts[name])
            parts[num_tokens_name(signature)] = function
        return signatures, parts

    def settings(self):
        """Returns the steps from hidden states to a vector, and the prompt."""
        found = {self.name: self.steps.settings()}
        return found | ({"prompt": self.prompt} if self.prompts else {})

    @classmethod
    def typed(cls, fields, outputs, labels):
        """Returns the vector, [E] float32."""
        return outputs["embedding"][0]

    def join(self, answers, signatures):
        """Returns the vectors, [N, E] float32."""
        if answers:
            return np.stack(answers)
        nothing = tf.constant([], tf.string)
        return signatures[TEXT](nothing)["embedding"].numpy()  # [0, E]


def choose_prompt(metadata: Mapping, name: str | None = None) -> str:
    """Returns the prompt of each text.

    Args:
      metadata: content of model.json.
      name: name of a prompt; "" for none; None for the default one, if any.

    Raises:
      ValueError: if there is no such prompt.
    """
    prompts = metadata.get(contents.PROMPTS) or {}
    if name is None:
        return prompts.get(metadata.get("default_prompt_name"), "")
    if name and name not in prompts:
        raise _unknown_prompt(name, prompts)
    return prompts[name] if name else ""


def find_signature(metadata: Mapping, name: str) -> tuple[str, str]:
    """Returns the signature of an export with a prompt, and that prompt.

    Args:
      metadata: its assets.extra/model.json.
      name: name of a prompt; "" for none.

    Raises:
      ValueError: if it has none with this prompt.
    """
    prompts = metadata.get(contents.PROMPTS) or {}
    chosen = metadata.get("prompt") or ""
    names = _signature_names(prompts)
    if name:
        if name not in names:
            raise _unknown_prompt(name, prompts)
        return names[name], prompts[name]
    if not chosen:
        return TEXT, ""
    for other, prompt in prompts.items():
        if not prompt:
            return names[other], ""
    raise ValueError(
        "prompt_name is empty: each signature of this export puts a prompt "
        f"before each text, `text` {quoted(chosen)}. Export the model again "
        f"with an empty one, or give one of {some(list(prompts))}."
    )


def num_tokens_name(signature: str) -> str:
    """Returns the attribute of a SavedModel that counts tokens."""
    return "num_tokens" if signature == TEXT else f"num_tokens_{signature}"


def _unknown_prompt(name: str, prompts: Mapping[str, str]) -> ValueError:
    known = some([quoted(x) for x in prompts])
    has = f"the prompts {known}" if prompts else "no prompts"
    return ValueError(
        f"prompt_name={name}: the model has {has}. Give one that it has, or "
        "omit it; an empty name stands for no prompt."
    )


def _signature_names(prompts: Mapping[str, str]) -> dict[str, str]:
    """Returns name of a prompt -> name of its signature, a name of Python."""
    names: dict[str, str] = {}
    for prompt in prompts:
        name = re.sub(r"\W", "_", prompt, flags=re.ASCII)
        if not name[:1].isalpha() or name in _TAKEN:
            name = f"prompt_{name}"
        while name in names.values():
            name += "_"
        names[prompt] = name
    return names


def _prompted(function: Callable, prompt: str) -> batches.Function:
    """Returns a signature of texts, before which it puts a prompt."""
    if not prompt:
        return batches.of_texts(function)
    return batches.of_texts(
        lambda text: function(tf.strings.join([prompt, text]))
    )

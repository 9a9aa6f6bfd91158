"""Prompts in a model.json -> the prompts of queries and of documents."""

from collections.abc import Mapping

from tfrecords.options import quoted

# "query" or "corpus" -> names of its prompt, as of encode_query and
# encode_document of sentence-transformers.
NAMES = {"query": ("query",), "corpus": ("document", "passage", "corpus")}


def choose(metadata: Mapping, of: str) -> str:
    """Returns the prompt of a text, "" if it has none.

    That is the one of the name, or the default one of the model.

    Args:
      metadata: content of the model's model.json.
      of: key of `NAMES`; "" for texts of no kind, which have the default one.
    """
    prompts = metadata.get("prompts") or {}
    # A prompt without text, which is there, is not the default one.
    found = [prompts[name] for name in NAMES.get(of, ()) if name in prompts]
    if found:
        return max(found, key=bool)
    return prompts.get(metadata.get("default_prompt_name"), "")


def check_length(
    prompt: str, flag: str, tokenizer, max_seq_length: int
) -> None:
    """Raises ValueError if a prompt leaves no token for texts.

    Args:
      prompt: text put before texts.
      flag: name of its flag.
      tokenizer: a BertTokenizer.
      max_seq_length: tokens of a text, with [CLS] and [SEP].
    """
    tokens = tokenizer([prompt]).row_lengths().numpy()[0] + 2
    if tokens >= max_seq_length:
        raise ValueError(
            f"--{flag}={quoted(prompt)} has {tokens} tokens with [CLS] and "
            f"[SEP], and --max_seq_length is {max_seq_length}: nothing of a "
            "text would be read. Give a shorter prompt, or a larger length."
        )


def replaced(metadata: Mapping, **given: str | None) -> dict:
    """Returns entries of a model.json with other prompts.

    Args:
      metadata: its entries `prompts` and `default_prompt_name`, if any.
      **given: key of `NAMES` -> prompt; None to leave it as it is.
    """
    found = dict(metadata)
    for of, prompt in given.items():
        if prompt is not None:
            prompts = found.get("prompts", {})
            # Under each name that it has, or `choose` would find another.
            names = [x for x in NAMES[of] if x in prompts] or NAMES[of][:1]
            found["prompts"] = prompts | dict.fromkeys(names, prompt)
    return found

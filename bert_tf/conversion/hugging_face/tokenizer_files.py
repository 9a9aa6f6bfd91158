"""Tokenizer files of a Hugging Face folder <-> vocab.txt, do_lower_case.

They are `vocab.txt`, `tokenizer.json` (of the `tokenizers` library) and
`tokenizer_config.json`. Notes report settings that our tokenizer ignores.
"""

import os
from typing import NamedTuple

from bert_tf import config as bert_config
from bert_tf.conversion import vocabularies
from bert_tf.conversion.hugging_face import config_json
from tfrecords.io import json_files
from tfrecords.options import quoted

VOCABULARY = "vocab.txt"
TOKENIZER = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
WRITES = (VOCABULARY, SETTINGS)
_ADDED = "added_tokens.json"
# These classes use tokenizer.json unchanged; those of BERT build a new
# tokenizer from `SETTINGS` (seen in transformers 5.23).
_GENERIC_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
_CLASSES = ("BertTokenizer", "BertTokenizerFast", *_GENERIC_CLASSES)

# Kinds of what is read of the files, see `json_files.check`.
_SETTINGS = {
    "do_lower_case?": bool,
    "strip_accents?": bool,
    "tokenize_chinese_chars?": bool,
    "tokenizer_class?": str,
    "model_max_length?": float,
}
_TOKENIZER = {
    "model": dict,
    "normalizer?": {
        "lowercase?": bool,
        "strip_accents?": bool,
        "handle_chinese_chars?": bool,
    },
    "added_tokens?": [{"content": str}],
}


class Metadata(NamedTuple):
    """Fields of a Checkpoint that are in the tokenizer files.

    `max_seq_length` is None if the files do not limit it.
    """

    vocabulary: bytes | None
    do_lower_case: bool | None
    notes: tuple[str, ...]
    max_seq_length: int | None = None


def _entries(tokenizer: dict, path: str) -> list[str]:
    """Returns a tokenizer.json's vocabulary in the order of its ids."""
    model = tokenizer["model"]
    kind, prefix = model.get("type"), model.get("continuing_subword_prefix")
    if kind != "WordPiece" or prefix not in (None, "##"):
        raise ValueError(
            f"{path} has a model of type {quoted(kind)} with the prefix "
            f"{quoted(prefix)}; BERT's is WordPiece with '##'. Its "
            "tokenization differs, so it cannot be read."
        )
    json_files.check(model, {"vocab": dict}, path, "model")
    ids = model["vocab"]
    # True is 1, and a list cannot be in a set.
    are_integers = all(type(i) is int for i in ids.values())
    wanted = range(max(1, len(ids)))
    if not are_integers or set(ids.values()) != set(wanted):
        raise ValueError(
            f"{path}: the ids of its vocabulary should be 0 to {wanted[-1]}, "
            "each once. Otherwise it cannot be written as "
            f"{VOCABULARY}, where the line number is the id."
        )
    entries = sorted(ids, key=ids.__getitem__)
    if any("\n" in entry for entry in entries):
        raise ValueError(
            f"{path}: an entry of its vocabulary contains a line break, so it "
            f"cannot be written as {VOCABULARY}, with one entry per line."
        )
    return entries


def _vocabulary(folder: str, tokenizer: dict) -> bytes | None:
    """Returns vocab.txt, or the same content made from tokenizer.json."""
    path = os.path.join(folder, VOCABULARY)
    content = vocabularies.read(path)
    if not tokenizer:
        return content
    entries = _entries(tokenizer, os.path.join(folder, TOKENIZER))
    if content is None:
        return "".join(f"{entry}\n" for entry in entries).encode()
    lines = content.decode("utf-8", "replace").replace("\r\n", "\n")
    lines = lines.removesuffix("\n").split("\n")
    for i in range(max(len(lines), len(entries))):
        if lines[i : i + 1] != entries[i : i + 1]:
            raise ValueError(
                f"{path}:{i + 1} and {TOKENIZER} in the same folder assign id "
                f"{i} to {lines[i : i + 1]} and {entries[i : i + 1]}. Remove "
                "the file that does not belong to the weights."
            )
    return content


def _normalizer(tokenizer: dict) -> tuple[dict, list[str]]:
    """Returns the settings of a BertNormalizer; of any other, {} and a note."""
    normalizer = tokenizer.get("normalizer") or {}
    kind = normalizer.get("type")
    if not tokenizer or kind == "BertNormalizer":
        return normalizer, []
    return {}, [f"{TOKENIZER} normalizes with {kind}, unlike BERT"]


def _case(settings: dict, normalizer: dict) -> tuple[bool | None, list[str]]:
    """Returns transformers' value of do_lower_case; notes if files disagree."""
    given = [settings.get("do_lower_case"), normalizer.get("lowercase")]
    if settings.get("tokenizer_class") in _GENERIC_CLASSES:
        given.reverse()
    used = given[1] if given[0] is None else given[0]
    if None in given or given[0] == given[1]:
        return used, []
    note = (
        f"{SETTINGS} and {TOKENIZER} disagree on lower case; "
        f"do_lower_case={used} is used, as in transformers"
    )
    return used, [note]


def _other_rules(
    settings: dict, normalizer: dict, do_lower_case: bool | None
) -> list[str]:
    """Returns notes on settings that our tokenizer does not support."""
    notes = []
    strips = settings.get("strip_accents", normalizer.get("strip_accents"))
    if strips is not None and strips != bool(do_lower_case):
        notes.append(
            f"strip_accents={strips} with do_lower_case={do_lower_case}: our "
            "tokenizer strips accents only when it lower-cases, so the tokens "
            "of text with accents differ"
        )
    spaced = settings.get(
        "tokenize_chinese_chars", normalizer.get("handle_chinese_chars", True)
    )
    if spaced is False:
        notes.append(
            "handle_chinese_chars=false: our tokenizer always splits Chinese "
            "characters, so the tokens of such text differ"
        )
    name = settings.get("tokenizer_class")
    if name not in (None, *_CLASSES):
        notes.append(
            f"tokenizer_class is {name}; our tokenizer is BERT's, so tokens "
            "may differ"
        )
    return notes


def _added(folder: str, tokenizer: dict) -> list[str]:
    """Returns a note on tokens added to the vocabulary, if any."""
    listed = [x.get("content") for x in tokenizer.get("added_tokens") or ()]
    vocabulary = tokenizer["model"]["vocab"] if tokenizer else {}
    added = [x for x in listed if x not in vocabulary]
    more = config_json.read_object(folder, _ADDED)
    added += [x for x in more if x not in vocabulary]
    if not added:
        return []
    names = ", ".join(dict.fromkeys(map(str, added)))
    return [f"tokens added to the vocabulary are ignored: {names}"]


def read(folder: str, config: bert_config.BertConfig) -> Metadata:
    """Reads the tokenizer files.

    Raises:
      ValueError: if a file is not for WordPiece, contradicts another file, or
        has more entries than the model.
    """
    tokenizer = config_json.read_object(folder, TOKENIZER, _TOKENIZER)
    settings = config_json.read_object(folder, SETTINGS, _SETTINGS)
    vocabulary = _vocabulary(folder, tokenizer)
    normalizer, notes = _normalizer(tokenizer)
    do_lower_case, disagreement = _case(settings, normalizer)
    notes += disagreement + _other_rules(settings, normalizer, do_lower_case)
    notes += _added(folder, tokenizer)
    count = vocabularies.count_entries(vocabulary)
    if count > config.vocab_size:
        raise ValueError(
            f"{folder}: the vocabulary has {count} entries, but config.json "
            f"has vocab_size={config.vocab_size}. Copy all files from one "
            "model."
        )
    if 0 < count < config.vocab_size:
        notes.append(
            f"the vocabulary has {count} entries, but config.json has "
            f"vocab_size={config.vocab_size}: the last ids have no token"
        )
    # Without a limit it is 1e30 (VERY_LARGE_INTEGER of transformers).
    length = settings.get("model_max_length") or 0
    positions = config.max_position_embeddings
    is_limit = 0 < length <= positions and length == int(length)
    return Metadata(
        vocabulary,
        do_lower_case,
        tuple(notes),
        int(length) if is_limit else None,
    )


def write(
    vocabulary: bytes, do_lower_case: bool | None, max_tokens: int, folder: str
) -> None:
    """Writes vocab.txt and tokenizer_config.json."""
    vocabularies.write(vocabulary, os.path.join(folder, VOCABULARY))
    settings: dict = {
        "tokenizer_class": "BertTokenizer",
        "model_max_length": max_tokens,
    }
    if do_lower_case is not None:
        settings["do_lower_case"] = do_lower_case
    json_files.write(os.path.join(folder, SETTINGS), settings)

"""Tokenizer files of a Hugging Face folder <-> vocab.txt, do_lower_case.

`vocab.txt`, `tokenizer.json` (the `tokenizers` library's) and
`tokenizer_config.json`. What our tokenizer would split in another way is noted.
"""

import os
from typing import NamedTuple

from bert_tf import config as bert_config
from bert_tf.conversion import vocabularies
from bert_tf.conversion.hugging_face import config_json
from tfrecords.io import atomic_files

VOCABULARY = "vocab.txt"
TOKENIZER = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
WRITES = (VOCABULARY, SETTINGS)
_ADDED = "added_tokens.json"
# This class takes tokenizer.json as it is, Bert's builds a new one from
# `SETTINGS`, as seen in transformers 5.23.
_AS_IT_IS = ("PreTrainedTokenizerFast", "TokenizersBackend")
_CLASSES = ("BertTokenizer", "BertTokenizerFast", *_AS_IT_IS)


class Metadata(NamedTuple):
    """Fields of a Checkpoint that the tokenizer's files give."""

    vocabulary: bytes | None
    do_lower_case: bool | None
    notes: tuple[str, ...]


def _entries(tokenizer: dict, path: str) -> list[str]:
    """Returns a tokenizer.json's vocabulary in the order of its ids."""
    model = tokenizer.get("model") or {}
    kind, prefix = model.get("type"), model.get("continuing_subword_prefix")
    ids = model.get("vocab")
    if kind != "WordPiece" or prefix not in (None, "##"):
        raise ValueError(
            f"{path} has a model of type {kind!r} with the prefix {prefix!r}; "
            "BERT's is WordPiece with '##'. Its text is split in another way, "
            "so it cannot be read."
        )
    if not isinstance(ids, dict) or set(ids.values()) != set(range(len(ids))):
        raise ValueError(
            f"{path}: the ids of its vocabulary should be 0 to "
            f"{len(ids or ()) - 1}, each once; a line of {VOCABULARY} is an "
            "id, so it cannot be written as one."
        )
    entries = sorted(ids, key=ids.__getitem__)
    if any("\n" in entry for entry in entries):
        raise ValueError(
            f"{path}: an entry of its vocabulary has a line break in it, so it "
            f"cannot be written as {VOCABULARY}, an entry a line."
        )
    return entries


def _vocabulary(folder: str, tokenizer: dict) -> bytes | None:
    """Returns the content of vocab.txt, or what it would be."""
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
                f"{path}:{i + 1} and {TOKENIZER} beside it give id {i} to "
                f"{lines[i : i + 1]} and {entries[i : i + 1]}. Remove the one "
                "that does not belong to the weights."
            )
    return content


def _normalizer(tokenizer: dict) -> tuple[dict, list[str]]:
    """Returns the settings of a BertNormalizer, and a note if it is none."""
    normalizer = tokenizer.get("normalizer") or {}
    kind = normalizer.get("type")
    if not tokenizer or kind == "BertNormalizer":
        return normalizer, []
    return {}, [f"{TOKENIZER} normalizes by {kind}, not as BERT does"]


def _case(settings: dict, normalizer: dict) -> tuple[bool | None, list[str]]:
    """Returns do_lower_case as transformers would take it."""
    said = [settings.get("do_lower_case"), normalizer.get("lowercase")]
    if settings.get("tokenizer_class") in _AS_IT_IS:
        said.reverse()
    taken = said[1] if said[0] is None else said[0]
    if None in said or said[0] == said[1]:
        return taken, []
    note = (
        f"{SETTINGS} and {TOKENIZER} disagree on lower case; "
        f"do_lower_case={taken}, as transformers takes it"
    )
    return taken, [note]


def _other_rules(
    settings: dict, normalizer: dict, do_lower_case: bool | None
) -> list[str]:
    """Returns notes on rules that our tokenizer does not have."""
    notes = []
    strips = settings.get("strip_accents", normalizer.get("strip_accents"))
    if strips is not None and strips != bool(do_lower_case):
        notes.append(
            f"strip_accents={strips} with do_lower_case={do_lower_case}: here "
            "accents go with the capitals, so text with accents gets other "
            "tokens"
        )
    spaced = settings.get(
        "tokenize_chinese_chars", normalizer.get("handle_chinese_chars", True)
    )
    if spaced is False:
        notes.append(
            "Chinese characters are not split there (handle_chinese_chars="
            "false); here they are, so such text gets other tokens"
        )
    name = settings.get("tokenizer_class")
    if name not in (None, *_CLASSES):
        notes.append(
            f"its text is split by {name}; here by BERT's rules, so it may get "
            "other tokens"
        )
    return notes


def _added(folder: str, tokenizer: dict) -> list[str]:
    """Returns a note on tokens beyond the vocabulary's, if any."""
    listed = [x.get("content") for x in tokenizer.get("added_tokens") or ()]
    vocabulary = (tokenizer.get("model") or {}).get("vocab") or {}
    added = [x for x in listed if x not in vocabulary]
    more = config_json.read_object(folder, _ADDED)
    added += [x for x in more if x not in vocabulary]
    if not added:
        return []
    names = ", ".join(dict.fromkeys(map(str, added)))
    return [f"tokens added to the vocabulary are unknown here: {names}"]


def read(folder: str, config: bert_config.BertConfig) -> Metadata:
    """Reads what the tokenizer's files say.

    Raises:
      ValueError: that names the file, if it is not of WordPiece, disagrees
        with another, or has more entries than the model.
    """
    tokenizer = config_json.read_object(folder, TOKENIZER)
    settings = config_json.read_object(folder, SETTINGS)
    vocabulary = _vocabulary(folder, tokenizer)
    normalizer, notes = _normalizer(tokenizer)
    do_lower_case, disagreement = _case(settings, normalizer)
    notes += disagreement + _other_rules(settings, normalizer, do_lower_case)
    notes += _added(folder, tokenizer)
    count = vocabularies.count_entries(vocabulary)
    if count > config.vocab_size:
        raise ValueError(
            f"{folder}: the vocabulary has {count} entries, config.json says "
            f"vocab_size={config.vocab_size}. Copy the files of one model."
        )
    if 0 < count < config.vocab_size:
        notes.append(
            f"the vocabulary has {count} entries, the model "
            f"{config.vocab_size}: the last ids stand for no token"
        )
    return Metadata(vocabulary, do_lower_case, tuple(notes))


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
    atomic_files.write_json(os.path.join(folder, SETTINGS), settings)

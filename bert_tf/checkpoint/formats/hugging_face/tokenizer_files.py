"""Tokenizer files of a Hugging Face folder <-> vocab.txt, rules for text.

They are `vocab.txt`, `tokenizer.json` (of the `tokenizers` library) and
`tokenizer_config.json`.
"""

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bert_tf import config as bert_config
from bert_tf.checkpoint.formats import vocabularies
from bert_tf.checkpoint.formats.hugging_face import config_json, tokenizer_json
from tfrecords.io import json_files
from tfrecords.options import quoted
from tfrecords.text import vocab

VOCABULARY = "vocab.txt"
TOKENIZER = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
WRITES = (VOCABULARY, TOKENIZER, SETTINGS)
_ADDED = "added_tokens.json"
_NAMES = "special_tokens_map.json"
# Names of special tokens in the settings -> BERT's.
_SPECIAL = {f"{x.strip('[]').lower()}_token": x for x in vocab.SPECIAL_TOKENS}
# Keys of a source's settings that a conversion does not keep: `write` has its
# own, or they are true of the source's folder alone.
_REPLACED = (
    *("tokenizer_class", "model_max_length", *_SPECIAL, *vocab.RULES),
    *("name_or_path", "tokenizer_file", "special_tokens_map_file"),
    *("vocab_file", "auto_map", "backend", "is_local", "local_files_only"),
)
# These classes use tokenizer.json unchanged; those of BERT build a new
# tokenizer from `SETTINGS` (seen in transformers 5.23).
_GENERIC_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
_CLASSES = (
    *("BertTokenizer", "BertTokenizerFast", *_GENERIC_CLASSES),
    *("DistilBertTokenizer", "DistilBertTokenizerFast"),
)

# Rule -> its name in a BertNormalizer.
_NORMALIZER_RULES = {
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
# Part of tokenizer.json -> BERT's.
_PARTS = {"normalizer": "BertNormalizer", "pre_tokenizer": "BertPreTokenizer"}

# Settings of an added token that let it match more than itself.
_WIDER = ("single_word", "lstrip", "rstrip", "normalized")

# Forms of what is read of the files, see `json_files.check`.
_CLASS = {"tokenizer_class?": str}
_SETTINGS = {
    "do_lower_case?": bool,
    "strip_accents?": bool,
    "tokenize_chinese_chars?": bool,
    "split_special_tokens?": bool,
    **_CLASS,
    "do_basic_tokenize?": bool,
    "added_tokens_decoder?": dict,
    "additional_special_tokens?": [object],
    "model_max_length?": float,
    "never_split?": [object],
    "model_input_names?": [object],
}
_TOKENIZER = {
    "model": dict,
    "normalizer?": {
        "type?": str,
        "lowercase?": bool,
        "strip_accents?": bool,
        "handle_chinese_chars?": bool,
        "clean_text?": bool,
    },
    "pre_tokenizer?": {"type?": str},
    "post_processor?": {
        "single?": [dict],
        "pair?": [dict],
        "special_tokens?": dict,
    },
    "truncation?": dict,
    "padding?": dict,
    "added_tokens?": [{"content": str}],
}
# Characters of a word, of which longer ones are [UNK]: 100 is the value of all
# classes of transformers, 200 that of BERT, and of the files written here.
_WORD_LIMITS = (None, 100, vocab.MAX_CHARS_PER_WORD)


class Metadata(NamedTuple):
    """Fields of Contents that are in the tokenizer files.

    `max_seq_length` is None if the files do not limit it.
    """

    vocabulary: bytes | None
    rules: dict[str, bool]  # See `vocab.rules_of`.
    notes: tuple[str, ...]
    differences: tuple[str, ...] = ()
    max_seq_length: int | None = None
    settings: Mapping = {}  # Of tokenizer_config.json, for `write`.


def _entries(tokenizer: dict, path: str) -> list[str]:
    """Returns a tokenizer.json's vocabulary in the order of its ids."""
    model = tokenizer["model"]
    name, prefix = model.get("type"), model.get("continuing_subword_prefix")
    if name != "WordPiece" or prefix not in (None, "##"):
        raise ValueError(
            f"{path} has a model of type {quoted(name)} with the prefix "
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


def _lines(vocabulary: bytes) -> list[str]:
    lines = vocabulary.decode("utf-8", "replace").replace("\r\n", "\n")
    return lines.removesuffix("\n").split("\n")


def _vocabulary(folder: str, tokenizer: dict) -> bytes | None:
    """Returns vocab.txt, or the same content made from tokenizer.json."""
    path = os.path.join(folder, VOCABULARY)
    content = vocabularies.read(path)
    if not tokenizer:
        return content
    entries = _entries(tokenizer, os.path.join(folder, TOKENIZER))
    if content is None:
        return "".join(f"{entry}\n" for entry in entries).encode()
    lines = _lines(content)
    for i in range(max(len(lines), len(entries))):
        if lines[i : i + 1] != entries[i : i + 1]:
            raise ValueError(
                f"{path}:{i + 1} and {TOKENIZER} in the same folder assign id "
                f"{i} to {lines[i : i + 1]} and {entries[i : i + 1]}. Remove "
                "the file that does not belong to the weights."
            )
    return content


def _normalizer(tokenizer: dict) -> dict:
    """Returns the settings of a BertNormalizer, {} of another."""
    normalizer = tokenizer.get("normalizer") or {}
    return normalizer if normalizer.get("type") == "BertNormalizer" else {}


def _disagreement(what: str, name: str, used: bool | None) -> str:
    return (
        f"{SETTINGS} and {TOKENIZER} disagree on {what}; {name}={used} is "
        "used, as in transformers"
    )


def _case(settings: dict, normalizer: dict) -> tuple[bool | None, list[str]]:
    """Returns transformers' value of do_lower_case; notes if files disagree."""
    given = [settings.get("do_lower_case"), normalizer.get("lowercase")]
    if settings.get("tokenizer_class") in _GENERIC_CLASSES:
        given.reverse()
    used = given[1] if given[0] is None else given[0]
    if None in given or given[0] == given[1]:
        return used, []
    return used, [_disagreement("lower case", "do_lower_case", used)]


def _rules(
    settings: dict, normalizer: dict
) -> tuple[dict[str, bool], list[str]]:
    """Returns transformers' values of the rules; notes if files disagree."""
    case, notes = _case(settings, normalizer)
    other = {
        n: normalizer.get(theirs) for n, theirs in _NORMALIZER_RULES.items()
    }
    files = [settings, other]
    # BERT's own classes have defaults, whatever tokenizer.json says.
    if settings.get("tokenizer_class") in _GENERIC_CLASSES and normalizer:
        files.reverse()
    rules = vocab.rules_of(files[0] | {"do_lower_case": case})
    used = vocab.all_rules_of({"do_lower_case": True} | rules)
    notes += [
        _disagreement(name, name, used[name])
        for name in _NORMALIZER_RULES
        if files[1].get(name) not in (None, used[name])
    ]
    # Also the original's value: without one, their default is the other.
    if settings.get(vocab.SPLIT) is not None:
        rules[vocab.SPLIT] = settings[vocab.SPLIT]
    return rules, notes


def _listed(folder: str, settings: dict, tokenizer: dict) -> dict[str, bool]:
    """Returns token marked as added -> whether texts have it exactly so."""
    extra = settings.get("extra_special_tokens")
    extra = list(extra.values()) if isinstance(extra, dict) else extra
    listed = [
        *(tokenizer.get("added_tokens") or ()),
        *(settings.get("added_tokens_decoder") or {}).values(),
        *(settings.get("additional_special_tokens") or ()),
        *(extra if isinstance(extra, list) else ()),
        *config_json.read_object(folder, _ADDED),
    ]
    found = dict.fromkeys(map(_content, listed), True)
    for token in listed:
        is_changed = isinstance(token, dict) and any(map(token.get, _WIDER))
        found[_content(token)] &= not is_changed
    return found


def _own(listed: Mapping[str, bool], entries: set[str]) -> set[str]:
    """Returns the added tokens that are kept as ours, see `vocab.SPECIAL`."""
    exact = {name for name, is_exact in listed.items() if is_exact}
    exact = exact.intersection(vocab.special_tokens(entries))
    return exact.difference(vocab.SPECIAL_TOKENS)


def _added(
    listed: Mapping[str, bool], entries: set[str], is_split: bool
) -> Iterator[str]:
    """Yields differences by tokens that are marked as added, or are not."""
    known = {*vocab.SPECIAL_TOKENS, *_own(listed, entries)}
    others = [x for x in listed if x not in known]
    if added := [x for x in others if x not in entries]:
        yield f"tokens are added to the vocabulary: {', '.join(added)}"
    if whole := [x for x in others if x in entries]:
        yield (
            "texts are split at these entries of the vocabulary, which BERT "
            f"finds only as words: {', '.join(whole)}"
        )
    special = [x for x in vocab.special_tokens(entries) if x not in listed]
    if not is_split and (more := {*special} - known):
        yield f"texts are not split at {', '.join(sorted(more))}, and here are"


def _content(token: object) -> str:
    return str(token.get("content") if isinstance(token, dict) else token)


def _is_bert_template(tokenizer: dict) -> bool:
    """Returns whether ids and type ids are those of [CLS] A [SEP] B [SEP]."""
    given = tokenizer.get("post_processor") or {}
    ids = {x: tokenizer["model"]["vocab"].get(x) for x in ("[CLS]", "[SEP]")}
    if given.get("type") == "BertProcessing":
        named = {"[CLS]": given.get("cls"), "[SEP]": given.get("sep")}
        return named == {x: [x, i] for x, i in ids.items()}
    single, pair = (
        [(x["id"], x["type_id"]) for piece in part for x in piece.values()]
        for part in (given.get("single") or (), given.get("pair") or ())
    )
    first = [("[CLS]", 0), ("A", 0), ("[SEP]", 0)]
    tokens = {x: {"id": x, "ids": [i], "tokens": [x]} for x, i in ids.items()}
    return (
        single == first
        and pair == [*first, ("B", 1), ("[SEP]", 1)]
        and tokens.items() <= given.get("special_tokens", {}).items()
    )


def _tokenizer_differences(tokenizer: dict) -> Iterator[str]:
    """Yields settings of tokenizer.json that are not BERT's.

    Those of its words are read by all classes of transformers 4, and of 5 by
    `_GENERIC_CLASSES` (measured with 4.49, 4.57 and 5.24).
    """
    for part, expected in _PARTS.items():
        own = (tokenizer.get(part) or {}).get("type")
        if own != expected:
            yield f"{TOKENIZER} has the {part} {own}; BERT's is {expected}"
    if _normalizer(tokenizer).get("clean_text") is False:
        yield f"clean_text is false in {TOKENIZER}; BERT drops controls"
    if not _is_bert_template(tokenizer):
        own = (tokenizer.get("post_processor") or {}).get("type")
        yield (
            f"{TOKENIZER} has a post_processor ({own}) that does not make "
            "BERT's [CLS] A [SEP] B [SEP] with the type ids 0 and 1"
        )
    unknown = tokenizer["model"].get("unk_token", "[UNK]")
    if unknown != "[UNK]":
        yield f"unk_token is {unknown} in {TOKENIZER}; BERT's is [UNK]"
    limit = tokenizer["model"].get("max_input_chars_per_word")
    if limit not in _WORD_LIMITS:
        yield (
            f"max_input_chars_per_word is {limit} in {TOKENIZER}; BERT's is "
            f"{vocab.MAX_CHARS_PER_WORD}"
        )


def _differences(
    folder: str,
    settings: dict,
    tokenizer: dict,
    vocabulary: bytes,
    has_pairs: bool,
    is_split: bool,
) -> Iterator[str]:
    """Yields settings in the files that our tokenizer does not follow."""
    if tokenizer:
        yield from _tokenizer_differences(tokenizer)
    if settings.get("do_basic_tokenize") is False:
        yield (
            f"do_basic_tokenize is false in {SETTINGS}; BERT splits punctuation"
        )
    if words := {*(settings.get("never_split") or ())} - {
        *vocab.SPECIAL_TOKENS
    }:
        yield (
            f"never_split is {quoted(sorted(words))} in {SETTINGS}, which the "
            "slow tokenizers of transformers 4 follow; BERT splits all"
        )
    names = settings | config_json.read_object(folder, _NAMES)
    for key, ours in _SPECIAL.items():
        own = names.get(key)
        # Padding changes no output, whatever its token.
        if own is not None and key != "pad_token" and _content(own) != ours:
            yield f"{key} is {_content(own)}; BERT's is {ours}"
    for key in ("truncation", "padding"):
        side = (tokenizer.get(key) or {}).get("direction")
        if str(settings.get(f"{key}_side") or side).lower() == "left":
            yield f"{key} is at the left; BERT's is at the right"
    name = settings.get("tokenizer_class")
    # The default of this class of transformers 5 lacks them, too.
    others = () if name == "TokenizersBackend" else ("token_type_ids",)
    inputs = settings.get("model_input_names") or others
    if has_pairs and "token_type_ids" not in inputs:
        yield f"model_input_names in {SETTINGS} lacks token_type_ids"
    if name not in (None, *_CLASSES):
        yield f"tokenizer_class is {name}; BERT's is {_CLASSES[0]}"
    listed = _listed(folder, names, tokenizer)
    yield from _added(listed, set(_lines(vocabulary)), is_split)


def read(
    folder: str, config: bert_config.BertConfig, has_pairs: bool = True
) -> Metadata:
    """Reads the tokenizer files.

    Args:
      folder: the folder.
      config: of its model.
      has_pairs: whether the model may read two texts.

    Raises:
      ValueError: if a file is not for WordPiece, contradicts another file, or
        has more entries than the model.
    """
    tokenizer = config_json.read_object(folder, TOKENIZER, _TOKENIZER)
    settings = config_json.read_object(folder, SETTINGS, _SETTINGS)
    kept = {n: x for n, x in settings.items() if n not in _REPLACED}
    if settings.get("tokenizer_class") is None:
        model = config_json.read_object(folder, config_json.CONFIG, _CLASS)
        settings["tokenizer_class"] = model.get("tokenizer_class")
    vocabulary = _vocabulary(folder, tokenizer)
    rules, notes = _rules(settings, _normalizer(tokenizer))
    differences: tuple[str, ...] = ()
    has_pairs &= config.type_vocab_size > 0  # Else they have no types.
    if vocabulary is not None:
        names = settings | config_json.read_object(folder, _NAMES)
        listed = _listed(folder, names, tokenizer)
        if _own(listed, set(_lines(vocabulary))):
            rules.setdefault(vocab.SPLIT, False)
        differences = tuple(
            _differences(
                *(folder, settings, tokenizer, vocabulary, has_pairs),
                rules.get(vocab.SPLIT, True),
            )
        )
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
    is_limit = 3 <= length <= positions and length == int(length)
    return Metadata(
        vocabulary,
        rules,
        tuple(notes),
        differences,
        int(length) if is_limit else None,
        {} if differences else kept,
    )


def write(
    vocabulary: bytes,
    rules: dict[str, bool],
    max_tokens: int,
    folder: str,
    more: Mapping = {},
    tokenizer_class: str = "BertTokenizer",
) -> None:
    """Writes vocab.txt, tokenizer_config.json and, if known, tokenizer.json.

    `tokenizer_json.write` documents which vocabularies it cannot hold. Without
    `do_lower_case` it is not written, since it would decide it.

    Args:
      vocabulary: content of vocab.txt.
      rules: see `vocab.rules_of`.
      max_tokens: of a text.
      folder: where to.
      more: keys of a source's tokenizer_config.json, kept unless replaced.
      tokenizer_class: class of transformers; that of DistilBERT makes no
        token_type_ids, which its models do not take.
    """
    vocabularies.write(vocabulary, os.path.join(folder, VOCABULARY))
    entries = _lines(vocabulary)
    settings = dict(more) | {
        "tokenizer_class": tokenizer_class,
        "model_max_length": max_tokens,
    }
    # transformers has defaults; transformers.js and fastembed pad with no
    # other token than the one named here.
    settings |= {k: token for k, token in _SPECIAL.items() if token in entries}
    known = rules | vocab.all_rules_of(rules)
    own = set(vocab.special_tokens(entries)).difference(vocab.SPECIAL_TOKENS)
    if own and not rules.get(vocab.SPLIT, True):
        settings["additional_special_tokens"] = sorted(own)
    # Unless it is known: the [MASK] of a pipeline would be split, too.
    if vocab.SPLIT not in rules:
        known.pop(vocab.SPLIT, None)
    json_files.write(os.path.join(folder, SETTINGS), settings | known)
    if "do_lower_case" in rules:
        path = os.path.join(folder, TOKENIZER)
        tokenizer_json.write(entries, rules, path)

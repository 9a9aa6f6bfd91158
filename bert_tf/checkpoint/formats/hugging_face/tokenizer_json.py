"""vocab.txt and rules for text -> tokenizer.json of the tokenizers library.

Its tokens are those of our tokenizer for ordinary text. They differ at some
characters (docs/guide/checkpoints.md has the numbers), and "[MASK]" and other
special tokens in a text are themselves.
"""

from collections.abc import Mapping

import tokenizers
from absl import logging
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from tfrecords.io import atomic_files
from tfrecords.text import vocab


def make(
    entries: list[str], rules: Mapping[str, object]
) -> tokenizers.Tokenizer:
    """Returns the tokenizer of a vocabulary.

    Args:
      entries: the vocabulary, in the order of ids, with all special tokens.
      rules: `do_lower_case`, by default true; `strip_accents`, by default as
        `do_lower_case`; `tokenize_chinese_chars`, by default true;
        `split_special_tokens`, without which those of one's own are kept too.
    """
    tokenizer = tokenizers.Tokenizer(
        models.WordPiece(
            {entry: i for i, entry in enumerate(entries)},
            unk_token="[UNK]",
            max_input_chars_per_word=vocab.MAX_CHARS_PER_WORD,
        )
    )
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=rules.get("tokenize_chinese_chars", True),
        strip_accents=rules.get("strip_accents"),
        lowercase=rules.get("do_lower_case", True),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(x, entries.index(x)) for x in ("[CLS]", "[SEP]")],
    )
    tokenizer.decoder = decoders.WordPiece()
    special = list(vocab.SPECIAL_TOKENS)
    if not rules.get(vocab.SPLIT, True):
        special = vocab.special_tokens(entries)
    tokenizer.add_special_tokens(special)
    return tokenizer


def write(entries: list[str], rules: Mapping[str, object], path: str) -> None:
    """Writes tokenizer.json atomically.

    It cannot hold a vocabulary in which entries are equal, as those that no
    text can match may be, or special tokens are missing: a warning names it.

    Args:
      entries: the vocabulary.
      rules: as for `make`.
      path: file to write.
    """
    if len(set(entries)) < len(entries) or not all(
        token in entries for token in vocab.SPECIAL_TOKENS
    ):
        logging.warning(
            "%s is not written: entries of the vocabulary are equal, or "
            "special tokens are missing",
            path,
        )
        return
    with atomic_files.atomic_file(path) as file:
        file.write(make(entries, rules).to_str(pretty=True))

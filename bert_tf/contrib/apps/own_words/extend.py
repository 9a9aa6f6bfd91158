"""A checkpoint and a text, or words -> a checkpoint with a token for each.

A new word takes an [unused] entry of the vocabulary or, when there are no more,
a row at the end. It begins as the mean of the pieces that it had, in the
embeddings and in the bias of the masked-LM head, so that its logit is the mean
of theirs. All other weights stay as they are.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.checkpoint import tensor_files
from bert_tf.checkpoint.checkpoint import Checkpoint, check_new
from bert_tf.contrib.apps.own_words.config import ExtendVocabConfig
from tfrecords.options import quoted, some
from tfrecords.text import text_files, vocab, vocab_learning
from tfrecords.text import words as words_lib
from tfrecords.text.tokenizer import BertTokenizer

# Weights with a row for each entry of the vocabulary.
_TABLES = ("encoder/embeddings/word_embeddings", "masked_lm/bias")
_MIN_FREQUENCY = 2  # Occurrences of a word that is taken from a text.
_BATCH_WORDS = 65_536  # Split into pieces at a time.


def extend_vocab(config: ExtendVocabConfig) -> list[str]:
    """Writes a model whose vocabulary has new words, atomically.

    Returns:
      The lines of the report: each new word with its occurrences and pieces,
      and the pieces of all words of the text, before and after.

    Raises:
      ValueError: if a file or the model cannot be read, the model has no
        vocabulary, no word is left to add, or the format cannot hold the model.
        `output_dir` is then unchanged.
    """
    check_new(config.output_dir, config.to)
    accepts = {
        "accept_tokenizer_differences": config.accept_tokenizer_differences
    }
    given = Checkpoint.open(config.init_checkpoint, **accepts)
    tokenizer = given.tokenizer()
    if tokenizer is None:
        raise ValueError(
            f"{given.path()} has no vocabulary. Put its vocab.txt there."
        )
    read, counts = text_files.ReadStatistics(), {}
    if config.words_file:
        lines = map(str.strip, text_files.read_lines(config.words_file, read))
        words = list(dict.fromkeys(filter(None, lines)))
        refused = refusals(words, tokenizer)
        for word, reason in refused.items():
            logging.warning("%s is not added: %s", quoted(word), reason)
        words = [word for word in words if word not in refused]
    else:
        sentences = vocab_learning.read_sentences(config, read)
        counts = vocab_learning.count_words(sentences, **_rules(tokenizer))
        words = costly_words(counts, tokenizer, config.num_words)
        logging.info("read  %s  different_words %d", read, len(counts))
    if not words:
        raise ValueError(
            f"{config.words_file or config.input_file} has no word to add: to "
            "the tokenizer each is one token already, too rare, or several "
            "words. Give other words or more text."
        )
    extended = add_words(given, words)
    report = _report(words, counts, tokenizer, extended.tokenizer())
    extended.save(config.output_dir, config.to, **accepts)
    return [f"{given.source} -> {config.to} {config.output_dir}", *report]


def _rules(tokenizer: BertTokenizer) -> dict[str, bool]:
    """Returns the rules that split texts into words."""
    rules = {"do_lower_case": True} | tokenizer.rules
    return {name: x for name, x in rules.items() if name != vocab.SPLIT}


def refusals(words: Sequence[str], tokenizer: BertTokenizer) -> dict[str, str]:
    """Returns word -> the reason, for words that cannot become a token.

    Text is cleaned and split into words before these are looked up: one with a
    capital, an accent, punctuation, a space or a Chinese character inside may
    never be found, whatever the vocabulary has.
    """
    read = words_lib.split_words(tf.constant(words), **_rules(tokenizer))
    found, known = {}, {*tokenizer.vocab}
    for word, parts in zip(words, read.to_list(), strict=True):
        parts = [part.decode() for part in parts]
        if word in known:
            found[word] = "the vocabulary has it"
        elif vocab.SPECIAL.fullmatch(word):
            continue  # The tokenizer of the result keeps it.
        elif parts != [word]:
            shown = ", ".join(map(quoted, parts)) or "nothing"
            found[word] = f"a text has it as {shown}"
        elif len(word) > vocab.MAX_CHARS_PER_WORD:
            found[word] = (
                f"it has {len(word)} characters, and words of more than "
                f"{vocab.MAX_CHARS_PER_WORD} are [UNK]"
            )
    return found


def _pieces(words: Sequence[str], tokenizer: BertTokenizer) -> list[np.ndarray]:
    """Returns the ids of the pieces of each word."""
    found = []
    for i in range(0, len(words), _BATCH_WORDS):
        ids = tokenizer(tf.constant(words[i : i + _BATCH_WORDS]))
        ends = ids.row_splits.numpy()[1:-1]
        found += np.split(ids.flat_values.numpy(), ends)
    return found


def costly_words(
    counts: Mapping[str, int], tokenizer: BertTokenizer, num_words: int
) -> list[str]:
    """Returns the words that have the most pieces beyond the first in a text.

    Args:
      counts: occurrences of each word, see `vocab_learning.count_words`. Those
        of a single occurrence, or of a single piece, as [UNK], are left out.
      tokenizer: it splits them into pieces.
      num_words: the most words to return, the most costly first.
    """
    words = sorted(word for word, n in counts.items() if n >= _MIN_FREQUENCY)
    pieces = map(len, _pieces(words, tokenizer))
    costs = {x: counts[x] * (n - 1) for x, n in zip(words, pieces, strict=True)}
    order = sorted(words, key=costs.get, reverse=True)[:num_words]
    return [word for word in order if costs[word]]


def add_words(given: Checkpoint, words: Sequence[str]) -> Checkpoint:
    """Returns a checkpoint whose vocabulary has more words.

    Texts in which no word begins with one of them have the same tokens, and the
    encoder and the heads of tasks the same outputs. The masked LM has the same
    logits of the old entries; where it has more, so has its softmax. Adam's
    moments and the step are left out. With a word such as [DRUG], see
    `vocab.SPECIAL`, the rule `split_special_tokens` is false.

    Args:
      given: a checkpoint with a vocabulary.
      words: the new ones, each once.

    Raises:
      ValueError: if one of them is among `refusals`.
    """
    tokenizer = given.tokenizer()
    for word, reason in refusals(words, tokenizer).items():
        raise ValueError(f"{quoted(word)} cannot be added: {reason}.")
    entries = list(tokenizer.vocab)
    places = [i for i, x in enumerate(entries) if vocab.UNUSED.fullmatch(x)]
    num_new = max(0, len(words) - len(places))
    places += range(len(entries), len(entries) + num_new)
    entries += [""] * num_new
    size = max(given.config.vocab_size, len(entries))
    pieces, tables = _pieces(words, tokenizer), {}
    for name in filter(given.tensors.__contains__, _TABLES):
        old = np.asarray(given.tensors[name])
        more = np.zeros((size - len(old), *old.shape[1:]), old.dtype)
        tables[name] = np.concatenate([old, more])
        for i, ids in zip(places, pieces, strict=False):
            tables[name][i] = old[ids].astype(np.float64).mean(axis=0)
    for i, word in zip(places, words, strict=False):
        entries[i] = word
    own, metadata = vocab.special_tokens(words), dict(given.metadata)
    if own and metadata.get(vocab.SPLIT, True):
        metadata[vocab.SPLIT] = False
        logging.warning(
            "texts are no longer split at %s: nor at [SEP] and the like, where "
            "a text has them (split_special_tokens=False)",
            some(own),
        )
    return dataclasses.replace(
        given,
        config=dataclasses.replace(given.config, vocab_size=size),
        vocabulary=vocab.to_bytes(entries),
        metadata=metadata,
        tensors=tensor_files.merged(tables, given.tensors),
        slots={},
        step=0,
    )


def _report(
    words: Sequence[str],
    counts: Mapping[str, int],
    before: BertTokenizer,
    after: BertTokenizer,
) -> list[str]:
    """Returns lines: the text before and after, and each word."""
    lines = [
        f"added words: {len(words)}; entries: {before.vocab_size} -> "
        f"{after.vocab_size}"
    ]
    if counts:
        old, new = (_pieces(list(counts), x) for x in (before, after))
        total, numbers = sum(counts.values()), list(counts.values())
        was, is_now = (np.dot(numbers, [*map(len, x)]) for x in (old, new))
        lines += [f"pieces per word: {was / total:.4f} -> {is_now / total:.4f}"]
        changed = {
            word
            for word, a, b in zip(counts, old, new, strict=True)
            if not np.array_equal(a, b)
        }
        others = sorted(changed - {*words}, key=counts.get, reverse=True)
        if others:  # Pieces are matched from the beginning of a word.
            lines += [f"other words with a new beginning: {some(others)}"]
    pieces = _pieces(words, before)
    for word, ids in zip(words, pieces, strict=True):
        count = f" ({counts[word]})" if counts else ""
        lines += [f"{word}{count}: {' '.join(before.vocab[i] for i in ids)}"]
    return lines

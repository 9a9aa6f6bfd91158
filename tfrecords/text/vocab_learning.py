"""Documents -> word counts -> a WordPiece vocabulary."""

import collections
import concurrent.futures
import dataclasses
import itertools
import os
import pathlib
import time
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping

from absl import logging

from tfrecords import libraries
from tfrecords.io import storage, streams
from tfrecords.options import REQUIRED, option
from tfrecords.text import documents as documents_lib
from tfrecords.text import text_files, vocab

# The first entries of the released vocabularies: ids 0, 1 to 99, 100 to 103.
_UNUSED = tuple(f"[unused{i}]" for i in range(99))
FIRST_ENTRIES = ("[PAD]", *_UNUSED, "[UNK]", "[CLS]", "[SEP]", "[MASK]")

# Sentences between checks of the number of words in memory.
_BLOCK_SENTENCES = 65_536
_BATCH_SENTENCES = 1024  # Split at a time.
_MAX_WORDS = 5_000_000  # Distinct ones in memory, a few hundred bytes each.
# The trainer counts words itself, so each word is repeated as often as it was
# counted. If the total exceeds this, counts are scaled down.
_MAX_OCCURRENCES = 50_000_000
_WORDS_PER_STRING = 10_000
MAX_ENTRIES = 10_000_000  # The trainer reserves memory for all of them.
_SAMPLE_SENTENCES = 20_000  # Whose accents are looked at, to twice as many.
_ACCENTED_SHARE = 0.01  # Of the words of a text, from which there is a warning.
_MOST_EXAMPLES = 10
_MIN_FREQUENCY = 2  # Minimum occurrences of a piece.


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabConfig(documents_lib.TextOptions, vocab.RuleOptions):
    """Settings of the vocabulary to learn, and its text."""

    output_file: str = option(
        REQUIRED, "Vocabulary file to write.", writes="file"
    )
    vocab_size: int = option(
        30522,
        "Number of entries, special tokens included.",
        at_least=1,
        at_most=MAX_ENTRIES,
    )
    do_lower_case: bool | None = option(
        None,
        "Lower-case text and strip accents; false for a cased vocabulary. "
        "Default: true, with a warning if words lose their accents.",
    )
    max_characters: int = option(
        1000,
        "Number of characters that get an entry, most frequent first. A word "
        "with any other character becomes [UNK]. Raise it for Chinese or "
        "Japanese.",
        at_least=1,
    )
    overwrite: bool = option(
        False, "Replace an existing output file whose entries differ."
    )


def make(config: VocabConfig) -> None:
    """Learns a vocabulary from files and writes it.

    Raises:
      ValueError: if there is no text, the size is too small, or the output file
        exists with other entries and `overwrite` is not set.
    """
    start = time.monotonic()
    paths = config.paths()
    if os.path.isdir(os.path.dirname(config.output_file) or "."):
        streams.check_output(
            "output_file",
            config.output_file,
            [("input_file", path) for path in paths],
        )
    statistics = text_files.ReadStatistics()
    sentences = read_sentences(config, statistics)
    rules = {"do_lower_case": True} | vocab.rules_of(vars(config))
    sample: list[str] = []
    if config.do_lower_case is None and config.strip_accents is None:
        sentences = _sampled(sentences, sample)
    words = count_words(sentences, **rules)
    if sample:
        rules["strip_accents"] = False
        warn_of_accents(count_words(sample, **rules), len(sample))
    logging.info("read  %s", statistics)
    logging.info(
        "learning from %d distinct words with tokenizers %s",
        len(words),
        libraries.version("tokenizers"),
    )
    entries = learn_words(
        words, config.vocab_size, max_characters=config.max_characters
    )
    _write(entries, config.output_file, config.overwrite)
    logging.info(
        "%s  documents %d  sentences %d  words %d  different_words %d  "
        "entries %d  coverage %.5f  seconds %.1f",
        config.output_file,
        statistics.documents,
        statistics.sentences,
        sum(words.values()),
        len(words),
        len(entries),
        coverage(entries, words),
        time.monotonic() - start,
    )


def read_sentences(
    config: documents_lib.TextOptions, statistics: text_files.ReadStatistics
) -> Iterator[str]:
    """Yields the sentences of files, adds to `statistics`, shows progress.

    Raises:
      ValueError: as `documents.read_documents`.
    """
    for document in documents_lib.read_documents(
        _with_progress(config.paths()),
        statistics=statistics,
        **config.reading(),
    ):
        yield from document.sentences


def _with_progress(paths: list[str]) -> Iterator[str]:
    """Yields paths; shows bytes read and ETA after each path."""
    from tfrecords.io import progress

    sizes = [storage.version(path)[0] for path in paths]
    numbered = (pair for pair in enumerate(paths))
    for _, path in progress.show(
        numbered, paths, sizes, name="read", unit="bytes"
    ):
        yield path


def _write(entries: list[str], path: str, overwrite: bool) -> None:
    file = pathlib.Path(path)
    # With `> vocab.txt`, /dev/stdout is a file that the shell has just made.
    exists = file.is_file() and not streams.is_stream(path)
    is_other = exists and file.read_bytes() != vocab.to_bytes(entries)
    if is_other and not overwrite:
        raise ValueError(
            f"--output_file={path} exists with other entries; models may "
            "depend on it. Choose another file, or pass --overwrite."
        )
    vocab.write(entries, path)


def count_words(
    sentences: Iterable[str],
    do_lower_case: bool,
    *,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool = True,
) -> collections.Counter[str]:
    """Counts the words that our tokenizer splits sentences into.

    If there are too many distinct words for the memory, the rarest are dropped,
    which hardly changes the result.

    Args:
      sentences: streamed, not kept in memory.
      do_lower_case: as for BertTokenizer.
      strip_accents: as for BertTokenizer.
      tokenize_chinese_chars: as for BertTokenizer.

    Returns:
      Occurrences of each word.
    """
    # Imported here because learning from counted words does not need them.
    import tensorflow as tf

    from tfrecords.text import words as words_lib

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
    )
    def count(batch):
        words = words_lib.split_words(
            batch, do_lower_case, strip_accents, tokenize_chinese_chars
        )
        return tf.unique_with_counts(words.flat_values)

    words: collections.Counter[str] = collections.Counter()
    sentences = iter(sentences)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        while block := list(itertools.islice(sentences, _BLOCK_SENTENCES)):
            starts = range(0, len(block), _BATCH_SENTENCES)
            batches = [block[i : i + _BATCH_SENTENCES] for i in starts]
            for block_counts in threads.map(count, map(tf.constant, batches)):
                counts = block_counts.count.numpy().tolist()
                counted = block_counts.y.numpy()
                for word, number in zip(counted, counts, strict=True):
                    words[word.decode()] += number
            _drop_rarest(words)
    return words


def _sampled(sentences: Iterable[str], sample: list[str]) -> Iterator[str]:
    """Yields sentences, and adds every n-th to `sample`, from all of them."""
    step = 1
    for i, sentence in enumerate(sentences):
        if i % step == 0:
            sample.append(sentence)
            if len(sample) == 2 * _SAMPLE_SENTENCES:
                del sample[1::2]
                step *= 2
        yield sentence


def warn_of_accents(words: Mapping[str, int], num_sentences: int) -> None:
    """Warns if at least 1 % of the words lose an accent, which change them.

    That is so in German or French, and in Thai, Hindi or Japanese, whose marks
    of vowels and sounds are accents to the original's tokenizer; not in English
    with a few foreign words.

    Args:
      words: occurrences of words in lower case, with their accents.
      num_sentences: number of sentences that they are of.
    """
    stripped = {word: vocab.clean(word, False, True) for word in words}
    spellings: dict[str, list[str]] = collections.defaultdict(list)
    for word in sorted(words, key=words.get, reverse=True):
        spellings[stripped[word]].append(word)
    changed = [
        word
        for word in words
        if len(stripped[word]) < len(unicodedata.normalize("NFD", word))
    ]
    share = sum(words[word] for word in changed) / max(1, sum(words.values()))
    if share < _ACCENTED_SHARE:
        return
    merged = [found for found in spellings.values() if len(found) > 1]
    merged.sort(key=lambda found: words[found[1]], reverse=True)
    examples = merged or [[word] for word in changed]
    shown = (
        " and ".join(f"{word} ({words[word]})" for word in found)
        + f" -> {stripped[found[0]]}"
        for found in examples[:_MOST_EXAMPLES]
    )
    became = (
        f"; {sum(map(len, merged))} different words become {len(merged)}"
        if merged
        else ""
    )
    logging.warning(
        "accents are stripped, from %.1f %% of the words of %d sentences%s: "
        "%s. Give --nostrip_accents to keep accents in lower case, "
        "--do_lower_case=false to keep case as well, or --do_lower_case if "
        "this is meant; and the same to make_pretraining_records",
        *(100 * share, num_sentences, became),
        "; ".join(shown),
    )


def _drop_rarest(words: collections.Counter[str]) -> None:
    """If there are too many words, drops the rarest until half are left."""
    if len(words) <= _MAX_WORDS:
        return
    number_with = collections.Counter(words.values())
    left, lowest = len(words), 1
    while left > _MAX_WORDS // 2:
        left -= number_with[lowest]
        lowest += 1
    logging.info("dropping %d rare words", len(words) - left)
    for word in [word for word, number in words.items() if number < lowest]:
        del words[word]


def learn_words(
    words: Mapping[str, int], vocab_size: int, *, max_characters: int = 1000
) -> list[str]:
    """Learns a vocabulary from counted words.

    The entries are FIRST_ENTRIES, single characters, then pieces from the most
    to the least frequent. The same counts give the same vocabulary.

    Args:
      words: occurrences of each word; see `count_words`.
      vocab_size: number of entries, including FIRST_ENTRIES.
      max_characters: number of characters that get an entry, the most frequent
        first. A word with any other character is [UNK].

    Returns:
      The entries: `vocab_size` of them, or fewer if the words give no more.

    Raises:
      ValueError: if there are no words, or `vocab_size` is too small for the
        characters.
    """
    characters = _characters(words, max_characters)
    import tokenizers

    # Fixed ids make the trainer break ties deterministically; otherwise it
    # numbers the ##characters in the order of a randomly seeded hash table.
    first = [*FIRST_ENTRIES, *characters]
    if not characters:
        raise ValueError("There is no word to learn a vocabulary from.")
    if vocab_size < len(first):
        raise ValueError(
            f"vocab_size={vocab_size} is too small: special tokens need "
            f"{len(FIRST_ENTRIES)} entries and characters {len(characters)}. "
            f"Raise it to at least {len(first)}, or lower max_characters."
        )
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=_MIN_FREQUENCY,
        show_progress=False,
        special_tokens=first,
    )
    learner = tokenizers.Tokenizer(tokenizers.models.WordPiece())
    learner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    alphabet = frozenset(first)
    known = {
        word: words[word] for word in sorted(words) if _knows(alphabet, word)
    }
    learner.train_from_iterator(_repeat(known), trainer)
    ids = learner.get_vocab(with_added_tokens=False)
    if len(ids) < vocab_size:
        logging.warning(
            "the words give only %d entries of %d", len(ids), vocab_size
        )
    return sorted(ids, key=ids.get)


def _characters(words: Mapping[str, int], max_characters: int) -> list[str]:
    """Returns entries for the most frequent characters, sorted.

    A character that occurs in words of several characters gets two entries,
    `a` and `##a`; one that is always a word by itself, such as punctuation and
    Chinese characters, gets one.
    """
    alone: collections.Counter[str] = collections.Counter()
    inside: collections.Counter[str] = collections.Counter()
    for word, number in words.items():
        if len(word) <= vocab.MAX_CHARS_PER_WORD:
            (alone if len(word) == 1 else inside).update(
                dict.fromkeys(word, number)
            )
    both = alone + inside
    kept = sorted(both, key=lambda character: (-both[character], character))
    kept = sorted(kept[:max_characters])
    return kept + [f"##{character}" for character in kept if inside[character]]


def _knows(entries: Collection[str], word: str) -> bool:
    """Returns whether single-character entries can spell a word."""
    return (
        len(word) <= vocab.MAX_CHARS_PER_WORD
        and word[0] in entries
        and all(f"##{character}" in entries for character in word[1:])
    )


def _repeat(words: Mapping[str, int]) -> Iterator[str]:
    """Yields each word as often as it was counted, many per string."""
    scale = min(1.0, _MAX_OCCURRENCES / max(1, sum(words.values())))
    for word, number in words.items():
        number = max(1, round(number * scale))
        for start in range(0, number, _WORDS_PER_STRING):
            yield f"{word} " * min(number - start, _WORDS_PER_STRING)


def coverage(entries: Iterable[str], words: Mapping[str, int]) -> float:
    """Returns the fraction of word occurrences that are not [UNK]."""
    known = frozenset(entries)
    total = sum(words.values())
    spelt = sum(number for word, number in words.items() if _knows(known, word))
    return spelt / total if total else 0.0

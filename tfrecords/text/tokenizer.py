"""Strings -> ragged token ids, equal to those of the original tokenizer.

google-research/bert tokenization.py: FullTokenizer, as TensorFlow ops for
tf.data and SavedModels. See words.py for the word rules and the few known
differences. N strings.
"""

import functools
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from tfrecords.text import vocab as vocab_lib
from tfrecords.text import word_pieces, words

# ASCII without dropped characters: one byte per character, cleaned or not.
_ASCII = r"[\t\n\r -~]*"


def _check_rank(strings: tf.Tensor) -> tf.Tensor:
    strings = tf.convert_to_tensor(strings, tf.string)
    if strings.shape.rank != 1:
        raise ValueError(
            f"Strings have shape {strings.shape}; the tokenizer expects a "
            "vector [N]. Reshape them, or pass a list."
        )
    return strings


class BertTokenizer(tf.Module):
    """Converts strings to WordPiece ids; adds no special tokens.

    As in the original, "[MASK]" in a text is split into `[`, `mask`, `]`,
    unless it is among `kept_tokens` or `split_special_tokens` is false. To be
    exported, the tokenizer must be an attribute of the exported module.

    Args:
      vocab_file: path of a file with one entry per line, as released with
        BERT; its content; or the entries, in the order of their ids.
      do_lower_case: whether to lower-case and to strip accents; True for
        uncased vocabularies.
      kept_tokens: entries that are not split, even within a word:
        `vocab.SPECIAL_TOKENS`, or custom markers. They are matched exactly,
        before lower-casing.
      strip_accents: whether to strip accents; None: as `do_lower_case`, as in
        the original. Named as in Hugging Face's BertTokenizer, like the next.
      tokenize_chinese_chars: whether each Chinese character is a word, as in
        the original.
      split_special_tokens: whether `vocab.special_tokens` in a text are split
        as any text, as in the original; otherwise they are `kept_tokens`, so
        that a text can contain a separator, or a token of one's own such as
        [DRUG]. Named as in transformers, where the default is False.

    Call arguments:
      strings: [N] string, UTF-8; invalid bytes are dropped.

    Returns:
      RaggedTensor [N, (tokens)] int32.

    Attributes:
      vocab: entries, in the order of their ids.
      vocab_size: number of entries.
      kept_tokens: those given, and special tokens that are not split.
      do_lower_case, strip_accents, tokenize_chinese_chars,
        split_special_tokens: as given.
      rules: `do_lower_case`, and those of the other `vocab.RULES` that differ
        from the original's, see `vocab.rules_of`: entries of model.json and of
        a manifest, and keyword arguments of a tokenizer that splits text in
        the same way.
      sha256: digest of the file's bytes, in hexadecimal; for entries, that of
        the file that `vocab.write` makes of them.
      pad_id, unk_id, cls_id, sep_id, mask_id: ids of the special tokens.

    Raises:
      ValueError: if the vocabulary is missing or malformed, see `vocab.read`,
        or does not contain one of `kept_tokens`.
    """

    def __init__(
        self,
        vocab_file: str | vocab_lib.Vocabulary | Sequence[str],
        do_lower_case: bool = True,
        kept_tokens: Sequence[str] = (),
        *,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
        split_special_tokens: bool = True,
    ):
        super().__init__()
        if isinstance(vocab_file, (str, os.PathLike)):
            vocab_file = vocab_lib.Vocabulary.open(vocab_file)
        if isinstance(vocab_file, vocab_lib.Vocabulary):
            entries, self.sha256 = vocab_file.entries(), vocab_file.sha256()
            vocab_file = vocab_file.path
        else:
            entries, vocab_file = list(vocab_file), "the vocabulary"
            vocab_lib.check(entries, vocab_file)
            file = vocab_lib.to_bytes(entries)
            self.sha256 = hashlib.sha256(file).hexdigest()
        self.do_lower_case = bool(do_lower_case)
        self.strip_accents = strip_accents
        self.tokenize_chinese_chars = tokenize_chinese_chars
        self.split_special_tokens = split_special_tokens
        self._clean = functools.partial(
            words.clean,
            do_lower_case=do_lower_case,
            strip_accents=strip_accents,
        )
        self.vocab_size = len(entries)
        ids = {entry: i for i, entry in enumerate(entries)}
        self.pad_id = ids["[PAD]"]
        self.unk_id = ids["[UNK]"]
        self.cls_id = ids["[CLS]"]
        self.sep_id = ids["[SEP]"]
        self.mask_id = ids["[MASK]"]
        _check_kept(kept_tokens, ids, vocab_file)
        if not split_special_tokens:
            kept = (*kept_tokens, *vocab_lib.special_tokens(entries))
            kept_tokens = tuple(dict.fromkeys(kept))
        words.warn_of_unreachable(
            entries,
            vocab_file,
            vocab_lib.all_rules_of(
                {name: getattr(self, name) for name in vocab_lib.RULES}
            ),
            kept_tokens,
        )
        # A tuple, because tf.Module would wrap and track a list.
        self.kept_tokens = tuple(kept_tokens)
        self._kept_ids = tuple(ids[token] for token in kept_tokens)
        self._read_entries = lambda: entries
        # The ops that read it run on the CPU.
        with tf.device("CPU"):
            self._entries = tf.constant(entries)
        self._word_pieces = word_pieces.WordPieces(
            entries, tokenize_chinese_chars
        )

    @property
    def vocab(self) -> list[str]:
        """The entries, in the order of their ids."""
        return self._read_entries()

    @property
    def rules(self) -> dict[str, bool]:
        """The rules; see the class."""
        return vocab_lib.rules_of(
            {name: getattr(self, name) for name in vocab_lib.RULES}
        )

    def __call__(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Returns token ids, [N, (tokens)] int32; see the class."""
        return self._around_kept(_check_rank(strings), self._tokenize).ids

    def tokenize_each(self, *vectors: tf.Tensor) -> list[tf.RaggedTensor]:
        """Returns the token ids of each vector of strings, as `__call__` does.

        All are tokenized at once: a graph holds the operations only once.
        """
        sizes = [tf.size(strings) for strings in vectors]
        ids = self(tf.concat(vectors, axis=0))
        return [
            ids[end - size : end]
            for size, end in zip(
                sizes, tf.unstack(tf.cumsum(sizes)), strict=True
            )
        ]

    def tokenize_with_offsets(
        self, strings: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns token ids and the offsets of each token in its string.

          strings   "Cafés, naïve"
          tokens    cafe ##s , naive
          starts    0    4   5 7
          ends      4    5   6 12

        Offsets count code points of the string as decoded by Python's
        `decode("utf-8", "replace")`. A token includes the accents stripped
        from its last character, such as U+0301 after an e. A token that is
        only part of a character, such as a letter of a Hangul syllable, spans
        all of it. [UNK] spans its word.

        Args:
          strings: [N] string, UTF-8; invalid bytes are dropped.

        Returns:
          ids, starts, ends: RaggedTensors [N, (tokens)] int32. The ids equal
          those of `__call__`; ends are exclusive.
        """
        tokenize = functools.partial(self._tokenize, in_characters=True)
        return tuple(self._around_kept(_check_rank(strings), tokenize))

    def _tokenize(
        self, strings: tf.Tensor, in_characters: bool = False
    ) -> word_pieces.Pieces:
        """Returns pieces; offsets are valid only with `in_characters`."""
        if in_characters:
            is_plain = tf.strings.regex_full_match(strings, _ASCII)
        else:
            is_plain = self._word_pieces.is_plain(strings)
        rows = word_pieces.partition(is_plain)
        other, plain = (tf.gather(strings, row) for row in rows)
        cleaned = self._clean(other)
        pieces = self._word_pieces(cleaned)
        if in_characters:
            from tfrecords.text import token_offsets

            offsets = token_offsets.in_characters(
                *(other, cleaned, pieces.starts, pieces.ends),
                *(words.drop, self._clean),
            )
            pieces = word_pieces.Pieces(pieces.ids, *offsets)
        if self.do_lower_case:
            plain = tf.strings.lower(plain)
        plain_pieces = self._word_pieces.split_plain(plain)
        return word_pieces.merge(rows, [pieces, plain_pieces])

    def _around_kept(
        self,
        strings: tf.Tensor,
        tokenize: Callable[[tf.Tensor], word_pieces.Pieces],
    ) -> word_pieces.Pieces:
        """Returns `tokenize(strings)` without splitting `kept_tokens`."""
        if not self.kept_tokens:
            return tokenize(strings)
        segments = words.split_around(strings, self.kept_tokens)
        texts = segments.flat_values  # [segments]
        index = tf.ragged.range(segments.row_lengths()).flat_values
        is_kept = index % 2 == 1
        kept = tf.boolean_mask(texts, is_kept)
        matches = kept[:, tf.newaxis] == tf.constant(self.kept_tokens)
        # In characters, like the offsets.
        lengths = tf.strings.length(texts, "UTF8_CHAR")
        ends = tf.boolean_mask(lengths, is_kept)
        kept = word_pieces.Pieces(
            tf.gather(self._kept_ids, tf.argmax(matches, axis=1)),
            tf.zeros_like(ends),
            ends,
        )
        # One piece for each kept segment, none for the others.
        num_kept = tf.cast(is_kept, tf.int64)
        pieces = word_pieces.each(
            lambda one, many: tf.concat(
                [tf.RaggedTensor.from_row_lengths(one, num_kept), many], axis=1
            ),
            kept,
            tokenize(tf.where(is_kept, "", texts)),
        )  # [segments, (pieces)]
        before = tf.cumsum(lengths, exclusive=True)  # [segments]
        first = tf.gather(segments.row_starts(), segments.value_rowids())
        before -= tf.gather(before, first)
        return word_pieces.join(segments, pieces, before)

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Joins tokens with spaces, and `##` pieces to the preceding piece.

        Args:
          ids: [N, (tokens)] int32, ragged or dense; each below `vocab_size`.

        Returns:
          [N] string.
        """
        tokens = tf.gather(self._entries, ids)
        joined = tf.strings.reduce_join(tokens, axis=-1, separator=" ")
        return tf.strings.regex_replace(joined, " ##", "")


def _check_kept(
    kept_tokens: Sequence[str], ids: Mapping[str, int], vocab_file: str
) -> None:
    if isinstance(kept_tokens, str):
        raise ValueError(
            f"kept_tokens is the string {kept_tokens!r}; pass a tuple of "
            f"strings, such as ({kept_tokens!r},)."
        )
    unknown = [token for token in kept_tokens if token not in ids]
    if unknown:
        raise ValueError(
            f"kept_tokens has {', '.join(map(repr, unknown))}, not found in "
            f"{vocab_file}. Use only entries of the vocabulary, such as "
            "vocab.SPECIAL_TOKENS, or add the token to it."
        )

"""Strings -> ragged token ids, by the rules of the original tokenizer.

google-research/bert tokenization.py: BasicTokenizer, WordpieceTokenizer, as
ops that run in tf.data and inside a SavedModel alike. N strings.
"""

from collections.abc import Sequence

import tensorflow as tf
import tensorflow_text as tf_text

from tfrecords import vocab as vocab_lib

# ASCII of which nothing is dropped. Such strings, nine of ten in English, need
# neither cleaning nor Unicode and take a way that is twice as fast.
_PLAIN = r"[\t\n\r -~]*"
# tokenization.py: _is_control (\t, \n and \r are space), and U+FFFD.
_DROPPED = r"[\x00-\x08\x0B\x0C\x0E-\x1F\x7F-\x{9F}\p{Cf}\x{FFFD}]+"
_ACCENTS = r"\p{Mn}+"
# str.split() also splits at the line and paragraph separators, so all of Z.
_SPACE = r"[\t\n\r\p{Z}]+"
# tokenization.py: _is_punctuation counts all ASCII symbols, such as $ and ^.
_PUNCTUATION = r"!-/:-@\[-`{-~\p{P}"
# tokenization.py: _is_chinese_char.
_CHINESE = (
    r"\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}"
    r"\x{2B740}-\x{2B81F}\x{2B820}-\x{2CEAF}\x{F900}-\x{FAFF}"
    r"\x{2F800}-\x{2FA1F}"
)
_ALONE = f"[{_PUNCTUATION}{_CHINESE}]"


def _clean(strings: tf.Tensor, do_lower_case: bool) -> tf.Tensor:
    """Drops what is not text and, if asked, case and accents."""
    # Every rule below sees valid UTF-8.
    strings = tf.strings.unicode_transcode(
        strings, "UTF-8", "UTF-8", errors="ignore"
    )
    strings = tf.strings.regex_replace(strings, _DROPPED, "")
    if not do_lower_case:
        return strings
    # ASCII first and by bytes: ICU alone would turn I into a dotless i where
    # the machine's language is Turkish. This ICU knows Unicode 13, so capitals
    # that came later (Vithkuqi, ten Latin ones) stay capitals.
    strings = tf.strings.lower(tf.strings.lower(strings), "utf-8")
    strings = tf_text.normalize_utf8(strings, "NFD")
    return tf.strings.regex_replace(strings, _ACCENTS, "")


def _split(cleaned: tf.Tensor) -> tf.RaggedTensor:
    """Splits at space, and around each punctuation and Chinese character."""
    return tf_text.regex_split(cleaned, f"{_SPACE}|{_ALONE}", _ALONE)


def split_words(strings: tf.Tensor, do_lower_case: bool) -> tf.RaggedTensor:
    """Splits strings into the words that WordPiece splits further.

    Args:
      strings: [N] string, UTF-8; invalid bytes are dropped.
      do_lower_case: whether to lower case and to strip accents.

    Returns:
      [N, (words)] string.
    """
    return _split(_clean(strings, do_lower_case))


def _check_rank(strings: tf.Tensor) -> tf.Tensor:
    strings = tf.convert_to_tensor(strings, tf.string)
    if strings.shape.rank != 1:
        raise ValueError(
            f"Strings have shape {strings.shape}; a tokenizer takes a vector "
            "[N] of them. Reshape them, or pass a list."
        )
    return strings


class BertTokenizer(tf.Module):
    """Turns strings into WordPiece ids; adds no special tokens.

    Text such as "[MASK]" is text: `[`, `mask`, `]`, as in the original.
    To be exported, the tokenizer must be an attribute of the exported module.

    Args:
      vocab_file: one entry a line, as released with BERT.
      do_lower_case: whether to lower case and to strip accents; True for
        uncased vocabularies.

    Call arguments:
      strings: [N] string, UTF-8; invalid bytes are dropped.

    Returns:
      RaggedTensor [N, (tokens)] int32.

    Attributes:
      vocab: entries, in the order of their ids.
      vocab_size: number of entries.
      do_lower_case: as given.
      sha256: digest of the file's bytes, in hexadecimal.
      pad_id, unk_id, cls_id, sep_id, mask_id: ids of the special tokens.

    Raises:
      ValueError: if the vocabulary is missing or malformed; see vocab.read.
    """

    def __init__(self, vocab_file: str, do_lower_case: bool = True):
        super().__init__()
        entries = vocab_lib.read(vocab_file)
        self.sha256 = vocab_lib.digest(vocab_file)
        self.do_lower_case = do_lower_case
        self.vocab_size = len(entries)
        ids = {entry: i for i, entry in enumerate(entries)}
        self.pad_id = ids["[PAD]"]
        self.unk_id = ids["[UNK]"]
        self.cls_id = ids["[CLS]"]
        self.sep_id = ids["[SEP]"]
        self.mask_id = ids["[MASK]"]
        # A function, because tf.Module would wrap and track a list.
        self._read_entries = lambda: entries
        # The ops below run on the CPU; so must their tables be there.
        with tf.device("CPU"):
            self._entries = tf.constant(entries)
            self._pieces_of_plain = _fast_wordpiece(
                entries, max_bytes_per_word=vocab_lib.MAX_CHARS_PER_WORD
            )
            self._pieces_of_words = _fast_wordpiece(
                entries,
                # A character has four bytes at most.
                max_bytes_per_word=4 * vocab_lib.MAX_CHARS_PER_WORD,
                no_pretokenization=True,
            )

    @property
    def vocab(self) -> list[str]:
        """The entries, in the order of their ids."""
        return self._read_entries()

    def __call__(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Returns token ids, [N, (tokens)] int32; see the class."""
        strings = _check_rank(strings)
        count = tf.size(strings)
        is_plain = tf.strings.regex_full_match(strings, _PLAIN)
        parts = tf.cast(is_plain, tf.int32)
        other, plain = tf.dynamic_partition(strings, parts, 2)
        ids = tf.concat([self._tokenize(other), self._tokenize_plain(plain)], 0)
        # Row k of `ids` is string number `rows[k]`; go back to their order.
        rows = tf.concat(tf.dynamic_partition(tf.range(count), parts, 2), 0)
        return tf.gather(ids, tf.math.invert_permutation(rows))

    def _tokenize_plain(self, strings: tf.Tensor) -> tf.RaggedTensor:
        if self.do_lower_case:
            strings = tf.strings.lower(strings)
        return self._pieces_of_plain.tokenize(strings)  # [N, (tokens)]

    def _tokenize(self, strings: tf.Tensor) -> tf.RaggedTensor:
        words = split_words(strings, self.do_lower_case)  # [N, (words)]
        # The library's limit counts bytes, the original's characters.
        is_long = (
            tf.strings.length(words.flat_values, "UTF8_CHAR")
            > vocab_lib.MAX_CHARS_PER_WORD
        )
        words = words.with_flat_values(
            tf.where(is_long, "[UNK]", words.flat_values)
        )
        pieces = self._pieces_of_words.tokenize(words)  # [N, (words), (pieces)]
        return pieces.merge_dims(-2, -1)

    def basic_split(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Returns words before WordPiece, [N, (words)] string."""
        return split_words(_check_rank(strings), self.do_lower_case)

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Joins tokens with spaces, and `##` pieces to what stands before.

        Args:
          ids: [N, (tokens)] int32, ragged or dense; each below `vocab_size`.

        Returns:
          [N] string.
        """
        tokens = tf.gather(self._entries, ids)
        joined = tf.strings.reduce_join(tokens, axis=-1, separator=" ")
        return tf.strings.regex_replace(joined, " ##", "")


def _fast_wordpiece(
    entries: Sequence[str], **settings
) -> tf_text.FastWordpieceTokenizer:
    return tf_text.FastWordpieceTokenizer(
        vocab=entries,
        token_out_type=tf.int32,
        unknown_token="[UNK]",
        **settings,
    )

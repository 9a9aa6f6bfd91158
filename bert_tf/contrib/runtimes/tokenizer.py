"""Texts -> token ids, with the rules of BERT's original tokenizer.

This file needs only Python. `export_savedmodel` copies it beside models for
runtimes that have no string operations:

    tokenizer = Tokenizer("vocab.txt", do_lower_case=True)
    rows = [tokenizer.encode("a fine film", max_seq_length=128)]
    inputs = pad(rows)

The result equals that of the model's training. On Python 3.11 this holds for
all of Unicode 14; on others, characters added or changed in between may differ.

Rows are dicts of lists: `input_word_ids`, `input_mask`, `input_type_ids`.
Shapes: S maximum number of tokens in a row.
"""

import bisect
import functools
import re
import string
import unicodedata
from typing import NamedTuple

POSITIONS = "masked_lm_positions"
MASKED_IDS = "masked_lm_ids"
# Kind of model -> fields of a text, see `encode_fields`.
FIELDS = {
    "classification": ("text_a", "text_b"),
    "multi_label": ("text_a", "text_b"),
    "regression": ("text_a", "text_b"),
    "ranking": ("query", "passages"),
    "question_answering": ("question", "context"),
    "multiple_choice": ("context", "endings"),
    "tagging": ("text", "words"),
    "fill_mask": ("text",),
    "pseudo_log_likelihood": ("text",),
    "sentence_embedding": ("text",),
    "encoder": ("text_a", "text_b"),
}
# [SEP] and the like, and tokens of one's own, such as [DRUG].
SPECIAL = re.compile(r"\[/?[A-Z][A-Z0-9_]*\]")
# Kind -> what its tokenizer must not split.
KEPT_TOKENS = {"fill_mask": ("[MASK]",)}
# Those that may be missing, and those that are lists of texts.
OPTIONAL = ("text_b", "words")
LISTS = ("endings", "passages", "words")
# As in the original; longer words are [UNK].
MAX_CHARS_PER_WORD = 200
_CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class Token(NamedTuple):
    """Id of a token, and its offsets in the text, in characters."""

    id: int
    start: int
    end: int  # Exclusive.


class Word(NamedTuple):
    """A word for a tagger, and its offsets in the text, in characters.

    A word that was given without a text has no offsets.
    """

    text: str
    start: int | None = None
    end: int | None = None  # Exclusive.


class Window(NamedTuple):
    """Part of a passage after its question; lists have one item per token.

    Attributes:
      row: inputs of the model, without padding.
      tokens: tokens of the passage in this window; those of `row` begin at
        `offset`.
      offset: position in `row` of the first token of the passage.
      has_max_context: for each of `tokens`, whether no other window has more
        context on both sides of it. Answers begin only at such tokens.
    """

    row: dict
    tokens: list
    offset: int
    has_max_context: list


@functools.lru_cache(maxsize=1 << 16)
def _is_dropped(character):
    if character in "\t\n\r":
        return False
    is_control = unicodedata.category(character) in ("Cc", "Cf")
    return is_control or character == "\ufffd"


def _is_chinese(character):
    if character < "\u3400":
        return False
    return any(low <= ord(character) <= high for low, high in _CHINESE)


def _is_punctuation(character):
    # All symbols of ASCII count, such as $ and ^.
    if character in string.punctuation:
        return True
    return unicodedata.category(character).startswith("P")


def _is_space(character):
    # Separators of words, lines and paragraphs.
    if character in "\t\n\r":
        return True
    return unicodedata.category(character).startswith("Z")


@functools.lru_cache(maxsize=1 << 16)
def _clean(word, do_lower_case, strip_accents):
    """Returns a word lower-cased and without accents, if so set."""
    if do_lower_case:
        word = word.lower()
    if not strip_accents:
        return word
    letters = unicodedata.normalize("NFD", word)
    return "".join(c for c in letters if unicodedata.category(c) != "Mn")


def _words(text, do_lower_case, strip_accents, tokenize_chinese_chars):
    """Returns the words of a text, cleaned and split at punctuation."""
    spaced = []
    for character in text:
        if _is_dropped(character):
            continue
        if _is_space(character):
            character = " "
        elif tokenize_chinese_chars and _is_chinese(character):
            character = f" {character} "
        spaced.append(character)
    words = []
    for word in "".join(spaced).split():
        cleaned = _clean(word, do_lower_case, strip_accents)
        if cleaned.isalnum() and cleaned.isascii():
            words.append(cleaned)
            continue
        apart = (f" {c} " if _is_punctuation(c) else c for c in cleaned)
        words += "".join(apart).split()
    return words


def _spans(text, do_lower_case, strip_accents):
    """Returns (start, end) in the text of each character of its words.

    A stripped accent belongs to the character before it.
    """
    groups = []  # [cleaned characters, start, end]
    for offset, character in enumerate(text):
        if _is_dropped(character):
            continue
        if _is_space(character):
            cleaned = " "
        else:
            cleaned = _clean(character, do_lower_case, strip_accents)
        if cleaned:
            groups.append([cleaned, offset, offset + 1])
        elif groups:
            groups[-1][2] = offset + 1
    return [
        (start, end)
        for cleaned, start, end in groups
        for character in cleaned
        if not character.isspace()
    ]


class Tokenizer:
    """Converts texts to ids of WordPiece tokens.

    Args:
      vocab_file: vocab.txt, one entry per line, UTF-8.
      do_lower_case: whether to lower-case and strip accents, as the model's
        training did.
      kept_tokens: entries that are not split, such as ("[MASK]",).
      strip_accents: whether to strip accents; None: as `do_lower_case`.
      tokenize_chinese_chars: whether each Chinese character is a word.
      split_special_tokens: whether [SEP] and other special tokens in a text
        are split as any text; otherwise they are these tokens.

    Attributes:
      entries: the vocabulary, in the order of the ids.
      ids: entry -> id.

    Raises:
      ValueError: if the vocabulary is not UTF-8, or lacks a special token.
    """

    def __init__(
        self,
        vocab_file,
        do_lower_case=True,
        kept_tokens=(),
        *,
        strip_accents=None,
        tokenize_chinese_chars=True,
        split_special_tokens=True,
    ):
        try:
            with open(vocab_file, encoding="utf-8-sig", newline="\n") as file:
                lines = file.read().removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{vocab_file} is not UTF-8 ({error}).") from error
        self.entries = [line.strip(" \t\r") for line in lines]
        self.ids = {entry: i for i, entry in enumerate(self.entries)}
        if strip_accents is None:
            strip_accents = do_lower_case
        self._cleaning = do_lower_case, strip_accents
        self._tokenize_chinese_chars = tokenize_chinese_chars
        self.kept_tokens = tuple(kept_tokens)
        if not split_special_tokens:
            self.kept_tokens += (*filter(SPECIAL.fullmatch, self.entries),)
        for token in ("[UNK]", "[CLS]", "[SEP]", *self.kept_tokens):
            if token not in self.ids:
                raise ValueError(
                    f"{vocab_file} has no entry {token}; give the vocab.txt of "
                    "the model."
                )
        self._pieces = functools.lru_cache(maxsize=1 << 16)(self._split)

    def _split(self, word):
        """Returns [(id, number of characters), ...] by the longest match."""
        unknown = [(self.ids["[UNK]"], len(word))]
        if len(word) > MAX_CHARS_PER_WORD:
            return unknown
        pieces, start = [], 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                if prefix + word[start:end] in self.ids:
                    break
            else:
                return unknown
            pieces.append((self.ids[prefix + word[start:end]], end - start))
            start = end
        return pieces

    def tokenize(self, text):
        """Returns the ids of the tokens of a text, without special tokens."""
        ids = []
        for part in self._around_kept(text):
            if part in self.kept_tokens:
                ids.append(self.ids[part])
                continue
            for word in self._words(part):
                ids += [piece for piece, _ in self._pieces(word)]
        return ids

    def tokenize_with_offsets(self, text):
        """Returns the tokens of a text, without special tokens, as Tokens."""
        tokens, offset = [], 0
        for part in self._around_kept(text):
            if part in self.kept_tokens:
                tokens.append(Token(self.ids[part], offset, offset + len(part)))
            else:
                tokens += self._locate(part, offset)
            offset += len(part)
        return tokens

    def _words(self, text):
        return _words(text, *self._cleaning, self._tokenize_chinese_chars)

    def _around_kept(self, text):
        """Splits a text before and after each kept token."""
        if not self.kept_tokens:
            return [text]
        longest_first = sorted(self.kept_tokens, key=len, reverse=True)
        pattern = "|".join(map(re.escape, longest_first))
        return re.split(f"({pattern})", text)

    def _locate(self, text, offset):
        """Returns the Tokens of a text that begins at `offset`."""
        spans = _spans(text, *self._cleaning)
        tokens, first = [], 0
        for word in self._words(text):
            for piece, length in self._pieces(word):
                start, end = spans[first][0], spans[first + length - 1][1]
                tokens.append(Token(piece, offset + start, offset + end))
                first += length
        return tokens

    def encode(self, text_a, text_b="", *, max_seq_length):
        """Returns the row of a text or pair: [CLS] a [SEP] b [SEP].

        If it has more than `max_seq_length` tokens, the longer of both texts
        loses its last token until it fits. An empty second text has no [SEP].
        """
        return self._join(
            self.tokenize(text_a), self.tokenize(text_b), max_seq_length
        )

    def encode_long(
        self, text_a, text_b="", *, max_seq_length, long_text="cut"
    ):
        """Returns the rows of a text or pair, which is read as in training.

        Of a text that is too long, `long_text` is "cut", as in `encode`;
        "head_tail", its first and last tokens; or "windows" or "windows_max", a
        row for each part. Others are as for `encode`.
        """
        ids = [self.tokenize(text_a), self.tokenize(text_b)]
        if long_text == "head_tail":
            most = _rooms(*ids, max_seq_length)
            ids = [_head_and_tail(*x) for x in zip(ids, most, strict=True)]
        if not long_text.startswith("windows"):
            return [self._join(*ids, max_seq_length)]
        most = _rooms(*ids, max_seq_length)
        parts_a, parts_b = map(_parts, ids, most)
        return [
            self._join(
                parts_a[min(i, len(parts_a) - 1)],
                parts_b[min(i, len(parts_b) - 1)],
                max_seq_length,
            )
            for i in range(max(len(parts_a), len(parts_b)))
        ]

    def _join(self, ids_a, ids_b, max_seq_length):
        most_a, most_b = _rooms(ids_a, ids_b, max_seq_length)
        sep = self.ids["[SEP]"]
        first = [self.ids["[CLS]"], *ids_a[:most_a], sep]
        second = [*ids_b[:most_b], sep] if ids_b else []
        return _row(first, second)

    def mask_positions(self, row):
        """Returns the positions of [MASK] in a row."""
        mask = self.ids["[MASK]"]
        ids = row["input_word_ids"]
        return [position for position, i in enumerate(ids) if i == mask]

    def question_windows(
        self,
        question,
        context,
        *,
        max_seq_length,
        doc_stride=128,
        max_query_length=64,
    ):
        """Returns the Windows of a passage: [CLS] question [SEP] part [SEP].

        A window begins `doc_stride` tokens of the passage after the one before.
        """
        query = self.tokenize(question)
        query = query[: min(max_query_length, max_seq_length - 4)]
        tokens = self.tokenize_with_offsets(context)
        room = max_seq_length - 3 - len(query)
        step = min(room, doc_stride)
        rest = max(len(tokens) - room, 0)
        starts = [step * i for i in range(1 - (-rest // step))]
        spans = [(start, min(start + room, len(tokens))) for start in starts]
        cls, sep = self.ids["[CLS]"], self.ids["[SEP]"]
        first = [cls, *query, sep]
        best = _best_windows(spans, len(tokens))
        windows = []
        for number, (start, end) in enumerate(spans):
            part = tokens[start:end]
            row = _row(first, [*(token.id for token in part), sep])
            is_best = [best[i] == number for i in range(start, end)]
            windows.append(Window(row, part, len(first), is_best))
        return windows

    def word_windows(self, words, *, max_seq_length, doc_stride=None):
        """Returns the rows of a sequence of words, and where each word is.

        Args:
          words: list of str.
          max_seq_length: S; a word keeps its first S - 2 pieces.
          doc_stride: pieces from the start of one window to that of the next,
            rounded up to a word; None for half a window.

        Returns:
          rows, each [CLS] pieces [SEP]; and (row, position) of each word's
          first piece, where its tag is predicted.
        """
        most = max_seq_length - 2
        stride = doc_stride or max(1, most // 2)
        unknown = [self.ids["[UNK]"]]
        pieces = [(self.tokenize(word) or unknown)[:most] for word in words]
        before = [0]  # Pieces before each word, and in total.
        for ids in pieces:
            before.append(before[-1] + len(ids))
        spans = _make_spans(before, most, stride)
        rows = [
            self._join(sum(pieces[first:last], []), [], max_seq_length)
            for first, last in spans
        ]
        return rows, _place_words(spans, before)


def _rooms(ids_a, ids_b, max_seq_length):
    """Returns the number of tokens that each text may have."""
    room = max_seq_length - (3 if ids_b else 2)
    half_b = room // 2
    most_a = max(room - len(ids_b), room - half_b)
    return most_a, max(room - len(ids_a), half_b)


def _parts(ids, most):
    """Returns the parts of a text, of `most` ids each; at least one."""
    return [ids[i : i + most] for i in range(0, max(len(ids), 1), most)]


def _head_and_tail(ids, most):
    """Returns the first and last ids, 128 to 382."""
    most = min(most, len(ids))
    first = -(-most * 128 // 510)
    return ids[:first] + ids[len(ids) - most + first :]


def _row(first, second):
    """Returns the row of one or two segments with their special tokens."""
    return {
        "input_word_ids": first + second,
        "input_mask": [1] * (len(first) + len(second)),
        "input_type_ids": [0] * len(first) + [1] * len(second),
    }


def _best_windows(spans, num_tokens):
    """Returns the number of the window with the most context of each token.

    The context is the smaller of the numbers of tokens to its left and right,
    plus a bonus for the window's length; ties go to the first window.
    """
    best, scores = [0] * num_tokens, [-1.0] * num_tokens
    for number, (start, end) in enumerate(spans):
        for token in range(start, end):
            score = min(token - start, end - 1 - token) + 0.01 * (end - start)
            if score > scores[token]:
                best[token], scores[token] = number, score
    return best


def _make_spans(before, most, stride):
    """Returns (first word, end) of each window of at most `most` pieces."""
    num_words, spans, first = len(before) - 1, [], 0
    while first < num_words:
        last = bisect.bisect_right(before, before[first] + most) - 1
        spans.append((first, last))
        if last == num_words:
            break
        # The last window starts early enough to be full.
        wanted = min(before[first] + stride, before[-1] - most)
        first = min(bisect.bisect_left(before, wanted), last)
    return spans


def _place_words(spans, before):
    """Returns (window, position) of each word; [CLS] is at position 0.

    The window changes in the middle of the pieces that two windows share.
    """
    positions, window = [], 0
    for word in range(len(before) - 1):
        while window + 1 < len(spans):
            shared = before[spans[window][1]] + before[spans[window + 1][0]]
            if before[word] < shared // 2:
                break
            window += 1
        start = before[spans[window][0]]
        positions.append((window, 1 + before[word] - start))
    return positions


def split_words(text):
    """Returns the Words of a text for a tagger.

    Words end at whitespace. Punctuation around a word is split off, and that
    inside a word is kept: "(U.N.)," becomes ( U.N . ) and a comma. Each Chinese
    character is a word.
    """
    words = []
    for run in re.finditer(_RUN, text):
        start, end = run.span()
        letters = [
            i
            for i in range(start, end)
            if not _is_space(text[i]) and not _is_punctuation(text[i])
        ]
        inner = range(letters[0], letters[-1] + 1) if letters else range(0)
        first = start  # Of the word that is being read.
        for i in range(start, end):
            is_alone = _is_chinese(text[i]) or i not in inner
            if is_alone:
                words += [Word(text[first:i], first, i)] if first < i else []
                words.append(Word(text[i], i, i + 1))
                first = i + 1
        if first < end:
            words.append(Word(text[first:end], first, end))
    return words


# Separators of Unicode, as in _is_space.
_RUN = "[^\t\n\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"


def needed(kind):
    """Returns the fields that no text of a kind may lack."""
    return [name for name in FIELDS[kind] if name not in OPTIONAL]


def choose_format(path, kind, given="auto"):
    """Returns "text", "jsonl", "csv", "tsv" or "parquet", the format of a file.

    This is the rule of `predict`, predict.py and --report_file. The content
    decides nothing, since a text may begin with a brace.

    Args:
      path: path of the file, without .gz and the like.
      kind: kind of the model.
      given: the format that the user gave; "auto" for none.
    """
    if given != "auto":
        return given
    _, dot, ending = path.lower().rpartition(".")
    if dot and ending in ("jsonl", "ndjson", "json"):
        return "jsonl"
    if dot and ending in ("csv", "tsv", "parquet"):
        return ending
    return "text" if len(needed(kind)) == 1 else "jsonl"


def encode_fields(tokenizer, fields, settings):
    """Returns the rows that a model reads for a text.

    Args:
      tokenizer: a Tokenizer; for fill_mask it keeps [MASK].
      fields: name -> str, or list of str for those in LISTS; names are those
        of FIELDS.
      settings: content of model.json.
    """
    encode = _ENCODE.get(settings["kind"], _encode_texts)
    return encode(tokenizer, fields, settings)


# Entries of model.json.
_LENGTH = ("max_seq_length", "long_text")


def _encode_texts(tokenizer, fields, settings):
    # A model of single texts reads no text_b.
    names = FIELDS[settings["kind"]][: settings.get("num_texts")]
    texts = [fields.get(name) or "" for name in names]
    texts[0] = settings.get("prompt", "") + texts[0]
    how = {x: settings[x] for x in _LENGTH if x in settings}
    return tokenizer.encode_long(*texts, **how)


def _encode_masks(tokenizer, fields, settings):
    (row,) = _encode_texts(tokenizer, fields, settings)
    return [row | {POSITIONS: tokenizer.mask_positions(row)}]


def _encode_each_token(tokenizer, fields, settings):
    (row,) = _encode_texts(tokenizer, fields, settings)
    ids, mask = row["input_word_ids"], tokenizer.ids["[MASK]"]
    rows = []
    for first in range(1, len(ids) - 1):  # Not of [CLS] and [SEP].
        end = first + 1
        while settings["within_word_masking"] and tokenizer.entries[
            ids[end]
        ].startswith("##"):
            end += 1
        masked = [*ids[:first], *[mask] * (end - first), *ids[end:]]
        places = {POSITIONS: [first], MASKED_IDS: [ids[first]]}
        rows.append(row | {"input_word_ids": masked} | places)
    return rows


def _encode_endings(tokenizer, fields, settings):
    context, length = fields["context"], settings["max_seq_length"]
    return [
        tokenizer.encode(context, ending, max_seq_length=length)
        for ending in fields["endings"]
    ]


def _encode_passages(tokenizer, fields, settings):
    query, length = fields["query"], settings["max_seq_length"]
    return [
        tokenizer.encode(query, passage, max_seq_length=length)
        for passage in fields["passages"]
        if passage
    ]


def _encode_words(tokenizer, fields, settings):
    _, rows, _ = word_windows(tokenizer, fields, settings)
    return rows


def _encode_question(tokenizer, fields, settings):
    windows = question_windows(tokenizer, fields, settings)
    return [window.row for window in windows]


# Those that are not one row of all texts.
_ENCODE = {
    "question_answering": _encode_question,
    "tagging": _encode_words,
    "multiple_choice": _encode_endings,
    "ranking": _encode_passages,
    "fill_mask": _encode_masks,
    "pseudo_log_likelihood": _encode_each_token,
}


def question_windows(tokenizer, fields, settings):
    """Returns the Windows of a `question` and its `context`."""
    return tokenizer.question_windows(
        fields["question"],
        fields["context"],
        max_seq_length=settings["max_seq_length"],
        doc_stride=settings["doc_stride"],
        max_query_length=settings["max_query_length"],
    )


def word_windows(tokenizer, fields, settings):
    """Returns the Words of `words` or else of a `text`, rows and positions.

    The latter two are those of `Tokenizer.word_windows`.
    """
    words = [Word(text) for text in fields.get("words") or ()]
    words = words or split_words(fields.get("text") or "")
    rows, positions = tokenizer.word_windows(
        [word.text for word in words],
        max_seq_length=settings["max_seq_length"],
        doc_stride=settings["doc_stride"],
    )
    return words, rows, positions


def pad(rows):
    """Returns rows of different lengths as lists of lists of one length."""
    padded = {}
    for name in rows[0]:
        length = max(1, *(len(row[name]) for row in rows))
        padded[name] = [
            row[name] + [0] * (length - len(row[name])) for row in rows
        ]
    return padded

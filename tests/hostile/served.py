"""Strange texts for predict, which have answers, and a bad line -> cases.

Bad lines and columns are in tests/bert_tf/serving/test_text_rows.py.
"""

from hostile.commands import Case

_INPUT = "text/one.txt"


def _answer(content: bytes, message: str, flags: str = "") -> Case:
    return Case("predict", flags, message, {_INPUT: content}, ("out",), 0)


CASES = [
    _answer(b"", "texts 0 "),
    _answer(b"\n\n\n", "texts 3 "),
    _answer(b"the cat\0 sat\n", "texts 1 "),
    _answer(b"\xed\xa0\x80\n", "invalid UTF-8 replaced 3"),
    _answer(b"the " * 250_000, "texts 1 "),
    _answer(b"a" * 1_000_000, "texts 1 "),
    _answer(b"e" + "\u0301".encode() * 100_000, "texts 1 "),
    _answer(b'{"text_a": "a\\u0000"}', "texts 1 ", "--input_format=jsonl"),
    # A table without its columns would be read as lines of text.
    Case("predict", "--input_file=glue/CoLA/train.tsv", "tsv is a table: name"),
    # The others are answered.
    Case(
        "predict",
        "--input_format=jsonl",
        "text/one.txt:2 is not JSON",
        {_INPUT: b'{"text_a": "x"}\n{"text_a": ' + b"1" * 5000 + b"}"},
        ("out",),
    ),
    Case("search", "", "y.json is missing", {"vectors.npy": b""}),
    Case("predict", "--export_dir=text", "=text contains no SavedModel"),
]

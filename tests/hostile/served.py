"""Strange texts for predict, which have answers, and a bad line -> cases.

Bad lines and columns are in tests/bert_tf/serving/test_text_rows.py.
"""

from hostile.commands import Case

_INPUT = "text/one.txt"


def _answer(content: bytes, message: str, flags: str = "") -> Case:
    return Case("predict", flags, message, {_INPUT: content}, ("out",), 0)


CASES = [
    _answer(b"", "wrote 0 answers"),
    _answer(b"\n\n\n", "wrote 3 answers"),
    _answer(b"the cat\0 sat\n", "wrote 1 answers"),
    _answer(b"\xed\xa0\x80\n", "invalid UTF-8 replaced 3"),
    _answer(b"the " * 250_000, "wrote 1 answers"),
    _answer(b"a" * 1_000_000, "wrote 1 answers"),
    _answer(b"e" + "\u0301".encode() * 100_000, "wrote 1 answers"),
    _answer(
        b'{"text_a": "a\\u0000"}', "wrote 1 answers", "--input_format=jsonl"
    ),
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

"""Wrong input of predict -> cases."""

from hostile.commands import Case

_INPUT = "text/one.txt"


def _error(flags: str, message: str, content: bytes | None = None) -> Case:
    files = {} if content is None else {_INPUT: content}
    return Case("predict", flags, message, files)


def _answer(content: bytes, message: str, flags: str = "") -> Case:
    """A strange text that has an answer."""
    return Case("predict", flags, message, {_INPUT: content}, ("out",), 0)


def _line(flags: str, message: str, content: bytes | None = None) -> Case:
    """A bad line; the others are answered."""
    return _error(flags, message, content)._replace(left=("out",))


def _object(content: bytes, message: str) -> Case:
    return _line("--input_format=jsonl", message, content)


CASES = [
    # Texts.
    _answer(b"", "texts 0 "),
    _answer(b"\n", "texts 1 "),
    _answer(b"\n\n\n", "texts 3 "),
    _error("", "zero bytes, as in UTF-16", b"\0\0\n"),
    _answer(b"the cat\0 sat\n", "texts 1 "),
    _answer(b"the \xff\xfe\n", "invalid UTF-8 replaced 2"),
    _answer(b"\xed\xa0\x80\n", "invalid UTF-8 replaced 3"),
    _answer(b"the " * 250_000, "texts 1 "),
    _answer(b"a" * 1_000_000, "texts 1 "),
    _answer(b"e" + "\u0301".encode() * 100_000, "texts 1 "),
    _answer(b'{"text_a": ""}', "texts 1 ", "--input_format=jsonl"),
    _answer(b'{"text_a": "a\\u0000"}', "texts 1 ", "--input_format=jsonl"),
    _answer(
        b'{"text_a": "", "text_b": ""}\n\n', "texts 1 ", "--input_format=jsonl"
    ),
    # JSON lines of other types.
    _object(b"3", "one.txt:1: the content is 3; it should be an object, {...}"),
    _object(b"null", "one.txt:1: the content is None; it should be an object"),
    _object(b"true", "one.txt:1: the content is True; it should be an object"),
    _object(b'"text_a"', "one.txt:1: the content is 'text_a'; it should be"),
    _object(b'["text_a"]', "one.txt:1: the file is a JSON list, not JSON l"),
    _object(b"{}", "one.txt:1: text_a is missing or null; it should be a str"),
    _object(
        b'{"text_a": "x"}\n{"text_b": "x"}', "one.txt:2: text_a is missing"
    ),
    _object(b'{"text_a": 3}', "text_a is 3; it should be a string"),
    _object(b'{"text_a": null}', "text_a is missing or null; it should be a"),
    _object(b'{"text_a": ["x"]}', "text_a is ['x']; it should be a string"),
    _object(b'{"text_a": {"x": 1}}', 'Expected an object such as {"text_a": "'),
    _object(b'{"text_a": NaN}', "text_a is nan; it should be a string"),
    _object(b'{"text_a": "x", "text_b": 1}', "text_b is 1; it should be a str"),
    _object(
        b'{"text_a": "x"', "one.txt:1 is not JSON (Expecting ',' delimiter"
    ),
    _object(b"{\xff\xfe", "one.txt:1 is not JSON"),
    _object(b'{"text_a": "\\ud800"}', "is not valid text: a surrogate without"),
    _object(
        b"\n" + b"[" * 100_000, "2 is not JSON (brackets are nested deeper"
    ),
    _object(b'{"text_a": ' + b"[" * 100_000, "brackets are nested deeper"),
    _object(b'{"text_a": ' + b"1" * 5000 + b"}", "one.txt:1 is not JSON"),
    # Columns, outputs and signatures.
    _line("--columns=text_a=9", "column 9 (from 0) is needed"),
    _line(
        "--input_format=csv --columns=text_a=a",
        "1 of 2 rows have no answer; the first: text/one",
        b"a,b\na film, cut,1\n'x',2\n",
    ),
    _error(
        "--input_format=csv --columns=text_a=a",
        "one.txt:1: unexpected end of data. Is a quote not closed",
        b'"a,b\n',
    ),
    _error("--input_file=swag/train.csv", "train.csv is a table: name its col"),
    _error("--input_file=glue/CoLA/train.tsv", "train.tsv is a table: name"),
    _error("--input_format=csv", "--input_format=csv without columns"),
    _error("--columns=text_a=x", "one.txt:1 has no column 'x'"),
    _error("--columns=x=0", "--columns=x=0: expected an input of the model"),
    _error("--columns=text_a", "--columns=text_a: expected an input"),
    _error("--columns=text_a=0,text_a=1", "'text_a' has a column already"),
    _error("--columns=text_b=0", "there is no column for 'text_a'"),
    _error("--input_format=tsv", "tsv and csv need --columns; text"),
    _error("--outputs=logit", "--outputs=logit is not an output of this model"),
    _error("--signature=words", "but not 'words'"),
    _error("--export_dir=text", "--export_dir=text contains no SavedModel"),
]

"""Texts, tables, JSON and vocabularies that are not what they seem -> cases.

One of each reader; rows that are wrong are in tests/tfrecords.
"""

import re

from hostile.commands import Case

_DEEP = b"[" * 10_000
# What make_pretraining_records leaves of a run that can be resumed.
_RUN = ("out", "out/*", "out/*/*")


def _utf_16(content: bytes) -> bytes:
    """The same text in UTF-16, with a byte order mark."""
    return content.decode().encode("utf-16")


def _utf_16_without_mark(content: bytes) -> bytes:
    return content.decode().encode("utf-16-be")


def _old_mac(content: bytes) -> bytes:
    return content.replace(b"\n", b"\r")


def _twice(name: bytes):
    """A table whose first column and one more have the same name."""
    return lambda content: re.sub(rb"^[^,\t]*", name, content, count=1)


def _with_line(line: bytes):
    return lambda content: content + line + b"\n"


_OLD_MAC = "1: the lines end with a carriage return alone"
_UTF_16 = "1: the file is UTF-16; convert it to UTF-8"
_ZEROS = "1: zero bytes, as in UTF-16 or in a binary file"
_ENCODINGS = [
    (lambda _: b"PK\x03\x04\0xl/", "1: the file is a workbook of Excel"),
    (_utf_16, _UTF_16),
    (_utf_16_without_mark, _ZEROS),
    (_old_mac, _OLD_MAC),
]
# Script, the file that it reads.
_READERS = [
    ("make_vocab", "text/one.txt"),
    ("make_pretraining_records --compat=original", "text/one.txt"),
    ("extract_features", "text/one.txt"),
    ("make_glue_records", "glue/CoLA/train.tsv"),
    ("make_glue_records", "vocab.txt"),
    ("make_swag_records", "swag/train.csv"),
    ("make_ner_records", "conll2003/eng.train"),
]
_TRAINING_FILES = {
    "run_glue": "glue/CoLA/train.tsv",
    "run_squad": "squad/train-v1.1.json",
    "run_swag": "swag/train.csv",
    "run_ner": "conll2003/eng.train",
    "run_embeddings": "glue/STS-B/train.tsv",
}
_OWN = (
    "--task_name=own --train_file=own.csv --text_column=text --label_column=y "
    "--labels=0,1"
)
_SCORES = "--data_file=squad/dev-v1.1.json --predictions_file=predictions.json"

_EMBEDDED = [
    Case("embed", flags, message, {"text/one.txt": content})
    for flags, message, content in (
        ("", "text/one.txt has no rows", b""),
        ("--input_format=jsonl", "one.txt:1: text is missing", b'{"a": "x"}'),
        ("--layers=9", "layers has '9'; expected integers", b"a\n"),
        ("--input_file=-", "--input_file=- should be a file: it is", b"a\n"),
        ("--id_column=a", "an array has no ids. Give", b"a\n"),
        ("--output_file=out", "should end in .npy or .parquet", b"a\n"),
    )
]
_ROWS = {
    "corpus.jsonl": b'{"id": "d1", "text": "the cat"}\n',
    "queries.jsonl": b'{"id": "q1", "text": "a cat"}\n',
    "qrels": b"q1 0 d1 1\n",
}
_RETRIEVED = [
    Case("score_retrieval", flags, message, _ROWS | files)
    for flags, message, files in (
        ("--output_file=qrels", "is the same file as --judgements", {}),
        ("--id_column=_id", "queries.jsonl:1: no column '_id'", {}),
        ("", "corpus.jsonl is empty", {"corpus.jsonl": b""}),
    )
]
CASES = [
    *_EMBEDDED,
    *_RETRIEVED,
    *(
        Case(*script.partition(" ")[::2], f"{path}:{message}", files, _RUN)
        for script, path in _READERS
        for change, message in _ENCODINGS
        for files in [{path: change}]
    ),
    *(
        Case(script, "", f"{path}:1: the file is {kind}", {path: content}, _RUN)
        for script, path in _TRAINING_FILES.items()
        for kind, content in (
            ("JSON lines. Give ", b'{"text": "a", "label": 0}\n' * 2),
            ("Parquet; pandas.read_parquet", b"PAR1\x15"),
        )
        # Its bytes tell the format of a file without a known ending.
        if kind.startswith("JSON") or script != "run_ner"
    ),
    Case(
        *("run_ner", "", "Reading conll2003/eng.train needs pyarrow"),
        {"conll2003/eng.train": b"PAR1\x15"},
        _RUN,
    ),
    Case(
        "make_squad_records",
        "",
        f"squad/train-v1.1.json:{_ZEROS}",
        {"squad/train-v1.1.json": _utf_16_without_mark},
    ),
    Case(
        "score_squad",
        _SCORES,
        "predictions.json is not JSON",
        {"predictions.json": _utf_16(b'{"a": "the cat", "b": "ship"}')},
    ),
    Case(
        "predict",
        "--input_file=a.tsv --columns=text_a=text",
        "a.tsv has no rows, so there are no answers",
        {"a.tsv": b"text\tlabel\n"},
        ("out",),
        code=0,
    ),
    # Columns that are there twice, and long values.
    *(
        Case(
            "make_swag_records",
            "",
            f"train.csv:{message}",
            {"swag/train.csv": change},
        )
        for change, message in (
            (
                _twice(b"ending1"),
                "1: 2 columns have the name 'ending1'. Rename all but",
            ),
            (
                lambda content: re.sub(
                    rb",\d+(?=\r?\n)", b"," + b"1" * 5000, content, count=1
                ),
                f"2: label '{'1' * 99}... should be the number of an ending",
            ),
        )
    ),
    *(
        Case("make_glue_records", _OWN, f"own.csv:{message}", {"own.csv": rows})
        for message, rows in (
            (
                f"2: label '{'x' * 99}... is not one of own's: 0, 1.",
                b"text,y\none,%s\n" % (b"x" * 5000),
            ),
            (
                "2: field larger than field limit (16777216). Shorten it",
                b"text,y\n%s,0\n" % (b"x" * (1 << 24) + b"y"),
            ),
            (
                "2: new-line character seen in unquoted field. Remove the",
                b"text,y\none\rtwo,0\n",
            ),
        )
    ),
    *(
        Case(
            "make_ner_records",
            "",
            message,
            {"conll2003/eng.train": _with_line(line)},
        )
        for message, line in (
            (
                f": tag '{'x' * 99}... is neither O nor B-",
                b"word " * 3 + b"x" * 5000,
            ),
            (
                f"columns, '{'word ' * 19}word..., where conll2003",
                b"word " * 5000,
            ),
        )
    ),
    # JSON.
    Case(
        "make_pretraining_records",
        "--input_file=a.jsonl",
        "a.jsonl:1 is not JSON (brackets are nested deeper than Python",
        {"a.jsonl": b'{"text": ' + _DEEP + b"}\n"},
        _RUN,
    ),
    Case(
        "make_vocab",
        "--input_file=a.jsonl",
        "a.jsonl:2: text is 'b\\ud800', which is not valid text",
        {"a.jsonl": b'{"text": "a"}\n{"text": "b\\ud800"}\n'},
    ),
    Case(
        "make_pretraining_records",
        "--input_file=a.jsonl",
        "an object with the fields ['field00', ",
        {
            "a.jsonl": b"{%s}\n"
            % b",".join(b'"field%02d": 1' % n for n in range(99))
        },
        _RUN,
    ),
    Case(
        "make_vocab",
        "--language=xx-en",
        "--language=xx-en is not a known code; give one of ISO",
    ),
]

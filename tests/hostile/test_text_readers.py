"""Readers of text, given damaged files: a ValueError with the path, or rows."""

import copy
import json

import hypothesis
import planted_squad
import pytest
from hypothesis import strategies

from bert_tf.serving import text_rows
from bert_tf.tasks import squad_scores
from tfrecords.tasks import (
    glue_rows,
    glue_tables,
    ner_files,
    squad_files,
    swag_files,
)
from tfrecords.text import documents, text_files, vocab

_OWN = glue_tables.own_task(
    "own",
    files={},
    text_columns=("sentence",),
    label_column="label",
    labels=("0", "1"),
)
_PASSAGE = "The cat sat by the door."
_SQUAD = planted_squad.article(
    (_PASSAGE, [planted_squad.question("a", "Who sat?", _PASSAGE, "cat")])
)
_SQUAD_ROW = {
    "id": "a",
    "context": _PASSAGE,
    "question": "Who sat?",
    "answers": {"text": ["cat"], "answer_start": [4]},
}

_TASK = {
    "data": {"text": "Ada sat."},
    "annotations": [
        {
            "was_cancelled": False,
            "result": [
                {
                    "value": {
                        **{"start": 0, "end": 3, "text": "Ada"},
                        "labels": ["PER"],
                    }
                }
            ],
        }
    ],
}
_ARGILLA = {
    "fields": {"text": "Ada sat."},
    "responses": {"x": [{"value": [{"start": 0, "end": 3, "label": "P"}]}]},
}
_FLAT = {
    "text": "Ada sat.",
    "x.responses": [[[0, 3, "P"]]],
    "x.responses.status": ["submitted"],
}


def _read_rows(path):
    return list(glue_rows.read_rows(_OWN, path, is_labelled=True))


def _read_swag(path):
    swag_files.count_endings(path)
    return list(swag_files.read_rows(path, is_labelled=True))


def _read_documents(path, input_format="jsonl"):
    return list(
        documents.read_file(
            path,
            input_format=input_format,
            statistics=text_files.ReadStatistics(),
        )
    )


def _read_for_prediction(path, **config):
    ranks = {"text_a": 1, "text_b": 1}
    config = text_rows.InputConfig(input_file=path, **config)
    with text_rows.open_lines(path) as lines:
        parse = text_rows.make_parser(config, lines.name, ranks)
        return list(text_rows.make_groups(lines, parse, 4))


def _read_columns(path):
    return _read_for_prediction(path, text_column=("sentence",))


def _read_questions(path):
    for is_training in (False, True):
        squad_files.read_questions(
            path, version_2_with_negative=False, is_training=is_training
        )


# Name of a file -> its reader, a valid file, and parts of damaged ones.
_TABLE = "sentence\tlabel\na b\t1\nc\t0\n"
_READERS = {
    "a.tsv": (_read_rows, _TABLE),
    "b.tsv": (_read_columns, _TABLE),
    "b.csv": (_read_columns, 'label,sentence\n1,"a, ""b"""\n0,c\n'),
    "a.csv": (_read_rows, 'label,sentence\n1,"a, ""b"""\n0,c\n'),
    "swag.csv": (
        _read_swag,
        "sent1,sent2,ending0,ending1,label\na,b,c,d,1\ne,f,g,h,0\n",
    ),
    "conll.txt": (
        ner_files.read,
        "-DOCSTART- -X- O\n\nAda NN B-PER\nB. NN I-PER\n. . O\n",
    ),
    "tabs.tsv": (ner_files.read, "New York\tB-LOC\nis\tO\n\n10 000\tO\n"),
    "u.conllu": (
        lambda path: ner_files.read(path, word_column=2, comment_prefix="#"),
        "# x\n1-2\tzum\t_\n1\tzu\tADP\n2\tdem\tDET\n2.1\tx\tX\n",
    ),
    "tokens.jsonl": (
        ner_files.read,
        '{"tokens": ["Ada", "sat"], "ner_tags": ["B-PER", "O"]}\n'
        '{"tokens": ["."], "ner_tags": ["O"]}\n',
    ),
    "doccano.jsonl": (
        ner_files.read,
        '{"text": "Ada sat.", "label": [[0, 3, "PER"]]}\n'
        '{"text": "", "label": []}\n',
    ),
    "studio.json": (
        lambda path: ner_files.read(path, span_mismatch="widen"),
        json.dumps([_TASK], indent=1),
    ),
    "a.jsonl": (_read_documents, '{"text": "a. b.\\nc"}\n{"text": null}\n'),
    "auto.txt": (
        lambda path: _read_documents(path, "auto"),
        '<doc title="x">\nx\na. b.\n</doc>\n',
    ),
    "b.jsonl": (_read_for_prediction, '{"text_a": "a\\u00e4", "id": 1}\n'),
    "squad.json": (_read_questions, json.dumps(_SQUAD)),
    "squad.jsonl": (_read_questions, f"{json.dumps(_SQUAD_ROW)}\n"),
    "vocab.txt": (
        vocab.read,
        "".join(f"{entry}\n" for entry in (*vocab.SPECIAL_TOKENS, "a", "##b")),
    ),
}
_PARTS = strategies.sampled_from(
    [
        *(b"\n", b"\r", b"\r\n", b"\t", b",", b" ", b'"', b"\\", b"\0", b"{"),
        *(b"}", b"[" * 3000, b"1" * 5000, b"null", b"\\ud800", b"\xff\xfe"),
        *(b"\xef\xbb\xbf", b"\xff", b"I-", b"O", b"[PAD]\n", b"<doc ", b"</"),
        *(b"-DOCSTART-", b"label", b"\xe2\x80\xa8", b"\x1f\x8b", b"PAR1"),
    ]
) | strategies.binary(max_size=4)
# Where, how many bytes are removed, and what is put there.
_EDITS = strategies.lists(
    strategies.tuples(
        strategies.integers(0, 1 << 16), strategies.integers(0, 20), _PARTS
    ),
    min_size=1,
    max_size=4,
)
_SETTINGS = hypothesis.settings(max_examples=150, deadline=None)


def _read(read, path, content):
    path.write_bytes(content)
    try:
        read(str(path))
    except ValueError as error:
        assert str(path) in str(error)
        assert len(str(error)) < 1500
        # Only this error lists several places.
        is_list = "at its answer_start" in str(error)
        assert is_list or "\n" not in str(error)


@pytest.mark.parametrize("name", _READERS)
def test_damaged_files_are_read_or_named(name, tmp_path_factory):
    read, valid = _READERS[name]
    path = tmp_path_factory.mktemp("damaged") / name
    path.write_text(valid)
    read(str(path))

    @_SETTINGS
    @hypothesis.given(_EDITS)
    def check(edits):
        content = valid.encode()
        for position, removed, added in edits:
            position %= len(content) + 1
            rest = content[position + removed :]
            content = content[:position] + added + rest
        _read(read, path, content)

    check()


_JSON = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.floats()
    | strategies.text(max_size=5)
    | strategies.just("\ud800"),
    lambda values: (
        strategies.lists(values, max_size=2)
        | strategies.dictionaries(
            strategies.sampled_from(["id", "text", "answers", "qas"]), values
        )
    ),
    max_leaves=4,
)


def _nodes(value, keys=()):
    """Yields the keys that lead to each value in JSON, without the root."""
    pairs = enumerate(value) if isinstance(value, list) else ()
    if isinstance(value, dict):
        pairs = value.items()
    for key, child in pairs:
        yield (*keys, key)
        yield from _nodes(child, (*keys, key))


_NODES = list(_nodes(_SQUAD))


@pytest.mark.parametrize("read", [_read_questions, squad_scores.read_answers])
def test_questions_with_values_of_other_types_are_named(read, tmp_path_factory):
    path = tmp_path_factory.mktemp("types") / "squad.json"

    @_SETTINGS
    @hypothesis.given(strategies.sampled_from(_NODES), _JSON)
    def check(keys, value):
        content = copy.deepcopy(_SQUAD)
        parent = content
        for key in keys[:-1]:
            parent = parent[key]
        parent[keys[-1]] = value
        _read(read, path, json.dumps(content).encode())

    check()


@pytest.mark.parametrize("task", [_TASK, _ARGILLA, _FLAT])
def test_annotations_with_values_of_other_types_are_named(
    task, tmp_path_factory
):
    path = tmp_path_factory.mktemp("types") / "tasks.json"
    nodes = list(_nodes([task]))

    @_SETTINGS
    @hypothesis.given(strategies.sampled_from(nodes), _JSON)
    def check(keys, value):
        content = [copy.deepcopy(task)]
        parent = content
        for key in keys[:-1]:
            parent = parent[key]
        parent[keys[-1]] = value
        _read(ner_files.read, path, json.dumps(content).encode())

    check()

"""annotations.py: rows of every tool have the same words, tags and places."""

import gzip
import json

import pytest

from tfrecords.tables import annotations

# To trace the splitting of texts takes longer than a few rows.
pytestmark = pytest.mark.usefixtures("eagerly")

TEXT = "Ada Byron sat in (New York)."
SPANS = [[0, 9, "PER"], [18, 26, "LOC"]]
WORDS = ["Ada", "Byron", "sat", "in", "(", "New", "York", ")", "."]
TAGS = ["B-PER", "I-PER", "O", "O", "O", "B-LOC", "I-LOC", "O", "O"]
OBJECTS = [{"start": s, "end": e, "label": x} for s, e, x in SPANS]
MEDIA = "😀 Ada\nsat."  # Label Studio counts two for the first character.


def studio(text, *annotations):
    """Returns a task of Label Studio with (start, end, text, label)."""
    return {
        "id": 7,
        "data": {"text": text, "label": "of the import"},
        "annotations": [
            {
                "was_cancelled": was_cancelled,
                "result": [
                    {
                        "value": {
                            **{"start": start, "end": end},
                            **{"text": said, "labels": [label]},
                        },
                        "type": "labels",
                    }
                    for start, end, said, label in found
                ]
                + [{"type": "relation", "from_id": "a"}],
            }
            for was_cancelled, found in annotations
        ],
        "predictions": [],
    }


NAMED = [(s, e, TEXT[s:e], label) for s, e, label in SPANS]
# Layout -> rows of one text, each with `SPANS`.
LAYOUTS = {
    "doccano": [{"text": TEXT, "label": SPANS}],
    "doccano's labels": [{"id": 1, "text": TEXT, "labels": SPANS}],
    "doccano's relations": [
        {
            "text": TEXT,
            "entities": [
                {"id": i, "start_offset": s, "end_offset": e, "label": label}
                for i, (s, e, label) in enumerate(SPANS)
            ],
            "relations": [],
        }
    ],
    "spaCy": [{"text": TEXT, "ents": OBJECTS, "tokens": [{"id": 0}]}],
    "spaCy 2": [[TEXT, {"entities": SPANS}]],
    "Prodigy": [
        {
            **{"text": TEXT, "tokens": [{"text": "Ada", "id": 0}]},
            **{"spans": OBJECTS[::-1], "answer": "accept"},
        }
    ],
    "Argilla": [
        {
            "id": "a",
            "fields": {"text": TEXT},
            "suggestions": {},
            "responses": {"names": [{"value": OBJECTS, "user_id": "u"}]},
        }
    ],
    "Argilla, flat": [
        {
            "text": TEXT,
            "names.responses": [OBJECTS, OBJECTS, []],
            "names.responses.users": ["u", "v", "w"],
            "names.responses.status": ["submitted", "submitted", "discarded"],
            "names.suggestion": [],
        }
    ],
    "Label Studio": [studio(TEXT, (True, []), (False, NAMED))],
    "Label Studio, minimal": [
        {
            "text": TEXT,
            "label": [
                {"start": s, "end": e, "text": said, "labels": [label]}
                for s, e, said, label in NAMED
            ],
            "annotation_id": 3,
        }
    ],
    # Columns of Parquet, and floats of pandas.
    "columns": [
        {
            "text": TEXT,
            "entities": {
                name: [span[name] for span in OBJECTS]
                for name in ("start", "end", "label")
            },
        }
    ],
    "floats": [
        {"text": TEXT, "spans": [[float(s), e, x] for s, e, x in SPANS]}
    ],
}


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Rows, settings -> rows and counts of the file f.jsonl or f.json."""
    monkeypatch.chdir(tmp_path)

    def read(rows, name="f.jsonl", **settings):
        content = json.dumps(rows, indent=2)
        if name == "f.jsonl":
            content = "".join(json.dumps(row) + "\n" for row in rows)
        packed = gzip.compress if name.endswith(".gz") else bytes
        (tmp_path / name).write_bytes(packed(content.encode()))
        counts = annotations.Counts()
        return list(annotations.read(name, counts, **settings)), counts

    return read


def test_a_key_of_few_rows_is_read(read):
    rows = [{"text": "a b", "spans": []}] * 1001
    rows += [{"text": "a b", "spans": [[0, 1, "P"]], "answer": "reject"}]
    found, counts = read(rows, "f.jsonl")
    assert (len(found), counts.rows_without_annotation) == (1001, 1)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["f.json", "f.json.gz", "f.jsonl"])
def test_every_layout_of_spans_has_the_same_words_and_tags(read, layout, name):
    rows = LAYOUTS[layout]
    is_list = name != "f.jsonl"
    if isinstance(rows[0], list):  # As srsly.write_jsonl writes it.
        rows, is_list = rows * 2, True
    (row, *_), counts = read(rows, name)
    assert row.where == (f"{name}: row 1" if is_list else "f.jsonl:1")
    assert (list(row.words), list(row.tags)) == (WORDS, TAGS)
    assert row.text == TEXT
    assert [TEXT[start:end] for start, end in row.places] == WORDS
    assert counts == annotations.Counts(spans=2 * len(rows))


@pytest.mark.parametrize(
    ("row", "settings"),
    [
        ({"tokens": WORDS, "ner_tags": TAGS, "pos_tags": WORDS}, {}),
        ({"words": WORDS, "labels": TAGS, "text": TEXT}, {}),
        ({"tokens": WORDS, "tags": TAGS, "spans": ["PER: Ada Byron"]}, {}),
        (
            {"tokens": TAGS, "w": WORDS, "t": TAGS},
            {"word_column": "w", "tag_column": "t"},
        ),
        (
            {"body": TEXT, "text": "x", "found": SPANS, "label": []},
            {"word_column": "body", "tag_column": "found"},
        ),
    ],
)
def test_columns_are_the_usual_ones_or_those_asked_for(read, row, settings):
    (found,), _ = read([row], **settings)
    assert (list(found.words), list(found.tags)) == (WORDS, TAGS)


def test_rows_without_tags_are_read_if_none_are_asked_for(read):
    rows = [{"text": TEXT}, {"text": ""}, {"text": "a"}]
    found, _ = read(rows, has_tags=False)
    assert [len(row.words) for row in found] == [len(WORDS), 0, 1]
    assert not any(row.tags for row in found)
    (row,), _ = read([{"text": TEXT, "tokens": WORDS}], has_tags=False)
    assert row.text is None


def test_rows_that_nobody_annotated_are_left_out_and_counted(read):
    tasks = [studio("a", (False, [])), studio("b"), studio("c", (True, []))]
    minimal = [
        {"text": "a", "annotation_id": 1},
        {"text": "b", "label": []},
        {"text": "c", "annotation_id": None},
    ]
    prodigy = [
        {"text": "a", "spans": [], "answer": "accept"},
        {"text": "b", "answer": "accept"},
        {"text": "c", "spans": [], "answer": "reject"},
        {"text": "d", "spans": [], "answer": "ignore"},
    ]
    argilla = [{"text": "a", "x.responses": [[]]}, {"text": "b"}]
    for rows, texts in (
        *((tasks, "a"), (minimal, "ab"), (prodigy, "ab")),
        (argilla, "a"),
    ):
        found, counts = read(rows, "f.json")
        assert "".join(row.text for row in found) == texts
        assert counts.rows_without_annotation == len(rows) - len(texts)


def test_a_list_may_be_compressed(read, tmp_path):
    read(LAYOUTS["Label Studio"], "f.json")
    content = gzip.compress((tmp_path / "f.json").read_bytes())
    (tmp_path / "f.json.gz").write_bytes(content)
    (row,) = annotations.read("f.json.gz", annotations.Counts())
    assert list(row.tags) == TAGS


def test_places_of_label_studio_count_units_of_utf_16(read):
    for start, end, said in ((3, 6, "Ada"), (3, 10, "Ada\\nsat")):
        (row,), _ = read([studio(MEDIA, (False, [(start, end, said, "X")]))])
        assert row.tags[:2] == ("O", "B-X")
        assert row.places[1] == (2, 5)


# Span, and what is said of it; then tags after widen and after drop.
MISMATCHES = [
    ([0, 2, "X"], "'Ad' [0, 2, X] does not begin and end where", "B O", "O O"),
    ([1, 6, "X"], "'da sa' [1, 6, X] does not begin", "B I", "O O"),
    ([0, 4, "X"], "'Ada ' [0, 4, X] does not begin", "B O", "O O"),
    ([3, 4, "X"], "' ' [3, 4, X] has no word", "O O", "O O"),
    ([4, 4, "X"], "'' [4, 4, X] is empty or not within 7", "O O", "O O"),
    ([4, 3, "X"], "'' [4, 3, X] is empty or not within 7", "O O", "O O"),
    ([4, 8, "X"], "'sat' [4, 8, X] is empty or not within 7", "O O", "O O"),
    ([-3, 3, "X"], "'Ada' [-3, 3, X] is empty or not within", "O O", "O O"),
    (
        {"start": 0, "end": 3, "label": "X", "text": "sat"},
        "'Ada' [0, 3, X] is 'sat' in the file",
        *("O O", "O O"),
    ),
]


@pytest.mark.parametrize(("span", "reason", "widened", "dropped"), MISMATCHES)
def test_spans_that_fit_no_words_are_named_widened_or_left_out(
    read, span, reason, widened, dropped
):
    rows = [{"text": "Ada sat", "label": [span]}]
    with pytest.raises(ValueError) as error:
        read(rows)
    message = str(error.value)
    assert message.startswith("f.jsonl: 1 of 1 spans do not fit the words: ")
    assert f"f.jsonl:1: {reason}" in message
    for mismatch, expected in (("widen", widened), ("drop", dropped)):
        (row,), counts = read(rows, span_mismatch=mismatch)
        assert " ".join(tag[0] for tag in row.tags) == expected
        is_wide = mismatch == "widen" and "B" in expected
        lists = [counts.dropped_spans, counts.widened_spans]
        assert [len(x) for x in lists] == [not is_wide, is_wide]
        assert f"f.jsonl:1: {reason}" in lists[is_wide][0]


@pytest.mark.parametrize("mismatch", ["widen", "drop"])
def test_of_spans_that_overlap_the_longest_and_then_the_first_stays(
    read, mismatch
):
    spans = [[0, 3, "A"], [0, 7, "B"], [0, 7, "B"], [4, 7, "C"], [8, 11, "D"]]
    rows = [{"text": "Ada sat too", "label": [*spans, [8, 11, "E"]]}]
    with pytest.raises(ValueError, match=r"3 of 5 spans .* overlaps one that"):
        read(rows)
    (row,), counts = read(rows, span_mismatch=mismatch)
    assert row.tags == ("B-B", "I-B", "B-D")
    assert [x.split()[4] for x in counts.dropped_spans] == ["A]", "C]", "E]"]


def test_the_longest_span_is_that_of_the_most_characters(read):
    rows = [{"text": "a b c elsewhere", "label": [[0, 5, "A"], [4, 15, "B"]]}]
    (row,), _ = read(rows, span_mismatch="drop")
    assert row.tags == ("O", "O", "B-B", "I-B")


def test_a_span_that_would_overlap_when_it_is_wider_is_only_left_out(read):
    rows = [{"text": "AdaBob", "label": [[0, 3, "A"], [3, 6, "B"]]}]
    (row,), counts = read(rows, span_mismatch="widen")
    assert row.tags == ("B-A",)
    assert [x.split()[1] for x in counts.widened_spans] == ["'Ada'"]
    assert [x.split()[1] for x in counts.dropped_spans] == ["'Bob'"]


def test_many_wrong_spans_are_an_error_of_one_short_line(read):
    rows = [{"text": "word " * 30, "label": [[1, 140, "L" * 99]]}] * 600
    with pytest.raises(
        ValueError, match=r"600 of 600 .*; and 595 more\. Corr"
    ) as error:
        read(rows)
    assert len(str(error.value)) < 1500


LONDON = {"text": "London", "label": [[0, 6, "LOC"]]}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "a", "label": None}, "'label' is missing or null. Write []"),
        ({"text": "a", "label": ["LOC"]}, "'label' has 'LOC'; expected [start"),
        ({"text": "a", "label": [[False, True, "LOC"]]}, "has [False, True,"),
        ({"text": "a", "label": [[0, 1]]}, "'label' has [0, 1]; expected"),
        ({"text": "a", "label": [[0, "1", "X"]]}, "has [0, '1', 'X']; exp"),
        ({"text": "a", "label": [[0, 1, 4]]}, "has [0, 1, 4]; expected"),
        ({"text": "a", "label": [[0, 1, "a\tb"]]}, "without tabs and line"),
        ({"text": None, "label": []}, "text is missing or null"),
        ({"text": 5, "label": []}, "text is 5; it should be a string"),
    ],
)
def test_a_row_of_another_form_is_named(read, row, message):
    with pytest.raises(ValueError) as error:
        read([LONDON, row])
    assert str(error.value).startswith("f.jsonl:2: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("row", "settings", "message"),
    [
        ({"tokens": ["a"], "ner_tags": []}, {}, "1 words in 'tokens' and 0 t"),
        (
            {"tokens": ["a", ""], "tags": ["O", "O"]},
            {},
            "'tokens' is ['a', '']; expected a list",
        ),
        ({"tokens": ["a"], "tags": "O"}, {}, "'tags' is 'O'; expected a list"),
        (
            {"tokens": ["a"]},
            {},
            "no words or text with tags, in 'tokens'. Give",
        ),
        (
            {"a": 1},
            {"tag_column": "b"},
            "no 'b' with tags, in 'a'. Give",
        ),
        (
            {"text": "a", "x.responses": [[], [[0, 1, "X"]]]},
            *({}, "2 annotations in 'x.responses' that differ. Keep one"),
        ),
    ],
)
def test_a_first_row_of_another_form_is_named(read, row, settings, message):
    with pytest.raises(ValueError) as error:
        read([row], **settings)
    assert str(error.value).startswith("f.jsonl:1: ")
    assert message in str(error.value)


def test_ids_of_a_parquet_file_of_datasets_have_their_names(tmp_path):
    pytest.importorskip("pyarrow", reason="make test-engines installs it")
    import pyarrow.parquet

    label = {"names": ["O", "B-X"], "_type": "ClassLabel"}
    info = {"features": {"ner_tags": {"feature": label, "_type": "List"}}}
    path = str(tmp_path / "a.parquet")
    for ids, message in (
        ([0, 1], None),
        ([0, 2], r"is \[0, 2\], and the file names"),
    ):
        table = pyarrow.table({"tokens": [["a", "b"]], "ner_tags": [ids]})
        metadata = {"huggingface": json.dumps({"info": info})}
        table = table.replace_schema_metadata(metadata)
        pyarrow.parquet.write_table(table, path)
        rows = annotations.read(path, annotations.Counts())
        if message:
            with pytest.raises(ValueError, match=message):
                list(rows)
        else:
            assert [row.tags for row in rows] == [("O", "B-X")]

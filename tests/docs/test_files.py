"""docs/guide/files.md: a table that a tool writes has its rows, and labels."""

import importlib
import pathlib
import re
import shlex

import pytest

from tfrecords.tasks import glue_rows, glue_tables

PAGE = pathlib.Path(__file__).parents[2] / "docs/guide/files.md"
# The module of a tool, and its version on the page.
MODULES = {
    "pandas": "pandas",
    "polars": "polars",
    "DuckDB": "duckdb",
    "datasets": "datasets",
    "pyarrow": "pyarrow.parquet",
}
CALLS = re.findall(
    r"^\| (\w+) [\d.]+ \| `(.*)` \| `(--train_file=.*)` \|$",
    PAGE.read_text(encoding="utf-8").partition("## Labels")[0],
    re.MULTILINE,
)
COLUMNS = {
    "text": ['so "good", they say', "two\nlines", "a\ttab", ""],
    "label": ["pos", "neg", "pos", "neg"],
    "labels": [["a", "c"], [], ["b"], ["a"]],
    "vector": [[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 0, 0]],
    "flag": [True, False, True, False],
}
# Ids of the labels of each row.
LABELS = {
    "label": [1, 0, 1, 0],
    "flag": [1, 0, 1, 0],
    "labels": [(0, 2), (), (1,), (0,)],
    "vector": [(0, 2), (), (1,), (0,)],
}


def test_the_page_has_calls_of_each_tool():
    assert {tool for tool, _, _ in CALLS} == set(MODULES)


@pytest.mark.parametrize(("tool", "call", "words"), CALLS)
def test_a_call_writes_what_the_flags_read(
    tmp_path, monkeypatch, tool, call, words
):
    module = MODULES[tool]
    pytest.importorskip(module)
    pandas = pytest.importorskip("pandas")
    if ".parquet" in words or "t " in words + " ":
        pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    root = module.partition(".")[0]
    names = {root: importlib.import_module(root)}
    importlib.import_module(module)
    names["rows"] = pandas.DataFrame(COLUMNS)
    if tool == "polars":
        names["pl_rows"] = names["polars"].DataFrame(COLUMNS)
    elif tool == "datasets":
        names["dataset"] = names["datasets"].Dataset.from_dict(COLUMNS)
    elif tool == "DuckDB":
        names["duckdb"].register("rows", names["rows"])
    exec(call, names)
    flags = dict(
        word[2:].split("=", 1) for word in shlex.split(words) if "=" in word
    )
    labels = flags.pop("labels", None)
    data = glue_tables.GlueData(
        text_column=("text",),
        multi_label="--multi_label" in words,
        labels=labels and tuple(labels.split(",")),
        **flags,
    )
    task = glue_rows.choose_task(data)
    rows = glue_rows.read_rows(task, task.files["train"], is_labelled=True)
    found = [(row.texts[0], row.label) for row in rows]
    expected = LABELS[flags.get("label_column", "label")]
    assert found == list(zip(COLUMNS["text"], expected, strict=True))

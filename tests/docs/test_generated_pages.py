"""Pages made from flags and modules."""

import ast
import doctest
import inspect
import pathlib
import re
import shutil
import zlib

import numpy as np
import pytest

import bert_tf
from docs import generated_pages, other_libraries
from run_scripts.flags import headings

REFERENCE = generated_pages.ROOT / "docs" / "reference"


@pytest.mark.parametrize("name", generated_pages.scripts())
def test_every_flag_is_once_on_the_page_of_its_script(name):
    flags = generated_pages.script(name).FLAGS
    sections = generated_pages.script_page(name).split("\n### ")[1:]
    found = re.findall(r"^`--(\w+)", "\n".join(sections), re.MULTILINE)
    assert sorted(found) == sorted(flags)
    titles = [section.partition("\n")[0] for section in sections]
    assert titles[0] == headings.FIRST
    # In the order of the table, which has every flag.
    assert titles[1:] == [x for x in headings.HEADINGS if x in titles]


def test_the_table_of_headings_has_each_flag_of_a_script_once():
    names = [name for group in headings.HEADINGS.values() for name in group]
    scripts = map(generated_pages.script, generated_pages.scripts())
    assert sorted(names) == sorted({x for s in scripts for x in s.FLAGS})


def test_each_script_and_module_is_listed_with_its_line():
    scripts = generated_pages.script_list()
    assert "- [show_records](scripts/show_records.md): Records, a v" in scripts
    modules = generated_pages.module_list()
    paths = [
        path.relative_to(generated_pages.ROOT)
        for package in ("bert_tf", "tfrecords")
        for path in (generated_pages.ROOT / package).rglob("[a-z]*.py")
        if path.stem != "peer"
    ]
    for path in paths:
        name = ".".join(path.with_suffix("").parts)
        doc = ast.get_docstring(ast.parse(path.read_text("utf-8")))
        line = generated_pages._markdown(doc.partition("\n")[0])
        assert f"- [{path.stem}](api/{name}.md): {line}\n" in modules


# The names of bert_tf.


def test_each_name_of_bert_tf_is_documented_once_and_nowhere_else():
    page = (REFERENCE / "bert_tf.md").read_text("utf-8")
    found = re.findall(r"^\.\. auto\w+:: bert_tf\.(\w+)", page, re.MULTILINE)
    assert sorted(found) == bert_tf.__all__
    for name in bert_tf.__all__:
        module = getattr(bert_tf, name).__module__
        assert name in generated_pages.exported_from(module)
        options = generated_pages.module_page(module)
        assert re.search(rf":exclude-members:.*\b{name}\b", options)


@pytest.fixture(scope="module")
def folder_of_examples(tmp_path_factory):
    """The folder with the files that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "bert").mkdir()
    vocab = generated_pages.ROOT / "tests" / "data" / "vocab.txt"
    shutil.copy(vocab, folder / "bert")
    config = bert_tf.BertConfig.from_name("tiny-uncased")
    preprocess = bert_tf.TextPreprocessor(str(vocab))
    bert_tf.save(
        bert_tf.BertClassifier(config, num_classes=2),
        str(folder / "runs" / "sst-2"),
        preprocess.tokenizer,
        labels=["0", "1"],
    )
    rows = ["fine,good", "dull,bad"] * 8
    (folder / "reviews.csv").write_text("\n".join(["review,stars", *rows]))
    return folder


@pytest.mark.parametrize("name", bert_tf.__all__)
def test_the_example_of_a_name_runs(name, folder_of_examples, monkeypatch):
    monkeypatch.chdir(folder_of_examples)
    examples = doctest.DocTestParser().get_doctest(
        inspect.getdoc(getattr(bert_tf, name)),
        {"bert_tf": bert_tf, "np": np},
        *(name, None, None),
    )
    assert any(f"bert_tf.{name}(" in x.source for x in examples.examples) or (
        name == "EncoderOutputs"
    )
    shown = []
    result = doctest.DocTestRunner().run(examples, out=shown.append)
    assert result.attempted and not result.failed, "".join(shown)


# Other libraries.


def test_inventories_have_the_names_and_pages_of_the_table(tmp_path):
    found = {}
    for site, path in other_libraries.write_inventories(tmp_path).values():
        *header, body = pathlib.Path(path).read_bytes().split(b"\n", 4)
        assert header[0] == b"# Sphinx inventory version 2"
        for line in zlib.decompress(body).decode().splitlines():
            name, kind, _, place, _ = line.split()
            found[name] = kind, site + place
    for row in other_libraries.rows():
        assert found.pop(row.name) == (f"py:{row.kind}", row.address)
    assert not found


def test_names_of_other_libraries_become_links_and_examples_stay():
    lines = [
        "See `tf.data.Dataset`, BertConfig, `tf.data.Dataset`, BertConfig().",
        ">>> BertConfig",
        "BertConfig  in columns, and `tf.unknown`",
        "`tf.unknown`, MyBertConfig",
    ]
    generated_pages.adapt_docstring(None, None, None, None, None, lines)
    assert lines[0] == (
        "See :py:obj:`tf.data.Dataset`, :py:obj:`BertConfig "
        "<bert_tf.BertConfig>`, :py:obj:`tf.data.Dataset`, BertConfig()."
    )
    assert lines[1:] == [
        ">>> BertConfig",
        "BertConfig  in columns, and `tf.unknown`",
        "`tf.unknown`, MyBertConfig",
    ]


def test_flags_have_default_choices_bounds_and_need():
    page = generated_pages.script_page("run_pretraining")
    assert "`--do_train=true`\n" in page
    assert "`--train_batch_size=32`\n: " in page
    assert " At least 1." in page
    assert "One of `float32`, `bfloat16`, `float16`." in page
    entries = dict(entry.split("\n: ") for entry in page.split("\n\n`--")[1:])
    assert entries["output_dir`"].endswith("Required.")
    assert "Required." not in entries["stop_at_step`"]


def test_flags_in_text_are_code():
    text = "See --seed=1 or `--seed`, and <a|b>.\n    python x --seed=2"
    assert generated_pages._markdown(text) == (
        "See `--seed=1` or `--seed`, and &lt;a|b>.\n    python x --seed=2"
    )


def test_pages_of_removed_scripts_are_removed(tmp_path):
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "old.md").write_text("# old")
    generated_pages.write(tmp_path)
    names = {path.stem for path in (tmp_path / "scripts").iterdir()}
    assert names == {"list", *generated_pages.scripts()}
    assert "quickstart" in names and "old" not in names
    assert (tmp_path / "api" / "tfrecords.text.md").exists()


def test_a_page_of_a_package_lists_its_modules_but_no_peers():
    package = "bert_tf.checkpoint.formats.hugging_face"
    page = generated_pages.package_page(package)
    assert f"\n- [config_json]({package}.config_json.md): config.json" in page
    assert "peer" not in page
    page = generated_pages.module_page(f"{package}.config_json")
    assert f"\n.. automodule:: {package}.config_json\n   :members:\n" in page


@pytest.mark.parametrize(
    "lines, expected",
    [
        (["Text.", "", "  a  b", "  c  d"], ["Text.", "", "::", "", "  a  b"]),
        (["- item", "  more", "", "      a"], ["  ::", "", "      a"]),
        ([":param x: text", "", "   more"], ["", "   more"]),
        (["Alias for field number 0"], []),
        ([":param seq_length: S. Longer"], [":param seq_length: S\\. Longer"]),
        ([":param x:", " " * 9 + "S."], [":param x:", " " * 9 + "S\\."]),
    ],
)
def test_indented_blocks_of_docstrings_are_literal(lines, expected):
    generated_pages.adapt_docstring(None, None, None, None, None, lines)
    start = 0 if expected[:1] == ["Text."] else len(lines) - len(expected)
    assert lines[start : start + len(expected)] == expected

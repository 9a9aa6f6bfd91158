"""Pages made from flags and modules."""

import pytest

from docs import generated_pages
from run_scripts import run_glue


def test_every_flag_is_on_the_page_of_its_script():
    page = generated_pages.script_page("run_glue")
    for name in run_glue.FLAGS:
        assert f"\n`--{name}" in page, name


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
    assert names == set(generated_pages.scripts())
    assert "quickstart" in names and "old" not in names
    assert (tmp_path / "api" / "tfrecords.text.md").exists()


def test_a_page_of_a_package_has_its_modules_but_no_peers():
    page = generated_pages.api_page("bert_tf.conversion.hugging_face")
    assert ".. automodule:: bert_tf.conversion.hugging_face.config_json" in page
    assert ".peer" not in page


@pytest.mark.parametrize(
    "lines, expected",
    [
        (["Text.", "", "  a  b", "  c  d"], ["Text.", "", "::", "", "  a  b"]),
        (["- item", "  more", "", "      a"], ["  ::", "", "      a"]),
        ([":param x: text", "", "   more"], ["", "   more"]),
        (["Alias for field number 0"], []),
    ],
)
def test_indented_blocks_of_docstrings_are_literal(lines, expected):
    generated_pages.adapt_docstring(None, None, None, None, None, lines)
    start = 0 if expected[:1] == ["Text."] else len(lines) - len(expected)
    assert lines[start : start + len(expected)] == expected

"""Every command and Python block of README and guides, run on tiny data.

Guides are run in the order of the site, in one folder that at first holds only
data: what a guide uses, an earlier one has made. Sizes are changed, and nothing
else: see `markdown_code.SIZES`.
"""

import json
import re
import runpy

import markdown_code
import planted_data
import pytest
import setuptools
import tensorflow as tf

from docs import generated_pages

ROOT = markdown_code.ROOT
DATA = ROOT / "tests" / "data"
# Pages in docs/reference/api and scripts are generated.
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs").glob("*/*.md")),
]

RECIPES = sorted(
    path.name
    for folder in ("run_scripts", "experiments")
    for path in (ROOT / folder).rglob("*.flags")
)


def guides():
    """The guides in the order of the site."""
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    names = re.findall(r"^guide/\w+$", index, re.MULTILINE)
    return [ROOT / "docs" / f"{name}.md" for name in names]


@pytest.fixture
def data_folder(tmp_path, monkeypatch, tiny_config):
    """The working directory, with the data that the pages name."""
    planted_data.write_all(tmp_path, tiny_config)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_readme_runs(data_folder):
    markdown_code.run(ROOT / "README.md")
    answers = (data_folder / "answers.csv").read_text().splitlines()
    rows = (data_folder / "reviews.csv").read_text().splitlines()
    assert len(answers) == len(rows)
    assert {"label", "probability"} < {*answers[0].split(",")}
    assert (data_folder / "runs/reviews/report.html").exists()
    # The request that it does not send, since no server is here.
    text = (ROOT / "README.md").read_text("utf-8")
    body = re.search(r"curl -d '(.*)'", text)[1]
    name = re.search(r"models/(\w+):predict", text)[1]
    assert f"-e MODEL_NAME={name} " in text
    model = tf.saved_model.load(str(data_folder / "served" / name / "1"))
    ask = model.signatures["serving_default"]
    specs = ask.structured_input_signature[1]
    instances = json.loads(body)["instances"]
    for instance in instances:
        assert instance.keys() == specs.keys()
    given = {x: tf.constant([i[x] for i in instances]) for x in specs}
    for x, spec in specs.items():
        assert spec.is_compatible_with(given[x]), x
    assert ask(**given)["label"].shape == [len(instances)]


def test_readme_is_a_page_in_short_sentences():
    text = (ROOT / "README.md").read_text("utf-8")
    assert text.count("\n") <= 150
    text = re.sub(r"^```.*?^```|<!--.*?-->", "", text, flags=re.M | re.S)
    text = re.sub(r"\]\([^)]*\)", "]", text)  # Addresses of links.
    for row in re.findall(r"^\|.*$", text, re.MULTILINE):
        assert ";" not in row, row
    parts = re.split(r"(?<=[.?!])\s|\n\n|^[-|#]|\|", text, flags=re.MULTILINE)
    for sentence in parts:
        assert len(sentence.split()) <= 25, sentence


@pytest.mark.slow
def test_guides_run_in_order(data_folder):
    for page in guides():
        if page.stem not in ("coming_from", "from_tfbert"):
            markdown_code.run(page)
    assert (data_folder / "answers.jsonl").read_text().count("\n") == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coming_from", "from_tfbert"])
def test_coming_from_another_bert_runs(data_folder, name):
    vocab = (DATA / "vocab.txt").read_bytes()
    (data_folder / "vocab.txt").write_bytes(vocab)
    markdown_code.run(ROOT / "docs" / "guide" / f"{name}.md")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["uncased_L-12_H-768_A-12", "bert-base-uncased", "all-MiniLM-L6-v2"],
)
def test_vectors_begin_with_any_bert(data_folder, name):
    """As their page says, which names a run of ours in each command."""
    (data_folder / "runs").mkdir()
    released = data_folder / "models" / name
    released.rename(data_folder / "runs" / "pretrained")
    markdown_code.run(ROOT / "docs" / "guide" / "vectors.md")


NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.md"))


@pytest.mark.slow
@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_notebook_runs(data_folder, page):
    released = data_folder / "models" / "all-MiniLM-L6-v2"
    released.rename(data_folder / released.name)  # As its first cell.
    markdown_code.run_notebook(page)
    assert (data_folder / "run" / "eval_results.json").exists()


def test_every_guide_is_in_the_index():
    assert set(guides()) == set((ROOT / "docs" / "guide").glob("*.md"))


def test_every_notebook_is_in_the_index_and_run_by_the_build():
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    names = re.findall(r"^notebooks/\w+$", index, re.MULTILINE)
    paths = sorted((ROOT / "docs" / "notebooks").glob("*.md"))
    assert sorted(names) == [f"notebooks/{path.stem}" for path in paths]
    for path in paths:
        # Without a kernel it would be a page whose code nobody runs.
        front, text = path.read_text("utf-8").split("\n---\n", 1)
        assert "  name: python3" in front, path.name
        assert "```python" not in text and "```sh" not in text, path.name


def test_a_failing_command_of_a_notebook_fails_the_build():
    for path in (ROOT / "docs" / "notebooks").glob("*.md"):
        cells = re.findall(
            r"^```\{code-cell\}.*?^```$",
            path.read_text("utf-8"),
            re.MULTILINE | re.DOTALL,
        )
        assert cells, path.name
        for cell in cells:
            # IPython ignores the status of "!" lines, and bash that of all
            # commands of a pipe but the last.
            assert not re.search(r"^!", cell, re.MULTILINE), cell
            if "%%bash" in cell and " | " in cell:
                assert "set -o pipefail" in cell, cell


def test_code_outside_of_guides_is_exempt_with_a_reason():
    """Only README and guides are run; elsewhere a block names its reason."""
    pages = set(PAGES) - {ROOT / "README.md", *guides()}
    found = [(page, x) for page in pages for x in markdown_code.blocks(page)]
    assert found
    for page, block in found:
        assert block.exempt, f"{page.name}:{block.line} is not run"


def test_every_section_of_results_names_how_to_repeat_it():
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    modules = r"`(python -m )?(benchmarks|tools|experiments|run_scripts)\."
    how = re.compile(rf"`\w+\.flags`|{modules}|`make ")
    for section in text.split("\n## ")[1:]:
        assert how.search(section), section.splitlines()[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_recipes_and_modules_that_a_page_names_exist(page):
    # A removed benchmark is at the commit that follows it.
    removed = r"`benchmarks\.[^`]*` at\s+[0-9a-f]{8}\b"
    text = re.sub(removed, "", page.read_text("utf-8"))
    for name in re.findall(r"`(\w+\.flags)`", text):
        if name != "run.flags":
            assert name in RECIPES, name
    names = r"\b((?:benchmarks|tools|run_scripts)(?:\.[a-z]\w*)+)"
    for name in re.findall(names, text):
        path = ROOT / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").exists(), name


@pytest.fixture(scope="module")
def extras():
    """Extra -> its requirements, as setup.py has them now."""
    with pytest.MonkeyPatch.context() as patch:
        given = {}
        patch.setattr(setuptools, "setup", given.update)
        runpy.run_path(str(ROOT / "setup.py"))
    return given["extras_require"]


def test_every_extra_is_in_the_table_of_the_installation(extras):
    text = (ROOT / "docs" / "guide" / "install.md").read_text("utf-8")
    cells = re.findall(r"^\| (`[^|]*`) \|", text, re.MULTILINE)
    listed = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(listed) == sorted(extras)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_an_extra_that_a_page_names_exists_and_one_it_needs_is_named(
    page, extras
):
    text = page.read_text("utf-8")
    names = re.findall(r"(?:bert_tf|\.)\[([\w,]+)\]", text)
    named = {name for each in names for name in each.split(",")}
    assert named <= {*extras, "tpu"}  # Of which a page says that there is none.
    assert "`tensorboard --" not in text or "tensorboard" in named


def test_packages_of_extras_have_an_exact_version(extras):
    pinned = "".join(
        path.read_text() for path in (ROOT / "constraints").glob("*.txt")
    )
    for requirements in extras.values():
        for requirement in requirements:
            name = re.match(r"[\w-]+", requirement)[0].replace("_", "-")
            assert re.search(rf"^{name}==", pinned, re.M | re.I), name
    newest = (ROOT / "constraints" / "python3.13.txt").read_text()
    assert "\ntensorboard==" in newest


@pytest.fixture(scope="module")
def choices():
    """Name of a flag -> its choices in all scripts that have it."""
    found = {}
    for name in generated_pages.scripts():
        flags = generated_pages.script(name).FLAGS
        for flag in flags:
            values = getattr(flags[flag].parser, "enum_values", ())
            found.setdefault(flag, set()).update(values)
    return {name: values for name, values in found.items() if values}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_values_of_flags_in_sentences_are_choices(page, choices):
    text = re.sub(
        r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S
    )
    for name, values in re.findall(r"`--(\w+)=([\w|]+)`", text):
        if name in choices:
            assert choices[name] >= {*values.split("|")}, name


def test_contributing_has_the_decision_of_every_command_for_developers():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    rows = "".join(re.findall(r"^\| `.*\..*` \| .*\|$", text, re.MULTILINE))
    listed = re.findall(r"`((?:benchmarks|tools|experiments)\.[\w.]+)`", rows)
    # Other commands start these.
    inner = ("benchmarks.peers", "benchmarks.worker", "tools.opened_by_reader")
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for folder in ("benchmarks", "tools", "experiments")
        for path in (ROOT / folder).rglob("*.py")
        if "__main__" in path.read_text("utf-8")
    ]
    commands = [name for name in names if not name.startswith(inner)]
    assert sorted(listed) == sorted(commands)


def test_every_recipe_is_in_the_results():
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    for name in RECIPES:
        assert f"`{name}`" in text, name

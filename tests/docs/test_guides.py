"""Every command and Python block of README and guides, run on tiny data.

Guides are run in the order of the site, in one folder that at first holds only
data: what a guide uses, an earlier one has made. Sizes are changed, and nothing
else: see `markdown_code.SIZES`.
"""

import json
import re

import checkpoint_folders
import markdown_code
import numpy as np
import planted_ner
import planted_squad
import planted_swag
import pytest

from bert_tf import config
from bert_tf.conversion import checkpoint
from tfrecords.tasks import glue_tables

ROOT = markdown_code.ROOT
DATA = ROOT / "tests" / "data"
# Pages in docs/reference/api and scripts are generated.
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs").glob("*/*.md")),
]
PASSAGE = "The cat sat by the door . The ship came near the shore ."


def sentences():
    lines = (DATA / "sentences.txt").read_text("utf-8").splitlines()
    return [line for line in lines if line]


def guides():
    """The guides in the order of the site."""
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    names = re.findall(r"^guide/\w+$", index, re.MULTILINE)
    return [ROOT / "docs" / f"{name}.md" for name in names]


def write_glue(folder):
    """Writes a few rows in the layout of each GLUE task."""
    for task in glue_tables.GLUE_TASKS:
        (folder / task.name).mkdir(parents=True)
        columns = task.header or ("index", *task.text_columns)
        if not task.header:
            columns += (task.label_column,)
        for name in task.files.values():
            if not name.startswith("test"):
                rows = [] if task.header else [columns]
                rows += [row(task, columns, n) for n in range(12)]
            else:
                columns = ("index", *task.text_columns)
                rows = [columns, *(row(task, columns, n) for n in range(4))]
            lines = ["\t".join(cells) for cells in rows]
            path = folder / task.name / name
            path.write_text("\n".join(lines) + "\n", "utf-8")


def row(task, columns, number):
    """The cells of a row, all columns of text being sentences."""
    lines = sentences()
    cells = []
    for column in columns:
        if column in task.text_columns:
            offset = number + 3 * task.text_columns.index(column)
            cells.append(lines[offset % len(lines)])
        elif column == task.label_column:
            labels = task.labels or ("0.0", "2.5", "5.0")
            cells.append(labels[number % len(labels)])
        else:
            cells.append(str(number))
    return cells


def write_squad(folder):
    folder.mkdir()
    for version in ("1.1", "2.0"):
        questions = [
            planted_squad.question("a", "Who sat by the door?", PASSAGE, "cat"),
            planted_squad.question("b", "What came near?", PASSAGE, "ship"),
        ]
        if version == "2.0":
            none = planted_squad.question("c", "Who made bread?", PASSAGE)
            questions = [q | {"is_impossible": False} for q in questions]
            questions.append(none | {"is_impossible": True})
        article = planted_squad.article((PASSAGE, questions), version=version)
        for split in ("train", "dev"):
            path = folder / f"{split}-v{version}.json"
            path.write_text(json.dumps(article))


def write_swag(folder):
    folder.mkdir()
    for name in ("train.csv", "val.csv"):
        planted_swag.write(folder / name, planted_swag.rows(8))
    rows = planted_swag.rows(4, is_labelled=False)
    header = planted_swag.header(is_labelled=False)
    planted_swag.write(folder / "test.csv", rows, header)


def write_conll(folder):
    folder.mkdir()
    for seed, name in enumerate(("eng.train", "eng.testa", "eng.testb")):
        rows = planted_ner.sentences(12, seed)
        planted_ner.write(folder / name, rows)


def write_models(folder, tiny_config):
    """Writes what stands for two released checkpoints, with random weights."""
    model_config = config.BertConfig(
        **{**tiny_config.to_dict(), "max_position_embeddings": 512}
    )
    rng = np.random.default_rng(0)
    given = checkpoint.Checkpoint(
        source="random weights",
        config=model_config,
        task="pretraining",
        tensors={
            name: rng.normal(0, 0.02, shape).astype(np.float32)
            for name, shape in checkpoint.shapes(
                model_config, "pretraining"
            ).items()
        },
        vocabulary=(DATA / "vocab.txt").read_bytes(),
        do_lower_case=True,
    )
    for name, format_name in (
        ("uncased_L-12_H-768_A-12", "google"),
        ("bert-base-uncased", "hugging_face"),
    ):
        checkpoint_folders.write(given, folder / name, format_name)


@pytest.fixture
def data_folder(tmp_path, monkeypatch, tiny_config):
    """The working directory, with the data that the pages name."""
    (tmp_path / "text").mkdir()
    for name in ("one", "two"):
        text = "\n".join(sentences() * 3) + "\n"
        (tmp_path / "text" / f"{name}.txt").write_text(text, "utf-8")
    write_glue(tmp_path / "glue")
    write_squad(tmp_path / "squad")
    write_swag(tmp_path / "swag")
    write_conll(tmp_path / "conll2003")
    (tmp_path / "models").mkdir()
    write_models(tmp_path / "models", tiny_config)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_readme_runs(data_folder):
    markdown_code.run(ROOT / "README.md")
    assert (data_folder / "exports" / "sst-2" / "saved_model.pb").exists()


@pytest.mark.slow
def test_guides_run_in_order(data_folder):
    for page in guides():
        if page.stem != "coming_from":
            markdown_code.run(page)
    assert (data_folder / "answers.jsonl").read_text().count("\n") == 2


@pytest.mark.slow
def test_coming_from_another_bert_runs(data_folder):
    vocab = (DATA / "vocab.txt").read_bytes()
    (data_folder / "vocab.txt").write_bytes(vocab)
    markdown_code.run(ROOT / "docs" / "guide" / "coming_from.md")


def test_every_guide_is_in_the_index():
    assert set(guides()) == set((ROOT / "docs" / "guide").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_outside_of_guides_is_exempt_with_a_reason(page):
    """Only README and guides are run; elsewhere a block names its reason."""
    if page == ROOT / "README.md" or page.parent.name == "guide":
        return
    for block in markdown_code.blocks(page):
        assert block.exempt, f"{page.name}:{block.line} is not run"


def test_every_section_of_results_names_how_to_repeat_it():
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    how = re.compile(r"`\w+\.flags`|`(python -m )?(benchmarks|tools)\.|`make ")
    for section in text.split("\n## ")[1:]:
        assert how.search(section), section.splitlines()[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_recipes_and_modules_that_a_page_names_exist(page):
    text = page.read_text("utf-8")
    for name in re.findall(r"`(\w+\.flags)`", text):
        if name != "run.flags":
            assert (ROOT / "run_scripts" / "recipes" / name).exists(), name
    names = r"\b((?:benchmarks|tools|run_scripts)(?:\.[a-z]\w*)+)"
    for name in re.findall(names, text):
        path = ROOT / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").exists(), name


def test_every_recipe_is_in_the_results():
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    for path in (ROOT / "run_scripts" / "recipes").glob("*.flags"):
        assert f"`{path.name}`" in text, path.name

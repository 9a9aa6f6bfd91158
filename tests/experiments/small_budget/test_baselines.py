"""TF-IDF with logistic regression, and tasks with few labels."""

import pytest

from experiments import evaluation_tasks
from experiments.small_budget import baselines, few_labels


def write(folder, name, header, rows):
    folder.mkdir(exist_ok=True)
    lines = [header, *rows] if header else rows
    (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")


@pytest.fixture
def sst(tmp_path):
    folder = tmp_path / "SST-2"
    texts = [("a fine film", 1), ("a dull film", 0), ("fine and warm", 1)]
    rows = [f"{text} {i}\t{label}" for i in range(8) for text, label in texts]
    write(folder, "train", "sentence\tlabel", rows)
    dev = ["dull plot\t0", "fine plot\t1", "warm plot\t1", "a dull end\t0"]
    write(folder, "dev", "sentence\tlabel", dev)
    return folder


def test_words_that_decide_the_label_are_learnt(sst):
    assert baselines.tf_idf_score(str(sst)) == 1.0


def test_cola_is_scored_by_matthews_correlation(tmp_path):
    folder = tmp_path / "CoLA"
    rows = [
        f"x\t{label}\t\tthe {word} {i}"
        for i in range(8)
        for label, word in ((1, "sat"), (0, "sit"))
    ]
    write(folder, "train", None, rows)
    # All are called acceptable: no correlation, though half are right.
    dev = ["x\t1\t\tthe sat one", "x\t0\t\tthe sat two"]
    write(folder, "dev", None, dev)
    assert baselines.tf_idf_score(str(folder)) == 0.0


def test_texts_of_a_pair_have_features_of_their_own(tmp_path):
    folder = tmp_path / "RTE"
    header = "index\tsentence1\tsentence2\tlabel"
    # The same words: only their side differs.
    pairs = [("old", "new", "entailment"), ("new", "old", "not_entailment")]
    rows = [f"0\t{a}\t{b}\t{label}" for a, b, label in pairs for _ in range(8)]
    write(folder, "train", header, rows)
    write(folder, "dev", header, rows[::8])
    assert baselines.tf_idf_score(str(folder)) == 1.0


def test_few_labels_are_rows_of_the_task_in_their_order(sst, tmp_path):
    for name in ("one", "two"):
        few_labels.write(str(sst), str(tmp_path / name), 5, seed=3)
    found = (tmp_path / "one" / "train.tsv").read_text().splitlines()
    given = (sst / "train.tsv").read_text().splitlines()
    assert found[0] == given[0] and len(found) == 6
    positions = [given.index(row) for row in found]
    assert positions == sorted(set(positions))
    assert (tmp_path / "two" / "train.tsv").read_text().splitlines() == found
    assert (tmp_path / "one" / "dev.tsv").read_text() == (
        sst / "dev.tsv"
    ).read_text()


def test_few_labels_are_a_task_of_their_own(sst, tmp_path):
    given = evaluation_tasks.glue(str(sst))
    few = few_labels.task(given, "few", "out", 5)
    assert (few.name, few.num_train, few.num_dev) == ("few", 5, 4)
    assert few.flags == given.flags | {"data_dir": "out"}
    with pytest.raises(ValueError, match="--few_labels=25: .* has 24 rows"):
        few_labels.task(given, "few", "out", 25)
    (sst / "dev.tsv").unlink()
    with pytest.raises(ValueError, match="--few_labels=5 needs .*dev.tsv"):
        few_labels.task(given, "few", "out", 5)
    (sst / "train.tsv").unlink()
    with pytest.raises(ValueError, match="--glue_dir=.*SST-2 has no train.tsv"):
        evaluation_tasks.glue(str(sst))


def test_rows_end_at_line_feeds_only(sst, tmp_path):
    write(sst, "train", "sentence\tlabel", ["a\x85b\t1", "c\u2028d\t0"])
    few_labels.write(str(sst), str(tmp_path / "few"), 2, seed=3)
    few = (tmp_path / "few" / "train.tsv").read_bytes()
    assert few == (sst / "train.tsv").read_bytes()

"""TF-IDF with logistic regression."""

import pytest

from experiments.small_budget import baselines


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

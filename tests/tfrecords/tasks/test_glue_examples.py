"""glue_examples.py: records hold the packed rows of the files."""

import dataclasses

import numpy as np
import pytest

from tfrecords import schema
from tfrecords.io import records
from tfrecords.tasks import glue_examples, glue_tables
from tfrecords.text import tokenizer as tokenizer_lib

# To trace the tokenizer takes longer than a few rows.
pytestmark = pytest.mark.usefixtures("eagerly")

TRAIN = [
    ("The old captain looked at the sea.", "1"),
    ("The sea looked at the old captain .", "0"),
    ("He called the crew", "1"),
]


@pytest.fixture
def tokenizer(tiny_vocab_file):
    return tokenizer_lib.BertTokenizer(tiny_vocab_file)


@pytest.fixture
def data_dir(tmp_path):
    folder = tmp_path / "SST-2"
    folder.mkdir()
    lines = "".join(f"{text}\t{label}\n" for text, label in TRAIN)
    (folder / "train.tsv").write_text("sentence\tlabel\n" + lines)
    (folder / "dev.tsv").write_text("sentence\tlabel\nA white sail\t1\n")
    (folder / "test.tsv").write_text("index\tsentence\n0\tthe ship\n")
    return str(folder)


def make(name, data_dir, output_dir, tokenizer, **settings):
    return glue_examples.make_records(
        glue_tables.find(name),
        str(data_dir),
        str(output_dir),
        tokenizer,
        **({"max_seq_length": 16} | settings),
    )


def read_all(folder):
    found = records.Records.open(folder)
    return found.read(schema.SCHEMAS[found.manifest.schema_name])


def test_records_hold_the_packed_rows_and_labels(data_dir, tmp_path, tokenizer):
    folders = make("sst-2", data_dir, tmp_path / "records", tokenizer)
    assert list(folders) == ["train", "dev", "test"]
    train = read_all(folders["train"])
    np.testing.assert_array_equal(train["label_ids"], [1, 0, 1])
    ids = tokenizer([TRAIN[2][0]])[0].numpy().tolist()
    expected = [tokenizer.cls_id, *ids, tokenizer.sep_id]
    row = train["input_word_ids"][2]
    assert row[: len(expected)].tolist() == expected
    assert not row[len(expected) :].any()
    assert not train["input_type_ids"].any()


def test_rows_of_a_file_that_has_changed_are_refused(
    data_dir, tmp_path, tokenizer
):
    folder = str(tmp_path / "records")
    make("sst-2", data_dir, folder, tokenizer)

    def rows():
        return glue_examples.read_split(
            *(glue_tables.find("sst-2"), data_dir, folder, "dev"),
            dev_share=0.1,
            seed=1,
        )

    assert [row.texts for row in rows()] == [("A white sail",)]
    path = tmp_path / "SST-2" / "dev.tsv"
    path.write_text("sentence\tlabel\nA white ship\t1\n")
    message = f"{path} has changed since the records in {folder}/dev were"
    with pytest.raises(ValueError, match=message):
        rows()


def test_truncated_rows_are_counted(data_dir, tmp_path, tokenizer):
    lengths = tokenizer([text for text, _ in TRAIN]).row_lengths().numpy() + 2
    size = int(min(lengths))  # Of a row that just fits.
    folders = make(
        "SST-2", data_dir, tmp_path / "records", tokenizer, max_seq_length=size
    )
    statistics = records.Manifest.read(folders["train"]).statistics
    assert statistics["rows"] == 3
    assert statistics["truncated_rows"] == (lengths > size).sum() > 0


def test_records_hold_pairs_and_scores(tmp_path, tokenizer):
    folder = tmp_path / "STS-B"
    folder.mkdir()
    rows = "the sea\tthe ship\t2.5\nthe crew\ta sail\t0.0\n"
    (folder / "train.tsv").write_text("sentence1\tsentence2\tscore\n" + rows)
    folders = make(
        "STS-B", folder, tmp_path / "records", tokenizer, dev_share=0.0
    )
    assert list(folders) == ["train"]
    train = read_all(folders["train"])
    np.testing.assert_array_equal(train["label_scores"], [2.5, 0.0])
    lengths = tokenizer(["the sea", "the ship"]).row_lengths().numpy()
    assert train["input_type_ids"][0].sum() == lengths[1] + 1
    assert train["input_mask"][0].sum() == lengths.sum() + 3


def test_without_dev_a_seeded_share_of_train_is_held_out(tmp_path, tokenizer):
    folder = tmp_path / "RTE"
    folder.mkdir()
    labels = ["entailment", "not_entailment"]
    rows = [f"{n}\tthe sea\t{n}\t{labels[n % 2]}\n" for n in range(100)]
    (folder / "train.tsv").write_text(
        "index\tsentence1\tsentence2\tlabel\n" + "".join(rows)
    )
    sizes = []
    for seed in (1, 1, 2):
        output = tmp_path / f"records{len(sizes)}"
        folders = make("RTE", folder, output, tokenizer, seed=seed)
        parts = {n: read_all(folders[n])["input_word_ids"] for n in folders}
        assert list(parts) == ["train", "dev"]
        assert len(parts["train"]) + len(parts["dev"]) == 100
        # 10 are expected; the bounds are 4 standard deviations.
        assert 2 <= len(parts["dev"]) <= 22
        sizes.append(parts["dev"].tolist())
    assert sizes[0] == sizes[1] != sizes[2]


def test_too_few_rows_to_hold_out_raise(tmp_path, tokenizer):
    folder = tmp_path / "WNLI"
    folder.mkdir()
    (folder / "train.tsv").write_text(
        "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t1\n"
    )
    with pytest.raises(ValueError, match="hold out a share of 0.1: dev"):
        make("WNLI", folder, tmp_path / "records", tokenizer)


def test_a_folder_without_the_files_raises(tmp_path, tokenizer):
    with pytest.raises(
        ValueError, match="No file of CoLA .*train.tsv.*own fol"
    ):
        make("CoLA", tmp_path, tmp_path / "records", tokenizer)


@pytest.mark.parametrize("dev_share", [-0.1, 1.0])
def test_dev_share_out_of_range_raises(
    data_dir, tmp_path, tokenizer, dev_share
):
    with pytest.raises(ValueError, match=r"should be in \[0, 1\)"):
        make("SST-2", data_dir, tmp_path, tokenizer, dev_share=dev_share)


def own(folder, rows, **settings):
    """Returns a task whose training file has rows of text, label, w and g."""
    lines = ["\t".join(map(str, row)) for row in [("t", "y", "w", "g"), *rows]]
    (folder / "train.tsv").write_text("\n".join(lines) + "\n")
    return glue_tables.own_task(
        "own",
        files={"train": str(folder / "train.tsv")},
        text_columns=("t",),
        label_column="y",
        labels=("bad", "good", "rare"),
        **settings,
    )


def test_several_labels_are_multi_hot_and_rows_have_weights(
    tmp_path, tokenizer
):
    rows = [("the sea", "rare,bad", 2.5, "a"), ("a ship", "", 0, "b")]
    task = own(tmp_path, rows, multi_label=True, weight_column="w")
    folders = glue_examples.make_records(
        task, "", str(tmp_path / "out"), tokenizer, dev_share=0.0
    )
    found = records.Records.open(folders["train"]).read(
        schema.MULTI_LABEL | schema.EXAMPLE_WEIGHT
    )
    assert found["multi_hot_labels"].tolist() == [[1, 0, 1], [0, 0, 0]]
    assert found["example_weights"].tolist() == [2.5, 0.0]


def test_training_rows_of_which_nothing_is_learned_are_told(
    tmp_path, tokenizer, caplog
):
    rows = [("the sea", "bad", 1, "a"), ("a ship", "good", 0, "b")]
    arguments = "", str(tmp_path / "out"), tokenizer
    task = own(tmp_path, rows, weight_column="w")
    glue_examples.make_records(task, *arguments, dev_share=0.0)
    (message,) = [x for x in caplog.messages if "no row of" in x]
    assert message.endswith("train.tsv has no row of 1 of the 3 labels: rare")
    task = own(tmp_path, rows[1:], weight_column="w")
    with pytest.raises(ValueError, match=r"train.tsv: all weights of 'w' are"):
        glue_examples.make_records(
            task, "", str(tmp_path / "new"), tokenizer, dev_share=0.0
        )


def test_rows_without_a_gold_label_are_counted(tmp_path, tokenizer):
    rows = [("the sea", "bad", 1, "a"), ("a ship", "-", 1, "b")]
    task = own(tmp_path, rows, unlabelled_rows="skip")
    folders = glue_examples.make_records(
        task, "", str(tmp_path / "out"), tokenizer, dev_share=0.0
    )
    manifest = records.Records.open(folders["train"]).manifest
    assert manifest.statistics["rows"] == 1
    assert manifest.statistics["unlabelled_rows"] == 1
    assert manifest.flags["skips_unlabelled"]


@pytest.mark.parametrize("seed", range(4))
def test_dev_has_the_share_of_the_rarest_label_of_each_row(tmp_path, seed):
    rows = [("x", "bad", 1, "a")] * 40 + [("x", "bad,rare", 1, "a")] * 10
    task = own(tmp_path, rows + [("x", "", 1, "a")] * 20, multi_label=True)
    train, dev = glue_examples.find_splits(task, "", dev_share=0.1, seed=seed)
    taken = [number for number in range(70) if dev.takes_row(number)]
    assert [sum(a <= n < b for n in taken) for a, b in ((0, 40), (40, 50))] == [
        *(4, 1)
    ]
    assert len(taken) == 7
    assert [n for n in range(70) if not train.takes_row(n)] == taken


def test_a_group_in_train_and_dev_is_refused(tmp_path, tokenizer):
    task = own(tmp_path, [("x", "bad", 1, "Ann")], group_column="g")
    (tmp_path / "dev.tsv").write_text("t\ty\tg\nx\tbad\tBo\nx\tbad\tAnn\n")
    files = task.files | {"dev": str(tmp_path / "dev.tsv")}
    task = dataclasses.replace(task, files=files)
    message = "1 groups of 'g' have rows in both train and dev, such as 'Ann'"
    with pytest.raises(ValueError, match=message):
        glue_examples.make_records(task, "", str(tmp_path / "out"), tokenizer)
    assert not (tmp_path / "out").exists()


def test_records_of_other_parts_of_long_texts_are_refused(
    data_dir, tmp_path, tokenizer
):
    folder = tmp_path / "records"
    folders = make("sst-2", data_dir, folder, tokenizer)
    manifest = records.Manifest.read(folders["train"])
    assert "long_text" not in manifest.flags  # As records had before.
    with pytest.raises(ValueError, match="long_text None there, 'head_tail'"):
        make("sst-2", data_dir, folder, tokenizer, long_text="head_tail")

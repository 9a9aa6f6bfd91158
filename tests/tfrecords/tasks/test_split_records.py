"""split_records.py: folders of records are written once and completely."""

import os

import numpy as np
import pytest

from tfrecords import schema
from tfrecords.io import records
from tfrecords.tasks import data_files, split_records

VOCABULARY = {"sha256": "abc", "size": 9, "do_lower_case": True}
S = 4


def example(label):
    row = np.array([1, 2, 0, 0])
    inputs = dict.fromkeys(schema.ENCODER_INPUTS, row)
    return inputs | {"label_ids": np.int32(label)}


def split(name, labels, **settings):
    def examples(statistics):
        yield from map(example, labels)
        statistics |= {"rows": len(labels), "cut": ["one", "two"]}

    return split_records.Split(
        name=name,
        schema_name="classification",
        sizes={"max_seq_length": S},
        flags={"source_sha256": "f00"} | settings,
        count=lambda: len(labels),
        examples=examples,
    )


def test_a_file_is_in_the_folder_or_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for name in ("data/both", "both", "here"):
        (tmp_path / name).write_text("")

    def find(data_dir, name):
        return data_files.find_files(data_dir, {"dev": name}, {}, "rows")["dev"]

    assert find("data", "both") == os.path.join("data", "both")
    assert find("data", "here") == "here"
    assert find(None, "here") == "here"
    missing = os.path.join("data", "nowhere")
    with pytest.raises(ValueError, match=f"there is no file {missing}. Give"):
        find("data", "nowhere")


def test_each_split_gets_its_folder(tmp_path):
    folders = split_records.make(
        [split("train", [1, 0, 1]), split("dev", [0])],
        VOCABULARY,
        str(tmp_path),
    )
    assert folders == {n: str(tmp_path / n) for n in ("train", "dev")}
    found = records.Records.open(folders["train"])
    labels = schema.parse(
        found.get(np.arange(3)), schema.CLASSIFICATION, {"max_seq_length": S}
    )["label_ids"]
    assert labels.numpy().tolist() == [1, 0, 1]
    assert found.manifest.vocabulary == VOCABULARY
    assert found.manifest.statistics == {"rows": 3, "cut": ["one", "two"]}


def test_records_of_another_rule_raise(tmp_path):
    accents = VOCABULARY | {"strip_accents": False}
    for made, wanted in ((accents, VOCABULARY), (VOCABULARY, accents)):
        folder = str(tmp_path / str(len(made)))
        split_records.make([split("dev", [0])], made, folder)
        with pytest.raises(ValueError, match="strip_accents .* there, .* now"):
            split_records.make([split("dev", [0])], wanted, folder)


def test_a_file_may_be_renamed(tmp_path):
    for name in ("train.tsv", "all.tsv"):
        made = [split("dev", [0], source=name)]
        (folder,) = split_records.make(made, VOCABULARY, tmp_path).values()
    assert records.Records.open(folder).manifest.flags["source"] == "train.tsv"


def test_records_of_another_file_raise(tmp_path):
    made = [split("dev", [0], source_sha256="f00")]
    split_records.make(made, VOCABULARY, str(tmp_path))
    other = [split("dev", [0], source_sha256="ba4")]
    with pytest.raises(ValueError) as raised:
        split_records.make(other, VOCABULARY, str(tmp_path))
    assert str(raised.value) == (
        f"{tmp_path / 'dev'} holds records of other settings or files: "
        "source_sha256 'f00' there, 'ba4' now. Choose another folder for "
        "records (--records_dir of run_..., --output_dir of "
        "make_..._records), or delete that one."
    )


@pytest.mark.parametrize(
    ("before", "now"), [({"mode": "a"}, {}), ({}, {"mode": "a"})]
)
def test_records_with_a_flag_that_only_one_has_are_not_reused(
    tmp_path, before, now
):
    split_records.make([split("dev", [0], **before)], VOCABULARY, str(tmp_path))
    with pytest.raises(ValueError, match="other settings or files: mode"):
        split_records.make(
            [split("dev", [0], **now)], VOCABULARY, str(tmp_path)
        )


def test_a_flag_without_a_value_is_as_if_it_were_not_there(tmp_path):
    """Records may be older than the flag."""
    split_records.make([split("dev", [0])], VOCABULARY, str(tmp_path))
    before = os.stat(tmp_path / "dev/manifest.json").st_mtime_ns
    again = [split("dev", [0], word_column=None)]
    split_records.make(again, VOCABULARY, str(tmp_path))
    assert os.stat(tmp_path / "dev/manifest.json").st_mtime_ns == before
    with pytest.raises(ValueError, match="word_column None there, 1 now"):
        again = [split("dev", [0], word_column=1)]
        split_records.make(again, VOCABULARY, str(tmp_path))

"""split_records.py: folders of records are written once and completely."""

import os
import shutil

import numpy as np
import pytest

from tfrecords import schema
from tfrecords.io import records
from tfrecords.tasks import split_records

VOCABULARY = {"sha256": "abc", "size": 9, "do_lower_case": True}
ACCENTS = VOCABULARY | {"strip_accents": False}


def split(flags):
    inputs = dict.fromkeys(schema.ENCODER_INPUTS, np.array([1, 2, 0, 0]))
    return split_records.Split(
        name="dev",
        schema_name="encoder_inputs",
        sizes={"max_seq_length": 4},
        flags={"source_sha256": "f00"} | flags,
        count=lambda: 1,
        examples=lambda statistics: iter([inputs]),
    )


@pytest.fixture
def make(tmp_path):
    """Entries of flags and vocabulary -> the folder of a split of one row."""

    def make(vocabulary=VOCABULARY, **flags):
        splits = [split(flags)]
        return split_records.make(splits, vocabulary, str(tmp_path))["dev"]

    return make


@pytest.mark.parametrize(
    ("setting", "name"),
    [({"vocabulary": ACCENTS}, "strip_accents"), ({"mode": "a"}, "mode")],
)
def test_records_with_a_setting_that_only_one_has_are_not_reused(
    make, setting, name
):
    for before, now in (({}, setting), (setting, {})):
        folder = make(**before)
        with pytest.raises(
            ValueError, match=f"files: .*{name}.* there, .* now"
        ):
            make(**now)
        shutil.rmtree(folder)


def test_a_file_may_be_renamed(make):
    for name in ("train.tsv", "all.tsv"):
        folder = make(source=name)
    assert records.Records.open(folder).manifest.flags["source"] == "train.tsv"


def test_records_of_another_file_raise(make):
    folder = make(source_sha256="f00")
    with pytest.raises(ValueError) as raised:
        make(source_sha256="ba4")
    assert str(raised.value) == (
        f"{folder} holds records of other settings or files: "
        "source_sha256 'f00' there, 'ba4' now. Choose another folder for "
        "records (--records_dir of run_..., --output_dir of "
        "make_..._records), or delete that one."
    )


def test_a_flag_and_an_entry_of_the_vocabulary_may_have_the_same_name(make):
    """As the sha256 of the files of a search, and of the vocabulary."""
    folder = make(sha256={"corpus_file": "f00"})
    make(sha256={"corpus_file": "f00"})
    with pytest.raises(ValueError, match="files: sha256 {'corpus_file': 'f0"):
        make(sha256={"corpus_file": "ba4"})
    with pytest.raises(ValueError, match="files: vocabulary sha256 'abc' ther"):
        make(VOCABULARY | {"sha256": "def"}, sha256={"corpus_file": "f00"})
    shutil.rmtree(folder)


def test_a_flag_without_a_value_is_as_if_it_were_not_there(make):
    """Records may be older than the flag."""
    path = os.path.join(make(), "manifest.json")
    before = os.stat(path).st_mtime_ns
    make(word_column=None)
    assert os.stat(path).st_mtime_ns == before
    with pytest.raises(ValueError, match="word_column None there, 1 now"):
        make(word_column=1)

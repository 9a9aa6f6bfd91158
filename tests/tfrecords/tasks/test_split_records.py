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


def split(flags, found=(), **changes):
    inputs = dict.fromkeys(schema.ENCODER_INPUTS, np.array([1, 2, 0, 0]))

    def examples(statistics):
        yield inputs
        statistics.update(found)

    values = {
        "name": "dev",
        "schema_name": "encoder_inputs",
        "sizes": {"max_seq_length": 4},
        "flags": {"source_sha256": "f00"} | flags,
        "count": lambda: 1,
        "examples": examples,
    }
    return split_records.Split(**values | changes)


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
    with pytest.raises(ValueError, match="files: sha256.corpus_file 'f00' th"):
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


@pytest.mark.parametrize(
    ("found", "sizes", "message"),
    [
        ({"truncated_rows": 1}, {}, "1 of 1 rows (100.0%)"),
        ({"truncated_texts": 1}, {"num_texts": 3}, "1 of 3 texts (33.3%)"),
        ({"truncated_rows": 1}, {"num_choices": 2}, "1 of 2 rows (50.0%)"),
        ({"truncated_endings": 3}, {"num_choices": 4}, "3 of 4 endings (75.0%"),
        ({"cut_words": 2, "words": 400}, {}, "2 of 400 words (0.5%)"),
        ({"truncated_questions": 1, "questions": 9}, {}, "1 of 9 questions (1"),
        ({"truncated_rows": 0, "cut_words": 0}, {}, None),
        ({}, {}, None),  # Records of an earlier version.
    ],
)
def test_cut_texts_are_counted_when_records_are_made_and_reused(
    tmp_path, caplog, found, sizes, message
):
    flags = {"max_seq_length": 4, "max_query_length": 2}
    made = split(flags, found, sizes={"max_seq_length": 4} | sizes)
    for _ in range(2):
        caplog.clear()
        split_records.make([made], VOCABULARY, str(tmp_path))
        # Another test may have left the level at INFO.
        warnings = [x for x in caplog.records if x.levelname == "WARNING"]
        if message is None:
            assert not warnings
            continue
        (text,) = (x.getMessage() for x in warnings)
        assert text.startswith(f"{tmp_path}/dev: {message}")
        flag = "query_length=2" if "questions" in message else "seq_length=4"
        assert text.endswith(f"have more than --max_{flag} tokens and are cut")


def test_a_shard_that_was_changed_is_refused(make, monkeypatch):
    folder = make()
    (shard,) = records.Manifest.read(folder).shards
    path = os.path.join(folder, shard.name)
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 1]))
    with pytest.raises(ValueError, match=f"{shard.name}' is not the shard th"):
        make()
    with monkeypatch.context() as patch:
        patch.setattr(records, "DIGEST_BYTES", 1)  # Too large to compare.
        make()
    os.remove(path)
    make()
    records.check_digest(path, shard)

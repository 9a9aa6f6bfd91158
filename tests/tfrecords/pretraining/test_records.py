"""records.py: partitions of documents, and runs that are resumed."""

import dataclasses
import json
import os

import numbered_records
import numpy as np
import pytest

from tfrecords import schema
from tfrecords.engines import processes
from tfrecords.io import records, storage
from tfrecords.pretraining import corpus
from tfrecords.pretraining import records as pretraining_records
from tfrecords.pretraining import settings as settings_lib

SETTINGS = settings_lib.Settings(
    max_seq_length=32, max_predictions_per_seq=5, dupe_factor=2
)
WORDS = "the old captain looked at sea a white sail came from north".split()


@pytest.fixture
def text(tmp_path, tiny_vocab_file):
    """Five files of eight documents each."""
    rng = np.random.default_rng(0)
    files = []
    for name in "abcde":
        documents = [
            "".join(
                " ".join(rng.choice(WORDS, rng.integers(2, 9))) + ".\n"
                for _ in range(rng.integers(1, 7))
            )
            for _ in range(8)
        ]
        files.append(tmp_path / f"{name}.txt")
        files[-1].write_text("\n".join(documents))
    return corpus.Corpus(
        input_file=",".join(map(str, files)), vocab_file=tiny_vocab_file
    )


def make(text, folder, **changes):
    num_processes = changes.pop("num_processes", 1)
    output = {"num_shards": 4, "held_out_prob": 0.1} | changes
    return pretraining_records.make(
        text,
        SETTINGS,
        pretraining_records.Output(output_dir=str(folder), **output),
        processes.Workers(num_processes),
    )


def test_too_few_slots_for_masks_are_a_warning(text, tmp_path, caplog):
    make(text, tmp_path / "enough")
    assert "limits them" not in caplog.text
    few = dataclasses.replace(SETTINGS, max_predictions_per_seq=4)
    pretraining_records.make(
        text, few, pretraining_records.Output(output_dir=str(tmp_path / "few"))
    )
    assert (
        "masked_lm_prob=0.15 of 32 tokens are 5, but max_predictions_per_seq=4 "
        "limits them. Use max_predictions_per_seq=5," in caplog.text
    )


# Long texts without a full stop, or with those of no language.
UNPUNCTUATED = {
    "transcript": ("en", " ".join(WORDS * 60)),
    # Spaces are between phrases only.
    "thai": ("th", "ภาษาไทยเขียนติดกัน ไม่มีเครื่องหมายจบประโยค " * 60),
    "chinese": ("zh", "春眠不觉晓处处闻啼鸟夜来风雨声花落知多少" * 30),
    "japanese": ("ja", "吾輩は猫である名前はまだ無いどこで生れたかとんと" * 30),
}


@pytest.fixture(scope="module")
def character_vocab_file(tmp_path_factory):
    """Path of a vocabulary of all characters of `UNPUNCTUATED`."""
    lines = "".join(line for _, line in UNPUNCTUATED.values())
    characters = sorted(set(lines) - {" "})
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters]
    entries += [f"##{character}" for character in characters]
    path = tmp_path_factory.mktemp("characters") / "vocab.txt"
    path.write_text("\n".join([*entries, ""]), "utf-8")
    return str(path)


@pytest.mark.parametrize("pairs", ["next_sentence", "sentence_order"])
@pytest.mark.parametrize("name", UNPUNCTUATED)
def test_text_without_full_stops_is_used(
    name, pairs, tmp_path, character_vocab_file, caplog
):
    language, line = UNPUNCTUATED[name]
    for file in "ab":
        (tmp_path / f"{file}.txt").write_text(line, "utf-8")
    text = corpus.Corpus(
        input_file=f"{tmp_path}/[ab].txt",
        vocab_file=character_vocab_file,
        do_lower_case=False,
        language=language,
    )
    settings = dataclasses.replace(SETTINGS, pairs=pairs, dupe_factor=5)
    with caplog.at_level("INFO", logger="absl"):
        manifests = pretraining_records.make(
            text,
            settings,
            pretraining_records.Output(output_dir=str(tmp_path / "out")),
        )
    found = manifests["train"].statistics
    assert found["cut_sentences"] == 2
    assert found["cut_tokens"] == found["tokens"] > 1000
    assert found["unused_tokens"] <= 0.01 * found["tokens"]
    assert found["unknown_tokens"] == 0
    assert found["example_tokens"] > 3 * found["tokens"]
    assert "unused_tokens 0." in caplog.text
    assert "in no example" not in caplog.text


@pytest.mark.parametrize("masking", ["words", "spans"])
def test_given_words_are_masked_as_a_whole(masking, tmp_path):
    """Words of two characters, a first and a second one."""
    firsts, seconds = "天地玄黄宇宙", "洪荒日月盈昃"
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *firsts, *seconds]
    (tmp_path / "vocab.txt").write_text("\n".join(entries), "utf-8")
    rng = np.random.default_rng(0)
    pairs = ["".join(x) for x in zip(firsts, seconds, strict=True)]
    lines = [" ".join(rng.choice(pairs, 9)) for _ in range(40)]
    (tmp_path / "a.txt").write_text("\n".join([*lines, "", *lines]), "utf-8")
    text = corpus.Corpus(
        input_file=f"{tmp_path}/a.txt",
        input_format="sentences",
        vocab_file=f"{tmp_path}/vocab.txt",
        is_split_into_words=True,
    )
    settings = dataclasses.replace(
        SETTINGS, masking=masking, max_predictions_per_seq=6
    )
    output = pretraining_records.Output(output_dir=str(tmp_path / "out"))
    manifests = pretraining_records.make(text, settings, output)
    assert manifests["train"].flags["is_split_into_words"]
    shards = tmp_path.glob("out/train/*.tfrecord")
    found = records.Records([*map(str, shards)])
    rows = found.get(np.arange(len(found)))
    rows = schema.parse(rows, schema.PRETRAINING, settings.sizes)
    ids, positions, before, weights = (
        rows[name].numpy()
        for name in ("input_word_ids", "masked_lm_positions")
        + ("masked_lm_ids", "masked_lm_weights")
    )
    assert ids.max() < len(entries)
    at = np.nonzero(weights)[0], positions[weights > 0]
    ids[at] = before[weights > 0]
    is_masked = np.zeros(ids.shape, bool)
    is_masked[at] = True
    # In each word; a segment may begin with the second half of one.
    is_word = (ids[:, :-1] >= 5) & (ids[:, 1:] >= 11)
    assert is_word.sum() > 1000 and is_masked.sum() > 300
    assert (is_masked[:, :-1] == is_masked[:, 1:])[is_word].all()


@pytest.mark.parametrize(
    "changes", [{}, {"masking": "words", "masking_time": "dynamic"}]
)
def test_given_words_that_masks_cannot_use_are_refused(text, tmp_path, changes):
    text = dataclasses.replace(text, is_split_into_words=True)
    settings = dataclasses.replace(SETTINGS, **changes)
    output = pretraining_records.Output(output_dir=str(tmp_path / "out"))
    with pytest.raises(ValueError, match="is_split_into_words is for --mask"):
        pretraining_records.make(text, settings, output)
    assert not os.path.exists(output.output_dir)


def test_lost_text_is_counted_and_warned_of(text, tmp_path, caplog):
    line = " ".join(WORDS * 60) + "ก" * 250  # One word of more than 200.
    (tmp_path / "long.txt").write_text(f"{line}\n{line}\n\n{'海' * 90}\n")
    text = dataclasses.replace(
        text, input_file=f"{tmp_path}/long.txt", input_format="sentences"
    )
    for compat in (None, "original"):
        caplog.clear()
        output = pretraining_records.Output(
            output_dir=str(tmp_path / str(compat)), compat=compat
        )
        manifest = pretraining_records.make(text, SETTINGS, output)["train"]
        found = manifest.statistics
        assert "% of the tokens are [UNK]: words with" in caplog.text
        assert found["unknown_tokens"] == 92
        is_lost = found["unused_tokens"] > 0.9 * found["tokens"]
        assert is_lost == (compat is not None)
        is_cut = found.get("cut_sentences", 0) == 3
        assert is_cut == (compat is None)
    assert "% of the tokens are in no example. The original" in caplog.text


def test_held_out_text_that_is_lost_is_logged_without_a_warning(
    text, tmp_path, caplog
):
    line = "old captain " * 6 + ".\n"
    (tmp_path / "long.txt").write_text("\n".join([line * 5] * 8))
    text = dataclasses.replace(text, input_file=f"{tmp_path}/long.txt")
    caplog.set_level("INFO", logger="absl")
    found = make(text, tmp_path / "out", num_shards=1)["held_out"].statistics
    assert found["unused_tokens"] > 0.01 * found["tokens"]
    assert "out/held_out  cut_sentences 0  cut_tokens 0  unused" in caplog.text
    warned = [
        line.args
        for line in caplog.records
        if line.levelname != "INFO" and line.name == "absl"
    ]
    assert f"{tmp_path}/out/held_out" not in [args[0] for args in warned]


def test_records_half_made_by_an_earlier_version_are_not_completed(
    text, tmp_path
):
    make(text, tmp_path / "out")
    journal = tmp_path / "out" / "progress.jsonl"
    run, *rows = journal.read_text().splitlines(keepends=True)
    assert json.loads(run)["version"] == 2
    run = {n: x for n, x in json.loads(run).items() if n != "version"}
    journal.write_text("".join([json.dumps(run) + "\n", *rows]))
    manifest = tmp_path / "out" / "train" / "manifest.json"
    made = manifest.read_bytes()
    for _ in range(2):  # Complete ones may be used.
        make(text, tmp_path / "out")
        assert manifest.read_bytes() == made
    os.remove(tmp_path / "out" / "train" / "train-00002-of-00004.tfrecord")
    before = os.listdir(tmp_path / "out" / "train")
    with pytest.raises(ValueError, match="version=None; now it is version=2"):
        make(text, tmp_path / "out")
    assert os.listdir(tmp_path / "out" / "train") == before


def test_remote_storage_holds_the_same_records(text, tmp_path, monkeypatch):
    whole = make(text, tmp_path / "whole")
    out = "ram://test_pretraining_records/out"
    stored = make(text, out)
    names = storage.names_in(out)
    assert sorted(names) == ["held_out", "progress.jsonl", "train"]
    for name in stored:
        assert stored[name].shards == whole[name].shards
        found = storage.names_in(f"{out}/{name}")
        assert sorted(found) == sorted(os.listdir(tmp_path / "whole" / name))
    lost = f"{out}/train/train-00002-of-00004.tfrecord"
    storage.remove(lost)
    made, write = [], records.write_shard
    monkeypatch.setattr(
        *(records, "write_shard"),
        lambda path, rows: made.append(path) or write(path, rows),
    )
    for _ in range(2):
        assert make(text, out)["train"].digest == whole["train"].digest
        assert made == [lost]


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_damaged_shard_is_refused(text, tmp_path, is_finished):
    before = make(text, tmp_path / "out")["train"]
    path = tmp_path / "out" / "train" / before.shards[2].name
    numbered_records.damage(path, 40)
    if not is_finished:  # As if it had been killed before the last shard.
        os.remove(path.with_name("manifest.json"))
        os.remove(path.with_name(before.shards[3].name))
    with pytest.raises(ValueError, match=f"{path.name}' is not the shard that"):
        make(text, tmp_path / "out")
    os.remove(path)
    assert make(text, tmp_path / "out")["train"] == before
    records.check_digest(str(path), before.shards[2])


def test_text_without_a_sentence_raises(text, tmp_path):
    (tmp_path / "empty").write_text("\n\n")
    text = dataclasses.replace(text, input_file=str(tmp_path / "empty"))
    with pytest.raises(ValueError, match="There is no sentence with a token"):
        make(text, tmp_path / "out")
    assert os.listdir(tmp_path / "out" / "train") == []


def test_a_document_of_one_sentence_is_enough(text, tmp_path):
    (tmp_path / "one").write_text("The old captain looked at the sea.\n")
    text = dataclasses.replace(text, input_file=str(tmp_path / "one"))
    made = make(text, tmp_path / "out", num_shards=None, held_out_prob=0.0)
    assert made["train"].num_examples == 2
    opened = records.Records.open(str(tmp_path / "out" / "train"))
    labels = [opened.features(i)["next_sentence_labels"].item() for i in (0, 1)]
    assert labels == [1, 1]


def test_documents_that_give_no_examples_are_rejected(text, tmp_path):
    (tmp_path / "one").write_text("captain\n\nsea\n")
    text = dataclasses.replace(
        text, input_file=str(tmp_path / "one"), input_format="sentences"
    )
    settings = dataclasses.replace(SETTINGS, pairs="sentence_order")
    output = pretraining_records.Output(output_dir=str(tmp_path / "out"))
    with pytest.raises(ValueError, match="The documents gave no examples"):
        pretraining_records.make(text, settings, output)


def test_held_out_documents_do_not_depend_on_the_number_of_shards(
    text, tmp_path
):
    made = make(text, tmp_path / "one", num_shards=2)
    documents = [m.statistics["documents"] for m in made.values()]
    assert documents == [36, 4]
    assert made["train"].statistics["corpus"]["files"] == 5
    one = made["held_out"]
    other = make(text, tmp_path / "other", num_shards=9)["held_out"]
    assert one.statistics["tokens"] == other.statistics["tokens"]
    assert one.num_examples == other.num_examples


def table_of(count, tokens=10):
    table = np.zeros((count, 6), np.int64)
    table[:, 0] = np.arange(count)
    table[:, 4] = tokens
    return table


def test_each_document_is_in_one_partition():
    tables = pretraining_records.assign_partitions(table_of(1003), 5, 7, 0.1)
    assert len(tables["train"]) == 7 and len(tables["held_out"]) == 1
    numbers = np.concatenate(tables["train"] + tables["held_out"])[:, 0]
    assert sorted(numbers) == list(range(1003))
    assert len(tables["held_out"][0]) == 100
    sizes = {len(table) for table in tables["train"]}
    assert sizes == {129}
    assert all((np.diff(t[:, 0]) > 0).all() for t in tables["train"])


def test_any_two_documents_share_a_partition_with_equal_probability():
    count, num_shards, repetitions = 12, 3, 3000
    meet = np.zeros((count, count))
    for seed in range(repetitions):
        for part in pretraining_records.assign_partitions(
            table_of(count), seed, num_shards, 0.0
        )["train"]:
            meet[np.ix_(part[:, 0], part[:, 0])] += 1
    meet = meet[~np.eye(count, dtype=bool)]
    # Each shares a partition with three of the other eleven.
    expected = repetitions * 3 / 11
    assert abs(meet - expected).max() < 5 * np.sqrt(expected)


@pytest.mark.parametrize(
    ("count", "tokens", "expected"),
    [(3, 10, 1), (80, 1_000_000, 10), (1000, 10_000, 10), (20, 10**6, 2)],
)
def test_shards_hold_a_million_tokens_and_eight_documents_by_default(
    count, tokens, expected
):
    table = table_of(count, tokens)
    tables = pretraining_records.assign_partitions(table, 1, None, 0.0)
    assert len(tables["train"]) == expected


def test_too_few_documents_raise():
    with pytest.raises(ValueError, match="num_shards=9 exceeds the 3 doc"):
        pretraining_records.assign_partitions(table_of(3), 1, 9, 0.0)
    with pytest.raises(ValueError, match="held_out_prob=0.5 leaves none of 1"):
        pretraining_records.assign_partitions(table_of(1), 1, None, 0.5)

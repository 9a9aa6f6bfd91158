"""show_records: examples of any schema as text."""

import re
import sys

import planted_records as planted
import pytest
import tensorflow as tf

from run_scripts import show_records
from tfrecords.inspection import samples


@pytest.fixture
def show(capsys):
    """Path of records, flags -> printed lines."""

    def run(path, *words):
        show_records.main(["show_records", f"--records={path}", *words])
        return capsys.readouterr().out.splitlines()

    return run


@pytest.fixture(scope="module")
def batch():
    return planted.make_batch(40, unk_share=0.1)


@pytest.fixture
def show_batch(show, tmp_path, batch):
    """Flags -> printed lines of the batch."""
    folder, vocab_file = planted.write(tmp_path / "train", batch, num_shards=1)

    def run(*words):
        return show(folder, f"--vocab_file={vocab_file}", *words)

    return run


def text_of(line):
    """Returns a line's tokens before masking, ## pieces joined."""
    line = re.sub(r"\{(\S+) (?:->|=) \S+\}", r"\1", line.strip()[2:])
    return line


def test_examples_of_pre_training(show_batch, batch):
    lines = show_batch("--num_records=5")[15:]
    assert len(lines) == 10
    head, counts, first, second, empty = lines[:5]
    assert head.startswith("record 3: '") and "byte" in head
    assert empty == ""
    assert lines[5].startswith("record 4: ")
    tokens = batch["input_mask"][3].sum()
    masked = int(batch["masked_lm_weights"][3].sum())
    label = batch["next_sentence_labels"][3]
    assert counts.startswith(f"  {tokens} tokens of 32, {masked} masked, ")
    assert counts.endswith(
        f"next_sentence_labels {label}: {['next', 'random'][label]}"
    )
    assert first.startswith("  A [CLS] ") and first.endswith(" [SEP]")
    assert second.startswith("  B ") and second.endswith(" [SEP]")
    ids = samples.unmask(batch)[3][:tokens]
    words = [planted.UNCASED[i] for i in ids]
    a_end = words.index("[SEP]") + 1
    for line, part in ((first, words[:a_end]), (second, words[a_end:])):
        joined = " ".join(part).replace(" ##", "##")
        assert text_of(line) == joined.replace("[CLS]##", "[CLS] ##")
    assert (first + second).count("{") == masked


def test_colour_is_used_on_terminals_only(show_batch, monkeypatch):
    plain = show_batch()
    assert "\033" not in "".join(plain)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    coloured = "\n".join(show_batch())
    assert "\033[33m{" in coloured and "-> [MASK]}\033[0m" in coloured
    assert "\033[2m[CLS]\033[0m" in coloured
    assert re.sub("\033\\[[0-9;]*m", "", coloured) == "\n".join(plain)
    monkeypatch.setenv("NO_COLOR", "1")
    assert show_batch() == plain


def test_features_of_unknown_schemas_are_printed_as_they_are(show, tmp_path):
    def write(name, **features):
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            proto = tf.train.Example()
            for key, values in features.items():
                slot = proto.features.feature[key]
                if isinstance(values[0], bytes):
                    slot.bytes_list.value.extend(values)
                else:
                    slot.int64_list.value.extend(values)
            writer.write(proto.SerializeToString())

    write(
        "more.tfrecord",
        input_ids=[2, 7, 3, 0],
        input_mask=[1, 1, 1, 0],
        segment_ids=[0, 0, 0, 0],
        unique_ids=[41],
        places=list(range(30)),
        title=[b"a gull"],
    )
    lines = show(tmp_path / "more.tfrecord")
    assert lines[2] == "  A <2> <7> <3>"
    assert "  unique_ids: 41" in lines
    assert "  title: b'a gull'" in lines
    assert "  places: 0 1 2 3 4 5 6 7 8 9 10 11 ... of 30" in lines
    write("other.tfrecord", pixels=[1, 2])
    lines = show(tmp_path / "other.tfrecord")
    assert lines[1:] == ["  pixels: 1 2", ""]
    both = f"{tmp_path}/more.tfrecord,{tmp_path}/other.tfrecord"
    lines = show(both, "--num_records=2")
    assert lines[-2:] == ["  pixels: 1 2", ""]

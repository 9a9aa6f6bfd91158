"""benchmarks.end_to_end: its inputs and commands, without running them."""

import json
import sys
import types

import pytest

from benchmarks import end_to_end, processes

HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
NUM_ROWS = end_to_end.NUM_DEV_ROWS + 3


@pytest.fixture
def commands(monkeypatch):
    """Commands that `run` would have started."""
    started = []
    monkeypatch.setattr(end_to_end, "run", lambda *words: started.append(words))
    return started


def test_all_libraries_get_the_same_rows_and_lines(tmp_path, commands):
    data, folder = tmp_path / "MRPC", tmp_path / "prepared"
    sentence = "-DOCSTART- O\n\nBonn NNP B-LOC\nis VBZ O\n\nIt PRP O\n"
    data.mkdir()
    folder.mkdir()
    rows = [f"{i % 2}\t1\t2\tfirst {i}\tsecond {i}\n" for i in range(NUM_ROWS)]
    (data / "train.tsv").write_text(HEADER + "".join(rows))
    for name in end_to_end.NUM_SENTENCES:
        (data / name).write_text(sentence)
    (data / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    values = types.SimpleNamespace(
        data_dir=str(data),
        ner_dir=str(data),
        vocab_file=str(data / "vocab.txt"),
        size="tiny",
        peers=["keras_hub"],
    )
    end_to_end.prepare(folder, values)
    first = end_to_end.NUM_DEV_ROWS
    texts = [[f"first {i}", f"second {i}", i % 2] for i in range(NUM_ROWS)]
    assert json.loads((folder / "train.json").read_text()) == {
        "train": texts[first:],
        "dev": texts[:first],
    }
    few = json.loads((folder / "train_few.json").read_text())
    assert few["dev"] == texts[: end_to_end.NUM_FEW_ROWS]
    assert (folder / "train.tsv").read_text() == HEADER + "".join(rows[first:])
    assert (folder / "dev.tsv").read_text() == HEADER + "".join(rows[:first])
    lines = (folder / "lines.txt").read_text().splitlines()
    assert len(lines) == end_to_end.NUM_LINES
    assert lines[:2] == [f"first {first}", f"second {first}"]
    predicted = json.loads((folder / "predict.json").read_text())
    assert [text for text, _, _ in predicted] == lines
    assert (folder / "ours" / "model.safetensors").exists()
    sentences = [[["Bonn", "is"], ["B-LOC", "O"]], [["It"], ["O"]]]
    words = json.loads((folder / "ner.json").read_text())
    assert words == {"train": sentences, "dev": sentences}
    few = (folder / "few" / "dev.tsv").read_text()
    assert few == HEADER + "".join(rows[: end_to_end.NUM_FEW_ROWS])
    [command] = commands
    assert f"--output_dir={folder / 'keras_hub'}" in command


@pytest.mark.parametrize("name", end_to_end.PEERS)
def test_a_peer_imports_nothing_of_ours_but_its_settings(name):
    code = f"import sys, benchmarks.peers.{name}_runs; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    words = processes.run(name, command).output.split()
    packages = {word.partition(".")[0] for word in words}
    assert "benchmarks" in packages
    ours = {"bert_tf", "tfrecords", "run_scripts", "tensorflow", "keras"}
    assert not ours & packages

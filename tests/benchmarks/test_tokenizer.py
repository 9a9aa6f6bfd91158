"""The peers give the same ids, and the table is correct; nothing is timed."""

import pytest

from benchmarks import tokenizer

LINES = ["The cat sat, on the mat!", "Café", "", "xyzzy " * 3]


@pytest.fixture(params=[True, False], ids=["uncased", "cased"])
def settings(request, tiny_vocab_file):
    return tokenizer.Settings(tiny_vocab_file, request.param, "", 0)


def test_peers_give_the_same_ids(settings):
    found = {}
    for name, make in tokenizer.PEERS.items():
        if name != "original":
            peer = make(settings)
            found[name] = peer.to_ids(peer.tokenize(LINES))
    assert all(ids == found["python"] for ids in found.values())
    assert sum(map(len, found["python"])) > 10


def test_batches_are_evenly_spaced(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{i:04d} é\n\n" for i in range(1000)))
    flags = [f"--input_file={path}", "--vocab_file=v", "--batch_size=10"]
    tokenizer.FLAGS(["benchmark", *flags, "--max_megabytes=0"])
    everything = tokenizer.read_batches()
    assert len(everything) == 100
    assert tokenizer.count_megabytes(everything) == pytest.approx(0.007)
    tokenizer.FLAGS(["benchmark", *flags, "--max_megabytes=0.0007"])
    assert [batch[0] for batch in tokenizer.read_batches()] == [
        f"{i:04d} é" for i in range(0, 1000, 100)
    ]


def test_ratios_are_computed_within_rounds(capsys):
    times = {
        "ours": [(1, 1), (2, 1), (4, 1)],
        "other": [(2, 2), (8, 2), (4, 2)],
    }
    tokenizer.show(times, 8.0)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == "ours 4.00 8.00 1.00x (1.00 to 1.00)".split()
    assert lines[2].split() == "other 2.00 4.00 2.00x (1.00 to 4.00)".split()

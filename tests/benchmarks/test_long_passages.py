"""Memory of an answer is measured; it does not grow with repetitions."""

import json

import pytest

from benchmarks import long_passages


def test_passages_have_the_requested_length():
    for make in long_passages.KINDS.values():
        for size in (1, 5_000):
            assert len(make(size, ["the", "town"])) == size
    sentences = long_passages.KINDS["sentence"](39, [])
    assert sentences == "the painter lived. the painter lived. t"


def test_a_row_has_the_memory_for_each_character():
    row = long_passages.Answer("real", 2_000, 20, 800_000_000, 801e6, 0.25)
    assert long_passages.format_row(row) == (
        "| real | 2,000 | 801 | 1 | 500 | 0.2 |"
    )


@pytest.mark.slow
def test_a_repetitive_passage_is_answered(tmp_path, tiny_vocab_file, capsys):
    path, text = tmp_path / "memory.json", tmp_path / "text.txt"
    text.write_text("The captain sat on the warm stone.\n")
    long_passages.main(
        [
            "long_passages",
            f"--vocab_file={tiny_vocab_file}",
            f"--input_file={text}",
            "--kinds=letter",
            "--num_characters=60000",
            f"--json={path}",
        ]
    )
    assert "| real | 60,000 | " in capsys.readouterr().out
    for row in json.loads(path.read_text()):
        assert row["num_answers"] == 20
        # 3 GB when each candidate had a copy of the passage.
        assert row["peak_bytes"] - row["before_bytes"] < 200e6

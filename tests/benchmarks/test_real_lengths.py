"""The sample of a task's rows and its batches; nothing is timed."""

import numpy as np
import planted_tasks as tasks
import pytest

from benchmarks import real_lengths, turns


def test_a_sample_is_evenly_spaced():
    lines = ["header\n"] + [f"{i}\n" for i in range(100)]
    assert real_lengths.sample_lines(lines, 4, True) == [
        "header\n",
        *("0\n", "25\n", "50\n", "75\n"),
    ]
    assert len(real_lengths.sample_lines(lines, 1000, False)) == 101


def test_a_batch_is_truncated_to_its_longest_row():
    mask = np.array([[1, 1, 0, 0], [1, 1, 1, 0]])
    batch = {"input_mask": mask, "label_ids": np.array([0, 1])}
    found = real_lengths.cut(batch)
    assert found["input_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert found["label_ids"].tolist() == [0, 1]


def test_each_implementation_gets_its_kind_of_batches():
    made = {"ours": 1, "cut": 2, "padded": 3}
    names = ["ours", "hugging_face", "hugging_face_eager", "keras_hub"]
    found = [real_lengths.batches_of(name, made) for name in names]
    assert found == [1, 2, 2, 3]


def parse(data_dir, vocab_file):
    real_lengths.FLAGS(
        [
            "benchmark",
            f"--data_dir={data_dir}",
            f"--vocab_file={vocab_file}",
            "--max_seq_length=32",
            "--batch_size=4",
            "--padded_batches=1",
        ]
    )


@pytest.mark.parametrize("is_training", [True, False])
def test_all_implementations_get_the_same_rows(
    tmp_path, tiny_vocab_file, is_training
):
    texts = ["the cat", "the cat sat on the mat", "cat", "the mat sat"] * 3
    (tmp_path / "SST-2").mkdir()
    rows = "".join(f"{text}\t{i % 2}\n" for i, text in enumerate(texts))
    (tmp_path / "SST-2" / "train.tsv").write_text(f"sentence\tlabel\n{rows}")
    parse(tmp_path, tiny_vocab_file)
    (tmp_path / "aside").mkdir()
    sample = real_lengths.make_sample("SST-2", str(tmp_path / "aside"))
    schema = tasks.classification("SST-2", 2).schema
    made = real_lengths.make_batches(sample, is_training, schema)

    def rows_of(batches):
        return sorted(
            tuple(row[row > 0]) for b in batches for row in b["input_word_ids"]
        )

    assert len(rows_of(made["ours"])) == 12
    assert rows_of(made["ours"]) == rows_of(made["cut"])
    assert len(made["padded"]) == 1
    assert made["padded"][0]["input_word_ids"].shape == (4, 32)
    positions = [sum(b["input_mask"].size for b in made[n]) for n in made]
    assert positions[0] <= positions[1] < 12 * 32


def test_rows_that_do_not_fill_batches_are_refused(tmp_path, tiny_vocab_file):
    command = ["x", f"--data_dir={tmp_path}", f"--vocab_file={tiny_vocab_file}"]
    with pytest.raises(ValueError, match="--rows=100 should be a multiple of"):
        real_lengths.main([*command, "--rows=100", "--batch_size=32"])
    (tmp_path / "SST-2").mkdir()
    path = tmp_path / "SST-2" / "train.tsv"
    path.write_text("sentence\tlabel\n" + "the cat\t1\n" * 3)
    parse(tmp_path, tiny_vocab_file)
    with pytest.raises(ValueError, match="train.tsv has fewer rows than a"):
        real_lengths.make_sample("SST-2", str(tmp_path))


def test_missing_data_is_named(tmp_path, tiny_vocab_file):
    parse(tmp_path, tiny_vocab_file)
    with pytest.raises(ValueError, match="CoLA/train.tsv is missing. Give"):
        real_lengths.make_sample("CoLA", str(tmp_path))


def test_rows_per_second_exclude_padding_rows():
    given = [{"is_real_example": np.ones(4)}, {"is_real_example": np.eye(4)[0]}]
    assert real_lengths.rows_per_second(given, [0.5, 1.0]) == [5.0, 2.5]


def test_a_table_compares_rows_per_second():
    batch = {"is_real_example": np.ones(4), "input_mask": np.ones((4, 8))}
    made = {"ours": [batch], "cut": [batch], "padded": [batch]}
    found = [
        {
            "ours": turns.Times([0.5, 1.0], [], 0.0, 0.0, 10**6, 5),
            "keras_hub": turns.Times([2.0, 2.0], [], 0.0, 0.0, 10**6, 5),
        }
    ]
    rows = real_lengths.rows_of(["ours", "keras_hub", "absent"], found, made)
    assert [row["ratios"] for row in rows] == [[1.0, 1.0], [4.0, 2.0]]
    lines = real_lengths.format_table(rows).splitlines()
    assert lines[3] == "| keras_hub | 2.0 | 3.00x (2.00 to 4.00) | 8.0 | 1 |"

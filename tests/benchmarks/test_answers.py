"""benchmarks.answers: its texts, differences and table, and a minimal run."""

import importlib.util
import json
import sys

import numpy as np
import pytest

from benchmarks import answers, processes
from tfrecords.text.tokenizer import BertTokenizer


def test_texts_have_exactly_the_tokens_that_are_asked_for():
    entries = answers.make_vocabulary(2000)
    assert len(entries) == 2000 and len(set(entries)) == 2000
    tokenizer = BertTokenizer(entries)
    for rows, tokens in ((1, 3), (3, 8), (2, 128)):
        texts = answers.make_texts(entries, rows, tokens)
        lengths = tokenizer(texts).row_lengths().numpy().tolist()
        assert lengths == [tokens - 2] * rows
        ids = tokenizer(texts).flat_values.numpy()
        assert tokenizer.unk_id not in ids
        continued = sum(entries[i].startswith("##") for i in ids)
        assert continued == rows * ((tokens + 1) // 5)


def test_a_difference_is_that_of_the_same_class():
    expected = [("no", 0.75), ("yes", 0.5)]
    found = [("no", 0.5), ("no", 0.625)]
    assert answers.difference(found, expected) == (1, 0.25)
    vectors = np.array([[1.0, 2.0]])
    assert answers.difference(vectors + [[0.0, 0.5]], vectors) == (0, 0.5)


def test_ratios_are_to_the_fastest_of_the_others():
    def side(first, second):
        of = {"first_seconds": 9.0, "other_labels": 1, "difference": 0.25}
        times = {"seconds": [first, second], "p50": first, "p99": second}
        return {
            "start_seconds": 2.0,
            "disk_bytes": 3_000_000,
            "peak_bytes": 4_000_000,
            "requests": {"1x8": of | times},
        }

    known = {
        "onnx": side(0.001, 0.004),
        "pipeline": side(0.003, 0.003),
        "optimum": side(0.002, 0.002),
    }
    *_, onnx, pipeline, optimum = answers.format_table(known).splitlines()
    assert onnx == (
        "| onnx | 1.0, 4.0 (1.25x) | 2.0 | 9000 | 4 | 3 | 1, 2e-01 |"
    )
    assert "(1.50x)" in pipeline and "(1.00x)" in optimum


# Three processes that import TensorFlow.
@pytest.mark.slow
def test_our_answers_are_those_of_the_predictor(tmp_path, capsys):
    words = "--size=tiny --requests=1x8,3x16 --rounds=1 --seconds=0 "
    words += "--libraries=saved_model,optimum"
    path = tmp_path / "report.json"
    answers.main(["answers", *words.split(), f"--json={path}"])
    known = json.loads(path.read_text())["tables"]["float32"]
    assert [*known] == ["saved_model"]
    for request in known["saved_model"]["requests"].values():
        assert request["other_labels"] == 0
        assert request["difference"] < 1e-5
        assert 0 < request["p50"] <= request["p99"]
    if importlib.util.find_spec("optimum") is None:
        assert "skipped: optimum: " in capsys.readouterr().out


def test_a_python_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="=/no/python is no program"):
        answers.main(["answers", "--optimum_python=/no/python"])


def test_a_python_with_only_one_library_can_run_it():
    code = "import sys, benchmarks.peers.answers; print(*sys.modules)"
    words = processes.run("answers", [sys.executable, "-c", code]).output
    packages = {word.partition(".")[0] for word in words.split()}
    assert "benchmarks" in packages
    assert not {"bert_tf", "tfrecords", "tensorflow", "absl"} & packages

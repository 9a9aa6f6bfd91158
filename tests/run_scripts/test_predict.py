"""predict: streams, memory, explanations.

Its answers are in tests/contracts/test_answers.py.
"""

import base64
import csv
import html
import json
import os
import re
import subprocess
import sys
import threading

import exports
import numpy as np
import pytest

from bert_tf.contrib.apps import attributions
from bert_tf.contrib.apps.page import attention_page
from bert_tf.serving import predictions, predictor
from run_scripts import predict

TEXTS = ["The cat sat on the warm stone.", "", "old bread"]


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.fixture
def run(tmp_path):
    """Input bytes, flags -> the output lines."""

    def run(content, *words):
        (tmp_path / "input").write_bytes(content)
        paths = [
            f"--input_file={tmp_path / 'input'}",
            f"--output_file={tmp_path / 'answers.jsonl'}",
        ]
        predict.main(["predict", *paths, *words])
        assert not list(tmp_path.glob("*.tmp"))
        return read(tmp_path / "answers.jsonl")

    return run


@pytest.fixture
def answers_to(exported, run, monkeypatch):
    """Kind, input bytes, flags -> the output lines."""

    def answers_to(kind, content, *words):
        # Not loaded again for every test.
        loaded = exported(kind).loaded
        monkeypatch.setattr(predictions, "load", lambda *_: loaded)
        return run(content, f"--export_dir={exported(kind).path}", *words)

    return answers_to


@pytest.fixture
def stdin_of(monkeypatch):
    """Bytes -> stdin reads them from a pipe."""

    def feed(content):
        reader, writer = os.pipe()

        def write():
            with os.fdopen(writer, "wb") as file:
                file.write(content)

        threading.Thread(target=write).start()
        monkeypatch.setattr(sys, "stdin", os.fdopen(reader))

    yield feed
    sys.stdin.close()


def test_lines_of_stdin_have_answers_in_stdout(exported, stdin_of, capsys):
    # A byte order mark and Windows line ends are no text.
    stdin_of("\ufeffthe cat\r\nna\xefve\r\n".encode())
    predict.main(["predict", f"--export_dir={exported('classification').path}"])
    answers = [json.loads(x) for x in capsys.readouterr().out.splitlines()]
    assert [row["text_a"] for row in answers] == ["the cat", "na\xefve"]


COMMAND = (sys.executable, "-m", "run_scripts.predict")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_lines(exported, tmp_path):
    def peak_bytes(num_lines):
        path = tmp_path / "input"
        path.write_text("the old captain looked at the sea\n" * num_lines)
        words = [
            f"--export_dir={exported('classification').path}",
            f"--input_file={path}",
            f"--output_file={tmp_path / 'answers'}",
        ]
        child = subprocess.Popen([*COMMAND, *words], stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        assert len(read(tmp_path / "answers")) == num_lines
        return usage.ru_maxrss * 1024

    assert peak_bytes(10_000) < peak_bytes(100) + 60e6


@pytest.mark.slow
def test_weights_that_are_packed_once_give_the_same_answers(
    exported, answers_to
):
    """As a command, which sets TF_ONEDNN_ASSUME_FROZEN_WEIGHTS."""
    texts = [" ".join(["the cat"] * n) for n in (1, 20, 3, 9, 1, 20)]
    content = "\n".join(texts).encode()
    expected = answers_to("classification", content, "--batch_size=2")
    model = f"--export_dir={exported('classification').path}"
    done = subprocess.run(
        [*COMMAND, model, "--batch_size=2"],
        env=os.environ | {"TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": "1"},
        input=content,
        stdout=subprocess.PIPE,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["text_a"] for row in answers] == texts
    np.testing.assert_allclose(
        [row["logits"] for row in answers],
        [row["logits"] for row in expected],
        atol=1e-5,
    )


@pytest.fixture
def explain(made_once, run, tmp_path):
    """Kind, input bytes, flags -> the lines, and the file of --explain."""

    def explain(kind, content, *words, name="out.html"):
        path = tmp_path / name
        folder = exports.model_folder(made_once, kind)
        words = f"--model_dir={folder}", f"--explain={path}", *words
        return run(content, *words), path

    return explain


def shown(path):
    """Returns (line, words with their values) of each section."""
    sections = path.read_text("utf-8").split("<section ")[1:]
    words = '<mark [^>]*title="([^"]*)">([^<]*)<'
    return [
        (int(re.match('id="line-([0-9]+)"', x)[1]), re.findall(words, x))
        for x in sections
    ]


@pytest.mark.slow
def test_a_model_folder_gives_the_answers_of_its_export(answers_to, explain):
    content = "\n".join(TEXTS).encode()
    lines, path = explain("classification", content)
    for found, expected in zip(
        lines, answers_to("classification", content), strict=True
    ):
        assert found["label"] == expected["label"]
        np.testing.assert_allclose(
            found["logits"], expected["logits"], atol=1e-5
        )
    sections = shown(path)
    assert [line for line, _ in sections] == [1, 2, 3]
    assert sections[1][1] == []
    for text, (_, words) in zip(TEXTS, sections, strict=True):
        joined = "".join(html.unescape(word) for _, word in words)
        assert joined == text.replace(" ", "")


@pytest.mark.slow
def test_explanations_of_a_process_are_those_of_python(made_once, tmp_path):
    folder = exports.model_folder(made_once, "regression")
    row = {"id": 7, "text_a": "the old cat", "text_b": "sat on stone"}
    (tmp_path / "in.jsonl").write_text(json.dumps(row))
    # In this process TensorFlow assumes that weights do not change.
    words = [
        *(f"--model_dir={folder}", f"--input_file={tmp_path / 'in.jsonl'}"),
        f"--explain={tmp_path / 'out.html'}",
    ]
    subprocess.run([*COMMAND, *words], check=True, capture_output=True)
    explain = attributions.Explainer(predictor.Predictor(folder))
    found = explain((row["text_a"], row["text_b"]))
    assert found.error < 1e-3 and len(found.words) == 6
    words = [(f"{x.value:+.4f}", html.escape(x.text)) for x in found.words]
    ((line, marks),) = shown(tmp_path / "out.html")
    assert line == 1
    assert [(x.partition(" (")[0], text) for x, text in marks] == words


@pytest.mark.slow
def test_a_model_folder_has_the_signature_for_words(explain, answers_to):
    words = "--signature=words", "--explain="
    found, _ = explain("tagging", b"the old cat\nstone\n", *words)
    expected = answers_to("tagging", b"the old cat\nstone\n", words[0])
    assert [row["tags"] for row in found] == [row["tags"] for row in expected]
    with pytest.raises(ValueError, match="no signature 'words'. Omit"):
        explain("classification", b"", *words)


def test_explanations_are_written_completely_or_not(explain, tmp_path):
    (tmp_path / "out.html").write_text("before")
    with pytest.raises(ValueError, match="input:2: zero bytes"):
        explain("classification", b"the cat\n\0\0\n")
    assert (tmp_path / "out.html").read_text() == "before"
    for name, flag in (("input", "input_file"), ("a", "output_file")):
        with pytest.raises(ValueError, match=f"--{flag}"):
            explain(
                "classification",
                b"the cat\n",
                f"--output_file={tmp_path / 'a'}",
                f"--explain={tmp_path / name}",
            )


def test_texts_of_several_windows_are_answered_and_not_explained(
    run, tmp_path, caplog
):
    folder, path = tmp_path / "model", tmp_path / "out.html"
    model = exports.make_for("classification")
    exports.save_model(model, "classification", folder, long_text="windows")
    content = b"the cat " * 200 + b"\nthe mat\n"
    lines = run(content, f"--model_dir={folder}", f"--explain={path}")
    assert [row["line"] for row in lines] == [1, 2]
    assert "out.html: 1, the first in line 1: 'the cat the " in caplog.text
    page = path.read_text()
    assert "mat" in page and "cat" not in page


def test_a_file_of_attention_has_the_texts_that_fit(
    explain, monkeypatch, caplog
):
    content = "\n".join(TEXTS).encode()
    monkeypatch.setattr(attention_page, "_MAX_WEIGHTS", 1)
    _, path = explain("classification", content, name="my.attention.html")
    (written,) = re.findall('json">([^<]*)<', path.read_text("utf-8"))
    (first,) = json.loads(written)["texts"]
    assert (first["line"], first["count"]) == (1, len(first["tokens"]))
    assert "of the first 1 texts, without that of 2 more" in caplog.text


def test_attention_of_a_pair_has_its_texts_in_order(run, tmp_path):
    row = {"context": "the cat sat on the stone", "question": "old bread"}
    model = exports.make_for("question_answering")
    settings = {"doc_stride": 4, "max_query_length": 4}
    exports.save_model(model, "spans", tmp_path / "model", **settings)
    path = tmp_path / "attention.html"
    words = f"--model_dir={tmp_path / 'model'}", f"--explain={path}"
    run(json.dumps(row).encode(), *words, "--input_format=jsonl")
    (written,) = re.findall('json">([^<]*)<', path.read_text("utf-8"))
    (found,) = json.loads(written)["texts"]
    source = predictor.Predictor(tmp_path / "model")
    expected = attention_page.compute(
        source.model.encoder,
        source.tokenizer,
        source.max_seq_length,
        [row["question"], row["context"]],
    )
    assert found["tokens"] == [*expected.tokens]
    percent = np.frombuffer(base64.b64decode(found["weights"]), np.uint8)
    np.testing.assert_allclose(
        percent / 100, expected.weights.ravel(), atol=0.00501
    )


def test_attention_of_a_model_of_single_texts(run, tmp_path):
    model = exports.make_for("classification")
    settings = {"labels": ["bad", "fair", "good"], "num_texts": 1}
    exports.save_model(model, "classification", tmp_path / "model", **settings)
    path = tmp_path / "attention.html"
    run(b"a cat\n", f"--model_dir={tmp_path / 'model'}", f"--explain={path}")
    (written,) = re.findall('json">([^<]*)<', path.read_text("utf-8"))
    assert len(json.loads(written)["texts"]) == 1


def test_attention_of_several_texts_is_refused(explain):
    with pytest.raises(ValueError, match="for a text or a pair, and .*endings"):
        explain("multiple_choice", b"", name="attention.html")


def test_rows_that_are_all_bad_are_not_called_missing(
    answers_to, tmp_path, caplog
):
    with pytest.raises(ValueError, match="2 of 2 rows have no answer"):
        answers_to("classification", b"3\n{}\n", "--input_format=jsonl")
    assert [row["line"] for row in read(tmp_path / "answers.jsonl")] == [1, 2]
    assert "has no rows" not in caplog.text


def test_a_table_has_the_columns_of_the_input_and_of_the_answer(
    answers_to, tmp_path
):
    (tmp_path / "in.csv").write_text('n,label,text\n7,x,"a ""b"",\nc"\n8\n')
    words = [
        f"--input_file={tmp_path / 'in.csv'}",
        "--text_column=text",
        f"--output_file={tmp_path / 'out.csv'}",
    ]
    (tmp_path / "answers.jsonl").touch()
    with pytest.raises(ValueError, match="1 of 2 rows have no answer"):
        answers_to("classification", b"", *words)
    with open(tmp_path / "out.csv", encoding="utf-8", newline="") as file:
        good, bad = csv.DictReader(file)
    (tmp_path / "one.csv").write_text('n,text\n7,"a ""b"",\nc"\n')
    expected, *_ = answers_to(
        *("classification", b"", "--columns=text_a=text"),
        f"--input_file={tmp_path / 'one.csv'}",
    )
    probabilities = dict(
        zip(exports.LABELS, expected["probabilities"], strict=True)
    )
    assert good == {
        "n": "7",
        "input_label": "x",
        "text": 'a "b",\nc',
        "label": expected["label"],
        "probability": str(max(expected["probabilities"])),
        **{f"probability_{x}": str(p) for x, p in probabilities.items()},
        "error": "",
    }
    assert "in.csv:4 has 1 comma-separated" in bad.pop("error")
    assert set(bad.values()) == {""}

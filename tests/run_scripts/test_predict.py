"""predict: input formats, predictions, and errors."""

import html
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf
from absl import flags
from exports import LABELS, MAX_SEQ_LENGTH

from bert_tf.serving import predictions
from run_scripts import predict

TEXTS = ["The cat sat on the warm stone.", "", "old bread"]


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.fixture
def answers_to(exported, tmp_path, monkeypatch):
    """Kind, input bytes, flags -> the output lines."""

    def run(kind, content, *words):
        # Not loaded again for every test.
        loaded = exported(kind).loaded
        monkeypatch.setattr(predictions, "load", lambda *_: loaded)
        (tmp_path / "input").write_bytes(content)
        predict.main(
            [
                "predict",
                f"--export_dir={exported(kind).path}",
                f"--input_file={tmp_path / 'input'}",
                f"--output_file={tmp_path / 'answers.jsonl'}",
                *words,
            ]
        )
        assert not list(tmp_path.glob("*.tmp"))
        return read(tmp_path / "answers.jsonl")

    return run


def test_a_line_is_a_text(exported, answers_to):
    answers = answers_to("classification", "\n".join(TEXTS).encode())
    expected = exported("classification").loaded.text(TEXTS)
    assert [row["line"] for row in answers] == [1, 2, 3]
    assert [row["text_a"] for row in answers] == TEXTS
    assert all(row["label"] in LABELS for row in answers)
    np.testing.assert_allclose(
        [row["logits"] for row in answers], expected["logits"], atol=1e-6
    )
    np.testing.assert_allclose(
        [sum(row["probabilities"]) for row in answers], 1.0, atol=1e-6
    )


def test_answers_do_not_depend_on_the_batch_size(answers_to):
    content = "\n".join(TEXTS * 3).encode()
    one = answers_to("classification", content, "--batch_size=1")
    four = answers_to("classification", content, "--batch_size=4")
    assert len(one) == 9
    np.testing.assert_allclose(
        [row["logits"] for row in one],
        [row["logits"] for row in four],
        atol=1e-6,
    )


def test_columns_by_name(exported, answers_to):
    content = b'id\tsecond\tfirst\n7\ta ship\tthe cat\n8\t\tthe "sea\n'
    answers = answers_to(
        "classification",
        content,
        "--text_a_column=first",
        "--text_b_column=second",
    )
    texts = ["the cat", 'the "sea'], ["a ship", ""]
    assert [row["line"] for row in answers] == [2, 3]
    assert [row["text_a"] for row in answers] == texts[0]
    assert [row["text_b"] for row in answers] == texts[1]
    expected = exported("classification").loaded.text(*texts)["logits"]
    np.testing.assert_allclose(
        [row["logits"] for row in answers], expected, atol=1e-6
    )


def test_columns_by_index_need_no_header_line(answers_to):
    answers = answers_to("classification", b"7\tthe cat\n", "--text_a_column=1")
    assert answers[0]["text_a"] == "the cat"
    assert "text_b" not in answers[0]


def test_masks_are_filled(exported, answers_to):
    answers = answers_to("fill_mask", b"the [MASK] sat on the [MASK].\nnone")
    expected = exported("fill_mask").loaded.text(
        ["the [MASK] sat on the [MASK]."]
    )
    filled, none = answers
    assert len(filled["masks"]) == 2
    for i, candidates in enumerate(filled["masks"]):
        assert [found["token"] for found in candidates] == [
            token.decode() for token in expected["tokens"].numpy()[0, i]
        ]
        assert candidates[0]["filled"] == filled["filled"]
    assert none == {"line": 2, "text": "none", "filled": "none", "masks": []}


def test_an_encoder_gives_the_pooled_output(exported, answers_to):
    (answer,) = answers_to("encoder", b"the cat\n")
    expected = exported("encoder").loaded.text(["the cat"])["pooled_output"][0]
    assert set(answer) == {"line", "text_a", "pooled_output"}
    np.testing.assert_allclose(answer["pooled_output"], expected, atol=1e-6)


def lines(*values):
    return "\n".join(map(json.dumps, values)).encode()


@pytest.mark.slow
def test_endings_are_chosen(exported, answers_to):
    rows = [
        {"id": "x", "context": "The cat sat.", "endings": ["a ship", "old"]},
        {"context": "It rained.", "endings": ["on", "the", "warm stone"]},
    ]
    first, second = answers_to("multiple_choice", lines(*rows))
    expected = exported("multiple_choice").loaded.text(
        ["The cat sat.", "It rained."],
        [["a ship", "old", ""], ["on", "the", "warm stone"]],
    )
    assert first["id"] == "x" and first["line"] == 1
    assert len(first["probabilities"]) == len(first["logits"]) == 2
    np.testing.assert_allclose(
        second["probabilities"], expected["probabilities"][1], atol=1e-6
    )
    assert [first["choice"], second["choice"]] == (
        expected["choice"].numpy().tolist()
    )
    assert second["ending"] == rows[1]["endings"][second["choice"]]


@pytest.mark.slow
def test_words_have_tags_and_offsets(exported, answers_to):
    first, second = answers_to("tagging", b"The old (cat)\n\n")
    expected = exported("tagging").loaded.text(["The old (cat)"])
    words = first["words"]
    assert [x["word"] for x in words] == ["The", "old", "(", "cat", ")"]
    assert [x["tag"] for x in words] == [
        tag.decode() for tag in expected["tags"].numpy()[0]
    ]
    assert [(x["start"], x["end"]) for x in words] == [
        (0, 3), (4, 7), (8, 9), (9, 12), (12, 13),
    ]  # fmt: skip
    assert second == {"line": 2, "text": "", "words": []}


def test_pre_split_words(exported, answers_to):
    content = b"the old cat\nstone\n"
    of_text = answers_to("tagging", content, "--signature=words")
    rows = [{"words": ["the", "old", "cat"]}, {"words": ["stone"]}]
    of_json = answers_to(
        "tagging", lines(*rows), "--signature=words", "--input_format=jsonl"
    )
    assert of_text == of_json
    expected = exported("tagging").loaded.words([["the", "old", "cat"]])
    assert of_text[0]["tags"] == [
        tag.decode() for tag in expected["tags"].numpy()[0]
    ]
    assert len(of_text[1]["tags"]) == len(of_text[1]["probabilities"]) == 1


def test_predictions_do_not_include_padding_of_the_batch(answers_to):
    content = b"the [MASK] sat on the [MASK].\nnone\n"
    words = "--outputs=tokens", "--batch_size=2"
    two, none = answers_to("fill_mask", content, *words)
    assert [len(two["tokens"]), len(none["tokens"])] == [2, 0]
    content = b"the old cat\nstone\n"
    words = "--outputs=tags", "--batch_size=2"
    three, one = answers_to("tagging", content, *words)
    assert [len(three["tags"]), len(one["tags"])] == [3, 1]


def test_questions_are_answered(exported, answers_to):
    rows = [
        {"id": "q", "question": "Who sat?", "context": "The old cat sat."},
        {"question": "Who?", "context": ""},
    ]
    first, second = answers_to("question_answering", lines(*rows))
    expected = exported("question_answering").loaded.text(
        ["Who sat?"], ["The old cat sat."]
    )
    assert first["id"] == "q"
    assert first["answer"] == expected["answer"].numpy()[0].decode()
    assert first["answer"] == rows[0]["context"][first["start"] : first["end"]]
    assert len(first["nbest"]) == expected["num_answers"].numpy()[0] == 15
    assert first["nbest"][0]["answer"] == first["answer"]
    assert first["nbest"][0]["probability"] == first["probability"]
    assert (second["answer"], second["start"], second["end"]) == ("", -1, -1)


def test_questions_from_a_tsv_file(exported, answers_to):
    answers = answers_to(
        "question_answering",
        b"The old cat sat.\tWho sat?\n",
        "--columns=question=1,context=0",
        "--outputs=answer,start",
    )
    (from_json,) = answers_to(
        "question_answering",
        lines({"question": "Who sat?", "context": "The old cat sat."}),
    )
    assert answers[0].keys() == {
        "line", "question", "context", "answer", "start",
    }  # fmt: skip
    assert answers[0]["answer"] == from_json["answer"]


def test_the_second_text_may_be_missing_in_json(answers_to):
    rows = [{"text_a": "the cat", "text_b": "a ship"}, {"text_a": "old"}]
    answers = answers_to("classification", lines(*rows), "--input_format=jsonl")
    assert answers[1].keys() == {
        "line", "text_a", "label", "probabilities", "logits",
    }  # fmt: skip
    (alone,) = answers_to("classification", b"old")
    np.testing.assert_allclose(answers[1]["logits"], alone["logits"], atol=1e-6)


def test_outputs_may_be_chosen(answers_to):
    (answer,) = answers_to("classification", b"the cat", "--outputs=label")
    assert set(answer) == {"line", "text_a", "label"}
    with pytest.raises(ValueError, match="--outputs=mood is not an output"):
        answers_to("classification", b"the cat", "--outputs=mood")


def test_empty_input_gives_empty_output(answers_to):
    assert answers_to("classification", b"") == []


def test_windows_line_ends_and_byte_order_mark_are_removed(answers_to):
    answers = answers_to("classification", b"\xef\xbb\xbfthe cat\r\nold\r\n")
    assert [row["text_a"] for row in answers] == ["the cat", "old"]


def test_a_row_without_the_column_is_named_and_others_answered(
    answers_to, tmp_path, caplog
):
    content = b"a\tthe cat\nthe dog\nb\told\n"
    with pytest.raises(
        ValueError, match="1 of 3 rows have no.*input:2 has 1 t"
    ):
        answers_to("classification", content, "--text_a_column=1")
    first, bad, last = read(tmp_path / "answers.jsonl")
    assert (first["text_a"], last["text_a"]) == ("the cat", "old")
    assert last["label"] in LABELS
    assert bad.keys() == {"line", "error"} and bad["line"] == 2
    assert "input:2 has 1 tab-separated columns; column 1 (from" in bad["error"]
    assert bad["error"] in caplog.messages


def test_a_line_that_is_not_json_is_named_and_others_answered(
    answers_to, tmp_path
):
    content = b'{"text_a": "the cat"}\n{the cat\n{"text_a": "old"}\n'
    with pytest.raises(ValueError, match="input:2 is not JSON"):
        answers_to("classification", content, "--input_format=jsonl")
    found = read(tmp_path / "answers.jsonl")
    assert [row.get("text_a") for row in found] == ["the cat", None, "old"]


def test_a_text_may_begin_with_a_brace(answers_to):
    texts = ['{"text_a": "the cat"}', "{curly} film"]
    answers = answers_to("classification", "\n".join(texts).encode())
    assert [row["text_a"] for row in answers] == texts


def test_a_csv_has_commas_quotes_and_line_breaks(
    answers_to, tmp_path, exported
):
    content = b'text,label\n"a warm film, and a long one",1\n"dull\nand slow",0'
    path = tmp_path / "reviews.csv"
    path.write_bytes(content)
    words = f"--input_file={path}", "--text_a_column=text"
    first, second = answers_to("classification", b"", *words)
    texts = ["a warm film, and a long one", "dull\nand slow"]
    assert [first["text_a"], second["text_a"]] == texts
    assert [first["line"], second["line"]] == [2, 3]
    expected = exported("classification").loaded.text(texts)["logits"]
    np.testing.assert_allclose(
        [first["logits"], second["logits"]], expected, atol=1e-6
    )


EXACT = "a " * (MAX_SEQ_LENGTH - 2)


@pytest.mark.parametrize(
    ("kind", "given", "num_cut"),
    [
        # Nine texts of the same letters: bytes are not tokens.
        ("classification", [EXACT, EXACT + "a", "é" * 12], 1),
        ("fill_mask", [EXACT, EXACT + "[MASK]", "[MASK]"], 1),
        (
            "multiple_choice",
            [
                {"context": "a " * 6, "endings": ["a", "a " * 7]},
                {"context": "a " * 6, "endings": ["a " * 8, "a"]},
                {"context": EXACT * 2, "endings": []},
            ],
            2,
        ),
        ("tagging", [EXACT * 3], 0),
        (
            "question_answering",
            [{"question": "a", "context": EXACT * 3}],
            0,
        ),
    ],
)
def test_texts_that_are_cut_are_counted(
    answers_to, caplog, kind, given, num_cut
):
    content = [x if isinstance(x, str) else json.dumps(x) for x in given]
    answers = answers_to(kind, "\n".join(content).encode(), "--batch_size=2")
    assert len(answers) == len(given)
    found = [x for x in caplog.messages if "cut" in x]
    assert found == [
        f"{num_cut} of {len(given)} texts have more than max_seq_length=16 "
        "tokens and are cut"
    ] * bool(num_cut)


def test_an_export_that_cannot_count_names_texts_that_may_be_cut(
    answers_to, caplog, exported, monkeypatch
):
    # As exports of version 0.1.
    monkeypatch.setattr(predictions, "_tokens_of", lambda loaded: None)
    answers_to("classification", f"{EXACT}\na\n".encode())
    assert "1 of 2 texts may have more than max_seq_length=16" in caplog.text
    assert "export the model again" in caplog.text


def test_a_column_that_is_not_named_is_refused(answers_to):
    with pytest.raises(
        ValueError, match="input:1 has no column 'text'; the header has a, b"
    ):
        answers_to("classification", b"a\tb\nx\ty\n", "--text_a_column=text")


def test_a_second_column_alone_is_refused(answers_to):
    with pytest.raises(ValueError, match="needs --text_a_column"):
        answers_to("classification", b"", "--text_b_column=b")


def test_a_second_text_is_refused_for_single_text_models(answers_to):
    with pytest.raises(ValueError, match="has one input, 'text'; omit"):
        answers_to("fill_mask", b"", "--text_a_column=0", "--text_b_column=1")


def test_text_columns_are_refused_for_other_inputs(answers_to):
    with pytest.raises(ValueError, match="are context, question; give their"):
        answers_to("question_answering", b"", "--text_a_column=0")


def test_a_folder_without_an_export_is_refused(tmp_path):
    for words in ([], ["--export_dir=a", "--model_dir=b"]):
        with pytest.raises(ValueError, match="Give either --export_dir"):
            predict.main(["predict", *words])
    with pytest.raises(ValueError, match="contains no SavedModel"):
        predict.main(["predict", f"--export_dir={tmp_path}"])
    tf.saved_model.save(tf.train.Checkpoint(), str(tmp_path / "other"))
    with pytest.raises(ValueError, match="but not 'text'"):
        predict.main(["predict", f"--export_dir={tmp_path / 'other'}"])


@pytest.mark.parametrize("name", ["classify", "encoder"])
def test_only_signatures_with_text_inputs_are_accepted(name):
    with pytest.raises(flags.Error, match=r"signature.*one of <text\|words>"):
        predict.main(["predict", "--export_dir=x", f"--signature={name}"])


def test_a_missing_file_is_an_error(answers_to, tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        answers_to(
            "classification", b"", f"--input_file={tmp_path / 'nowhere'}"
        )


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


def test_stdin_to_stdout(exported, stdin_of, capsys):
    stdin_of("the cat\nna\xefve\n".encode())
    predict.main(["predict", f"--export_dir={exported('classification').path}"])
    answers = [json.loads(x) for x in capsys.readouterr().out.splitlines()]
    assert [row["text_a"] for row in answers] == ["the cat", "na\xefve"]


COMMAND = (sys.executable, "-m", "run_scripts.predict")


@pytest.mark.slow
def test_a_closed_pipe_ends_quietly(exported):
    with subprocess.Popen(
        [*COMMAND, f"--export_dir={exported('classification').path}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdin.write(b"the cat\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["line"] == 1
        process.stdout.close()  # As `head -1` does.
        process.stdin.write(b"the cat\n" * 1000)
        process.stdin.close()
        errors = process.stderr.read().decode()
        assert process.wait() == 141
    assert "Traceback" not in errors and "Broken" not in errors


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_lines(exported, tmp_path):
    def peak_bytes(num_lines):
        path = tmp_path / "input"
        path.write_text("the old captain looked at the sea\n" * num_lines)
        child = subprocess.Popen(
            [
                *COMMAND,
                f"--export_dir={exported('classification').path}",
                f"--input_file={path}",
                f"--output_file={tmp_path / 'answers'}",
            ],
            stderr=subprocess.DEVNULL,
        )
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
def explain(exported, tmp_path):
    """Kind, input bytes, flags -> the lines, and the file of --explain."""

    def run(kind, content, *words):
        folder = pathlib.Path(exported(kind).path).parent / "model"
        (tmp_path / "input").write_bytes(content)
        predict.main(
            [
                "predict",
                f"--model_dir={folder}",
                f"--input_file={tmp_path / 'input'}",
                f"--output_file={tmp_path / 'answers.jsonl'}",
                f"--explain={tmp_path / 'out.html'}",
                *words,
            ]
        )
        return read(tmp_path / "answers.jsonl"), tmp_path / "out.html"

    return run


def shown(path):
    """Returns (line, words with their values) of each section."""
    sections = path.read_text("utf-8").split("<section ")[1:]
    words = '<mark [^>]*title="([^"]*)">([^<]*)<'
    return [
        (int(re.match('id="line-([0-9]+)"', x)[1]), re.findall(words, x))
        for x in sections
    ]


def expected_words(folder, value):
    """Returns what `shown` should find for an input."""
    from bert_tf.serving import attributions, predictor

    found = attributions.Explainer(predictor.Predictor(folder))(value)
    assert found.error < 1e-3
    return [(f"{x.value:+.4f}", html.escape(x.text)) for x in found.words]


@pytest.mark.slow
def test_a_model_folder_gives_the_answers_of_its_export(answers_to, explain):
    content = "\n".join([*TEXTS, "<script>alert(1)</script> & cat"]).encode()
    lines, path = explain("classification", content)
    for found, expected in zip(
        lines, answers_to("classification", content), strict=True
    ):
        assert found["label"] == expected["label"]
        np.testing.assert_allclose(
            found["logits"], expected["logits"], atol=1e-5
        )
    sections = shown(path)
    assert [line for line, _ in sections] == [1, 2, 3, 4]
    assert sections[1][1] == []
    assert "<script" not in path.read_text("utf-8")
    shades = re.findall(
        r'<mark style="background:rgba\([^)]*,([0-9.]+)\)[^>]*title="([^"]*)"',
        path.read_text("utf-8"),
    )
    largest = max(abs(float(value)) for _, value in shades)
    for opacity, value in shades:  # One scale for all lines.
        expected = 0.6 * abs(float(value)) / largest
        np.testing.assert_allclose(float(opacity), expected, atol=2e-3)
    for text, (_, words) in zip(TEXTS, sections, strict=False):
        joined = "".join(html.unescape(word) for _, word in words)
        assert joined == text.replace(" ", "")


@pytest.mark.slow
def test_explanations_of_a_process_are_those_of_python(exported, tmp_path):
    folder = pathlib.Path(exported("regression").path).parent / "model"
    row = {"id": 7, "text_a": "the old cat", "text_b": "sat on stone"}
    (tmp_path / "in.jsonl").write_bytes(lines(row))
    # In this process TensorFlow assumes that weights do not change.
    subprocess.run(
        [
            *COMMAND,
            f"--model_dir={folder}",
            f"--input_file={tmp_path / 'in.jsonl'}",
            f"--explain={tmp_path / 'out.html'}",
        ],
        check=True,
        capture_output=True,
    )
    (section,) = shown(tmp_path / "out.html")
    value = (row["text_a"], row["text_b"])
    assert section == (1, expected_words(folder, value))
    assert len(section[1]) == 6


def test_explanations_need_a_model_folder_of_such_a_kind(explain, tmp_path):
    with pytest.raises(ValueError, match="give --model_dir, the folder that"):
        predict.main(["predict", "--export_dir=x", "--explain=out.html"])
    with pytest.raises(ValueError, match="kind 'tagging' have no attributions"):
        explain("tagging", b"the cat\n")
    assert not list(tmp_path.glob("*.html"))


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


def test_rows_that_are_all_bad_are_not_called_missing(
    answers_to, tmp_path, caplog
):
    with pytest.raises(ValueError, match="2 of 2 rows have no answer"):
        answers_to("classification", b"3\n{}\n", "--input_format=jsonl")
    assert [row["line"] for row in read(tmp_path / "answers.jsonl")] == [1, 2]
    assert "has no rows" not in caplog.text

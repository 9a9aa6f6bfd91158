"""Folders of exports: their files, what is refused, and the report."""

import hashlib
import json
import pathlib
import subprocess
import sys

import exports
import pytest

from bert_tf.serving.runtimes import config, export_network, report
from tfrecords.io import json_files

FORMATS = tuple(config.MODULES)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_a_folder_has_all_that_a_client_needs(exported, name):
    found = exported("tagging", name)
    settings = json.loads((found.folder / "model.json").read_text())
    weights = ["model.bin"] if name == "openvino" else []
    assert sorted(path.name for path in found.folder.iterdir()) == sorted(
        [
            "README.md",
            "model.json",
            "predict.py",
            "report.json",
            "tokenizer.py",
            "vocab.txt",
            settings["file"],
            *weights,
        ]
    )
    assert settings["labels"] == exports.LABELS
    assert settings["weights"] == "float32"
    assert settings["outputs"] == ["logits"]
    card = (found.folder / "README.md").read_text()
    assert "| weights | float32 |" in card and f"format {name}." in card
    entries = pathlib.Path(exports.VOCAB_FILE).read_bytes()
    assert settings["vocab_sha256"] == hashlib.sha256(entries).hexdigest()
    assert settings["vocab_size"] == entries.count(b"\n")
    assert settings["num_classes"] == 3
    assert (found.folder / "vocab.txt").read_bytes() == entries


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_predict_reads_lines_of_text(exported, name):
    found = exported("classification", name)
    answers = []
    for line, words in (
        ("a ship", []),
        ('{"text_a": "a ship", "text_b": ""}', ["--input_format=jsonl"]),
    ):
        output = subprocess.run(
            [sys.executable, "-B", str(found.folder / "predict.py"), *words],
            input=f"{line}\n",
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        answers.append(json.loads(output))
    first, second = answers
    assert first == second and first["label"] in exports.LABELS


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_the_report(exported, name):
    found = exported("classification", name).report
    differences = found["largest_difference"]
    assert set(differences) == {"random", "texts"}
    for of_outputs in differences.values():
        assert set(of_outputs) == {"logits", "probabilities"}
        assert all(0 <= x < 2e-5 for x in of_outputs.values())
    assert set(found["bytes"]) == {name, "savedmodel"}
    assert len(found["milliseconds"]) == 2
    for times in found["milliseconds"].values():
        assert set(times) == {name, "savedmodel"}
        assert all(x > 0 for x in times.values())


@pytest.mark.slow
def test_labels_give_a_score(need_format, model_of, export, tmp_path):
    need_format("onnx")
    (tmp_path / "dev.tsv").write_text(
        "text_a\tlabel\n" + "a ship\tgood\n" * 3 + "a ship\tbad\n"
    )
    export(
        model_of("classification"),
        tmp_path / "out",
        "--format=onnx",
        f"--report_file={tmp_path / 'dev.tsv'}",
    )
    found = json_files.read(str(tmp_path / "out" / "report.json"))
    assert set(found["accuracy"].values()) <= {0.0, 0.25, 0.75}
    assert len(set(found["accuracy"].values())) == 1
    assert "accuracy: onnx " in "\n".join(report.lines(found))


@pytest.mark.slow
def test_a_wrong_conversion_is_not_kept(
    need_format, model_of, export, tmp_path, monkeypatch
):
    need_format("litert")
    monkeypatch.setattr(export_network, "_MAX_DIFFERENCE", 0.0)
    with pytest.raises(RuntimeError, match="Outputs of litert differ by"):
        export(model_of("classification"), tmp_path / "out", "--format=litert")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_without_a_report(need_format, model_of, export, tmp_path):
    need_format("litert")
    words = ("--format=litert", "--noreport")
    export(model_of("classification"), tmp_path / "out", *words)
    assert not (tmp_path / "out" / "report.json").exists()
    with pytest.raises(ValueError, match="out already exists; .* --overwrite"):
        export(model_of("classification"), tmp_path / "out", *words)
    export(model_of("classification"), tmp_path / "out", *words, "--overwrite")


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_a_left_to_right_model(need_format, export, tmp_path, name):
    need_format(name)
    model = exports.make_model("classification", is_causal=True)
    exports.save_model(model, "classification", tmp_path / "model")
    export(tmp_path / "model", tmp_path / "out", f"--format={name}")
    found = json_files.read(str(tmp_path / "out" / "report.json"))
    assert max(found["largest_difference"]["random"].values()) < 2e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "reason"),
    [("litert", "LiteRT has no"), ("onnx", "tf2onnx does not convert")],
)
def test_an_lstm_is_refused(monkeypatch, export, tmp_path, name, reason):
    monkeypatch.setitem(config.MODULES, name, ())
    model = exports.make_model("tagging", bilstm_units=4)
    exports.save_model(model, "tagging", tmp_path / "model")
    with pytest.raises(ValueError, match=f"bilstm_units=4, and {reason}"):
        export(tmp_path / "model", tmp_path / "out", f"--format={name}")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_openvino_holds_an_lstm(need_format, export, tmp_path):
    need_format("openvino")
    model = exports.make_model("tagging", bilstm_units=4)
    exports.save_model(model, "tagging", tmp_path / "model")
    export(tmp_path / "model", tmp_path / "out", "--format=openvino")
    found = json_files.read(str(tmp_path / "out" / "report.json"))
    assert max(found["largest_difference"]["random"].values()) < 2e-5


def test_a_folder_of_something_else_is_not_replaced(
    monkeypatch, model_of, export, tmp_path
):
    monkeypatch.setitem(config.MODULES, "onnx", ())
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="is not a model for onnx"):
        export(
            model_of("classification"),
            tmp_path,
            "--format=onnx",
            "--overwrite",
        )
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_kind_that_does_not_match_the_task_is_refused(
    monkeypatch, model_of, export, tmp_path
):
    monkeypatch.setitem(config.MODULES, "onnx", ())
    words = ("--format=onnx", "--kind=tagging")
    with pytest.raises(ValueError, match="--kind=tagging does not fit a model"):
        export(model_of("classification"), tmp_path / "out", *words)


@pytest.mark.parametrize(
    "words",
    [["--report_file"], ["--quantize=static", "--calibration_file"]],
)
def test_an_unknown_label_is_refused_before_the_conversion(
    monkeypatch, model_of, export, tmp_path, words
):
    monkeypatch.setitem(config.MODULES, "onnx", ())
    path = tmp_path / "dev.tsv"
    path.write_text("text_a\tlabel\na ship\tfine\na ship\tgood\n")
    words = ["--format=onnx", *words[:-1], f"{words[-1]}={path}"]
    with pytest.raises(ValueError, match="dev.tsv:2 has the label 'fine'; the"):
        export(model_of("classification"), tmp_path / "out", *words)
    assert not (tmp_path / "out").exists()


def test_a_stride_that_skips_words_is_refused(
    monkeypatch, model_of, export, tmp_path
):
    monkeypatch.setitem(config.MODULES, "onnx", ())
    words = ("--format=onnx", "--doc_stride=15")
    with pytest.raises(ValueError, match="doc_stride=15 should be from 1 to "):
        export(model_of("tagging"), tmp_path / "out", *words)


def test_the_source_is_never_replaced(monkeypatch, export, tmp_path):
    monkeypatch.setitem(config.MODULES, "onnx", ())
    target = tmp_path / "out"
    (target / "model").mkdir(parents=True)
    for path in (target / "model.onnx", target / "dev.tsv"):
        path.write_text("old")
    words = ("--format=onnx", "--overwrite")
    with pytest.raises(ValueError, match="contains the source"):
        export(target / "model", target, *words)
    words += (f"--report_file={target / 'dev.tsv'}",)
    with pytest.raises(ValueError, match="contains the source, .*dev.tsv"):
        export(tmp_path / "model", target, *words)
    assert (target / "model.onnx").read_text() == "old"


def test_a_missing_package_is_refused_first(monkeypatch, export, tmp_path):
    monkeypatch.setitem(config.MODULES, "onnx", ("no_such_module",))
    with pytest.raises(ValueError, match="needs no_such_module"):
        export(tmp_path / "none", tmp_path / "out", "--format=onnx")

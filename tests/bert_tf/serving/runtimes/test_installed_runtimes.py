"""What needs an installed runtime: folders, reports, answers of predict.py.

`make parity` has all of them. Answers are also in tests/contracts.
"""

import hashlib
import json
import pathlib
import shutil

import exports
import numpy as np
import pytest
from exports import need_format

import bert_tf
from bert_tf.serving.runtimes import config, export_network, report
from tfrecords.io import json_files
from tfrecords.text import segments

CLOSE = dict(abs=2e-5, rel=2e-5)
FORMATS = tuple(config.MODULES)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", FORMATS)
def test_a_folder_has_all_that_a_client_needs(shipped, name):
    found = shipped("tagging", name)
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


@pytest.mark.parametrize("name", FORMATS)
def test_the_report(shipped, name):
    found = shipped("classification", name).report
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


def test_labels_give_a_score(model_of, tmp_path):
    need_format("onnx")
    (tmp_path / "dev.tsv").write_text(
        "text_a\tlabel\n" + "a ship\tgood\n" * 3 + "a ship\tbad\n"
    )
    exports.write(
        model_of("classification"),
        tmp_path / "out",
        "--format=onnx",
        f"--report_file={tmp_path / 'dev.tsv'}",
    )
    found = json_files.read(str(tmp_path / "out" / "report.json"))
    assert set(found["accuracy"].values()) <= {0.0, 0.25, 0.75}
    assert len(set(found["accuracy"].values())) == 1
    assert "accuracy: onnx " in "\n".join(report.lines(found))


def test_a_wrong_conversion_is_not_kept(model_of, tmp_path, monkeypatch):
    need_format("litert")
    monkeypatch.setattr(export_network, "_MAX_DIFFERENCE", 0.0)
    with pytest.raises(RuntimeError, match="Outputs of litert differ by"):
        exports.write(
            model_of("classification"), tmp_path / "out", "--format=litert"
        )
    assert not (tmp_path / "out").exists()


def test_without_a_report(model_of, tmp_path):
    need_format("litert")
    words = ("--format=litert", "--noreport")
    exports.write(model_of("classification"), tmp_path / "out", *words)
    assert not (tmp_path / "out" / "report.json").exists()
    with pytest.raises(ValueError, match="out already exists; .* --overwrite"):
        exports.write(model_of("classification"), tmp_path / "out", *words)
    exports.write(
        model_of("classification"), tmp_path / "out", *words, "--overwrite"
    )


@pytest.mark.parametrize("name", FORMATS)
def test_a_left_to_right_model(tmp_path, name):
    need_format(name)
    model = exports.make_model("classification", is_causal=True)
    exports.save_model(model, "classification", tmp_path / "model")
    exports.write(tmp_path / "model", tmp_path / "out", f"--format={name}")
    found = json_files.read(str(tmp_path / "out" / "report.json"))
    assert max(found["largest_difference"]["random"].values()) < 2e-5


def test_openvino_holds_an_lstm(tmp_path):
    need_format("openvino")
    model = exports.make_model("tagging", bilstm_units=4)
    exports.save_model(model, "tagging", tmp_path / "model")
    exports.write(tmp_path / "model", tmp_path / "out", "--format=openvino")
    found = json_files.read(str(tmp_path / "out" / "report.json"))
    assert max(found["largest_difference"]["random"].values()) < 2e-5


@pytest.mark.parametrize("most", [1, 3, 8])
@pytest.mark.parametrize("threshold", [-1000.0, 0.0, 1000.0])
def test_questions_without_an_answer(
    shipped, model_of, tmp_path, threshold, most
):
    found = shipped("question_answering", "onnx", "--version_2_with_negative")
    folder = shutil.copytree(found.folder, tmp_path / "export")
    settings = json.loads((folder / "model.json").read_text())
    settings["null_score_diff_threshold"] = threshold
    settings["n_best_size"] = most
    (folder / "model.json").write_text(json.dumps(settings))
    ours = bert_tf.Predictor(
        model_of("question_answering"),
        version_2_with_negative=True,
        null_score_diff_threshold=threshold,
        doc_stride=settings["doc_stride"],
        max_query_length=settings["max_query_length"],
        n_best_size=settings["n_best_size"],
    )
    texts = exports.TEXTS["question_answering"]
    texts = [*texts, texts[0] | {"question": " "}]
    wanted = ours(texts)
    is_none = threshold == -1000 or (threshold == 1000 and most == 1)
    assert (wanted[0].text == "") == is_none or threshold == 0
    answers = found._replace(folder=folder).predict(texts)
    for answer, expected in zip(answers, wanted, strict=True):
        assert answer["answer"] == expected.text
        assert (answer["start"], answer["end"]) == (
            expected.start,
            expected.end,
        )
        assert [
            (x["answer"], x["start"], x["end"]) for x in answer["nbest"]
        ] == [(x.text, x.start, x.end) for x in expected.nbest]
        assert [x["probability"] for x in answer["nbest"]] == pytest.approx(
            [x.probability for x in expected.nbest], **CLOSE
        )
        assert answer["probability"] == pytest.approx(
            expected.probability, **CLOSE
        )


@pytest.mark.parametrize("name", FORMATS)
def test_the_encoder(shipped, model_of, name):
    found = shipped("encoder", name)
    model, words = bert_tf.load(model_of("encoder"))
    texts = exports.TEXTS["encoder"]
    batch = segments.pack(
        words([text["text_a"] for text in texts]),
        words([text.get("text_b", "") for text in texts]),
        16,
        words.cls_id,
        words.sep_id,
    )
    np.testing.assert_allclose(
        [x["pooled_output"] for x in found.predict(texts)],
        model.encoder(batch).pooled_output,
        atol=2e-5,
    )
    differences = found.report["largest_difference"]["random"]
    assert set(differences) == {"sequence_output", "pooled_output"}
    assert max(differences.values()) < 2e-5

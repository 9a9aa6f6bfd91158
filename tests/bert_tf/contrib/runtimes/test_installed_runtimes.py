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
from bert_tf.contrib.runtimes import config, export_network, report
from tfrecords.io import json_files
from tfrecords.text import segments

CLOSE = dict(abs=2e-5, rel=2e-5)
FORMATS = tuple(config.MODULES)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", FORMATS)
def test_a_folder_has_all_that_a_client_needs(shipped, name):
    folder = shipped("tagging", name).folder
    settings = json_files.read(str(folder / "model.json"))
    weights = ["model.bin"] if name == "openvino" else []
    assert {path.name for path in folder.iterdir()} == {
        *("README.md", "model.json", "predict.py", "report.json"),
        *("tokenizer.py", "vocab.txt", settings["file"], *weights),
    }
    entries = pathlib.Path(exports.VOCAB_FILE).read_bytes()
    assert (folder / "vocab.txt").read_bytes() == entries
    expected = {
        "labels": exports.LABELS,
        "weights": "float32",
        "outputs": ["logits"],
        "vocab_sha256": hashlib.sha256(entries).hexdigest(),
        "vocab_size": entries.count(b"\n"),
        "num_classes": 3,
    }
    assert settings.items() >= expected.items()
    card = (folder / "README.md").read_text()
    assert "| weights | float32 |" in card and f"format {name}." in card


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


@pytest.mark.parametrize(
    ("kind", "name", "axes"),
    [
        ("classification", "onnx", {"batch", "sequence"}),
        ("fill_mask", "onnx", {"batch", "sequence", "masks"}),
        ("question_answering", "hugging_face_onnx", {"batch", "sequence"}),
        ("fill_mask", "hugging_face_onnx", {"batch", "sequence"}),
        (
            "multiple_choice",
            "hugging_face_onnx",
            {"batch", "choices", "sequence"},
        ),
    ],
)
def test_every_weight_is_read_and_axes_have_one_name(
    model_of, tmp_path, monkeypatch, kind, name, axes
):
    need_format("onnx")
    import onnx

    from bert_tf.contrib.runtimes import onnx as onnx_files

    # All are initializers, as in a larger model; the pooler's is not read.
    monkeypatch.setattr(onnx_files, "_LEAST_HALF", 1)
    words = f"--format={name}", "--noreport", "--half"
    if (kind, name) == ("multiple_choice", "hugging_face_onnx"):
        words += ("--quantize=dynamic",)
    exports.write(model_of(kind), tmp_path / "out", *words)
    for path in (tmp_path / "out").rglob("*.onnx"):
        graph = onnx.load(str(path)).graph
        read = {x for node in graph.node for x in node.input}
        assert {x.name for x in graph.initializer} <= read, path
        shapes = [
            x.type.tensor_type.shape.dim for x in (*graph.input, *graph.output)
        ]
        assert all(shape[0].dim_param == "batch" for shape in shapes)
        assert {x.dim_param for dims in shapes for x in dims} - {""} == axes


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize(
    ("name", "fused"), [("gelu", "FastGelu"), ("gelu_erf", "Gelu")]
)
def test_onnxruntime_fuses_layer_norm_and_gelu(
    tmp_path, name, fused, norm_first
):
    need_format("onnx")
    import onnx
    import onnxruntime

    sizes = {"hidden_act": name, "norm_first": norm_first}
    model = exports.make_model("classification", num_hidden_layers=2, **sizes)
    exports.save_model(model, "classification", tmp_path / "model")
    exports.write(tmp_path / "model", tmp_path / "out", "--format=onnx")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.graph_optimization_level = level
    onnxruntime.InferenceSession(str(tmp_path / "out/model.onnx"), options)
    graph = onnx.load(options.optimized_model_filepath).graph
    kinds = [node.op_type for node in graph.node]
    assert kinds.count("LayerNormalization") == 5 + norm_first
    assert kinds.count(fused) == 2
    assert not {"Erf", "Pow", "Sqrt"} & set(kinds)
    found = json_files.read(str(tmp_path / "out/report.json"))
    assert max(found["largest_difference"]["random"].values()) < 1e-5


def test_openvino_computes_in_bfloat16(shipped):
    whole = shipped("classification", "openvino")
    found = shipped("classification", "openvino", "--precision=bfloat16")
    settings = json_files.read(str(found.folder / "model.json"))
    assert settings["precision"] == "bfloat16"
    largest = found.report["largest_difference"]["texts"]["logits"]
    # Processors without bfloat16 compute in float32.
    has_bfloat16 = "_bf16" in pathlib.Path("/proc/cpuinfo").read_text()
    assert (1e-4 if has_bfloat16 else 0.0) < largest < 0.5
    texts = exports.TEXTS["classification"]
    for one, other in zip(
        found.predict(texts), whole.predict(texts), strict=True
    ):
        assert one["probabilities"] == pytest.approx(
            other["probabilities"], abs=0.1
        )


@pytest.mark.parametrize("kind", ["encoder", "sentence_embedding"])
def test_a_folder_of_hidden_states_has_no_head(tmp_path, kind):
    need_format("onnx")
    rules = {"split_special_tokens": False, "prompts": {"query": "the "}}
    model = exports.make_for("classification")
    exports.save_model(model, "classification", tmp_path / "model", **rules)
    flags = "--format=hugging_face_onnx", f"--kind={kind}"
    exports.write(tmp_path / "model", tmp_path / "out", *flags)
    values = json_files.read(str(tmp_path / "out/config.json"))
    assert values["architectures"] == ["BertModel"]
    assert "id2label" not in values and "problem_type" not in values
    again, words = bert_tf.load(tmp_path / "out")
    assert again.metadata["task"] == "pretraining"
    assert not words.rules.get("split_special_tokens", True)
    if kind == "sentence_embedding":
        assert again.metadata["prompts"] == rules["prompts"]
        assert again.metadata["max_seq_length"] == exports.MAX_SEQ_LENGTH


def test_nan_is_not_kept_in_any_type(model_of, tmp_path, monkeypatch):
    need_format("onnx")
    monkeypatch.setattr(
        report, "_differences", lambda _: {"start": 0.0, "end": np.nan}
    )
    monkeypatch.setattr(export_network, "_MAX_DIFFERENCE", np.inf)
    words = "--format=hugging_face_onnx", "--half"
    with pytest.raises(RuntimeError, match="Outputs of onnx/.* differ by nan"):
        exports.write(model_of("classification"), tmp_path / "out", *words)
    assert not (tmp_path / "out").exists()


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
    paths = model_of("classification"), tmp_path / "out"
    words = ("--format=litert", "--noreport")
    exports.write(*paths, *words)
    assert not (tmp_path / "out/report.json").exists()
    with pytest.raises(ValueError, match="out already exists; .* --overwrite"):
        exports.write(*paths, *words)
    exports.write(*paths, *words, "--overwrite")


def export_once(tmp_path, task, name, **settings):
    """Exports a model of these settings; checks its differences."""
    need_format(name)
    model = exports.make_model(task, **settings)
    exports.save_model(model, task, tmp_path / "model")
    exports.write(tmp_path / "model", tmp_path / "out", f"--format={name}")
    found = json_files.read(str(tmp_path / "out/report.json"))
    assert max(found["largest_difference"]["random"].values()) < 2e-5


@pytest.mark.parametrize("name", FORMATS)
def test_a_left_to_right_model(tmp_path, name):
    export_once(tmp_path, "classification", name, is_causal=True)


@pytest.mark.parametrize("name", FORMATS)
def test_a_head_that_reads_pooled_tokens(tmp_path, name):
    export_once(tmp_path, "classification", name, classifier_pooling="mean")


@pytest.mark.parametrize("most", [1, 3, 8])
@pytest.mark.parametrize("threshold", [-1000.0, 0.0, 1000.0])
def test_questions_without_an_answer(
    shipped, model_of, tmp_path, threshold, most
):
    found = shipped("question_answering", "onnx", "--version_2_with_negative")
    folder = shutil.copytree(found.folder, tmp_path / "export")
    settings = {"null_score_diff_threshold": threshold, "n_best_size": most}
    written = json_files.read(str(folder / "model.json")) | settings
    (folder / "model.json").write_text(json.dumps(written))
    ours = bert_tf.Predictor(
        model_of("question_answering"),
        version_2_with_negative=True,
        doc_stride=written["doc_stride"],
        max_query_length=written["max_query_length"],
        **settings,
    )
    texts = exports.TEXTS["question_answering"]
    texts = [*texts, texts[0] | {"question": " "}]
    wanted = ours(texts)
    is_none = threshold == -1000 or (threshold == 1000 and most == 1)
    assert (wanted[0].text == "") == is_none or threshold == 0
    answers = found._replace(folder=folder).predict(texts)
    for answer, expected in zip(answers, wanted, strict=True):
        pairs = zip(answer["nbest"], expected.nbest, strict=True)
        for one, other in ((answer, expected), *pairs):
            assert (one["answer"], one["start"], one["end"]) == other[:3]
            assert one["probability"] == pytest.approx(
                other.probability, **CLOSE
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

"""What an export for another runtime refuses, without the runtime."""

import exports
import pytest

from bert_tf.contrib.runtimes import config, export_network


@pytest.fixture(autouse=True)
def onnx(monkeypatch):
    """Takes the packages of ONNX for installed."""
    monkeypatch.setitem(config.MODULES, "onnx", ())


def test_a_folder_of_something_else_is_not_replaced(model_of, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    words = ("--format=onnx", "--overwrite")
    with pytest.raises(ValueError, match="is not a model for onnx"):
        exports.write(model_of("classification"), tmp_path, *words)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "words",
    [["--report_file"], ["--quantize=static", "--calibration_file"]],
)
def test_an_unknown_label_is_refused_before_the_conversion(
    model_of, tmp_path, words
):
    path = tmp_path / "dev.tsv"
    path.write_text("text_a\tlabel\na ship\tfine\na ship\tgood\n")
    words = ["--format=onnx", *words[:-1], f"{words[-1]}={path}"]
    with pytest.raises(ValueError, match="dev.tsv:2 has the label 'fine'; the"):
        exports.write(model_of("classification"), tmp_path / "out", *words)
    assert not (tmp_path / "out").exists()


def test_a_stride_that_skips_words_is_refused(model_of, tmp_path):
    words = ("--format=onnx", "--doc_stride=15")
    with pytest.raises(ValueError, match="doc_stride=15 should be from 1 to "):
        exports.write(model_of("tagging"), tmp_path / "out", *words)


def test_the_source_is_never_replaced(tmp_path):
    target = tmp_path / "out"
    (target / "model").mkdir(parents=True)
    for path in (target / "model.onnx", target / "dev.tsv"):
        path.write_text("old")
    words = ("--format=onnx", "--overwrite")
    with pytest.raises(ValueError, match="contains the source"):
        exports.write(target / "model", target, *words)
    words += (f"--report_file={target / 'dev.tsv'}",)
    with pytest.raises(ValueError, match="contains the source, .*dev.tsv"):
        exports.write(tmp_path / "model", target, *words)
    assert (target / "model.onnx").read_text() == "old"


def test_a_folder_without_a_fast_tokenizer_is_refused(tmp_path):
    model = exports.make_model("classification")
    vocab_file = tmp_path / "vocab.txt"
    with open(exports.VOCAB_FILE, encoding="utf-8") as file:
        entries = file.read().split()
    vocab_file.write_text("\n".join([*entries[:-1], entries[-2]]))
    source = tmp_path / "model"
    exports.save_model(model, "classification", source, str(vocab_file))
    with pytest.raises(ValueError, match="vocab.txt gives no tokenizer.json"):
        exports.write(source, tmp_path / "out", "--format=hugging_face_onnx")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("largest", "is_float32"),
    [(0.002, True), (float("nan"), True), (float("nan"), False)],
)
def test_a_difference_that_is_not_kept(largest, is_float32):
    with pytest.raises(RuntimeError, match=f"x differ by {largest} from Tens"):
        export_network._check_difference("x", largest, is_float32)
    export_network._check_difference("x", 0.002, is_float32=False)


def test_a_missing_package_is_refused_first(monkeypatch, tmp_path):
    monkeypatch.setitem(config.MODULES, "onnx", ("no_such_module",))
    with pytest.raises(ValueError, match="needs no_such_module"):
        exports.write(tmp_path / "none", tmp_path / "out", "--format=onnx")

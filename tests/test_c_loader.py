"""The C program that calls TensorFlow's loader: outputs and errors."""

import subprocess

import c_loader
import pytest
import tensorflow as tf


class Echo(tf.Module):
    """Has an output of each dtype."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.string),
            tf.TensorSpec([None], tf.int32),
        ],
        autograph=False,
    )
    def echo(self, text, number):
        return {
            "text_out": tf.identity(text),
            "number_out": number + 1,
            "real_out": tf.cast(number, tf.float32) / 4.0,
            "wide_out": tf.size(text, tf.int64),
        }

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.float32)], autograph=False
    )
    def halve(self, real):
        return {"real_out": real / 2.0}


@pytest.fixture(scope="module")
def ask(c_program, tmp_path_factory):
    """Returns a function that runs the program on an Echo model."""
    path = str(tmp_path_factory.mktemp("echo") / "echo")
    module = Echo()
    signatures = {"serving_default": module.echo, "halve": module.halve}
    tf.saved_model.save(module, path, signatures=signatures)
    _, names = c_loader.tensor_names(path, "serving_default")

    def run(outputs, *words):
        outputs = ",".join(names[name] for name in outputs)
        return subprocess.run(
            [c_program, path, "", outputs, *words],
            capture_output=True,
            text=True,
        )

    return run


TEXT, NUMBER = "serving_default_text:0", "serving_default_number:0"
REAL = "halve_real:0"
TEXTS = [TEXT, "2,2", "a", "b\tc", "", "d"]
NUMBERS = [NUMBER, "2", "4", "-7"]


def test_strings_and_numbers_are_printed(ask):
    found = ask(["text_out", "number_out", "real_out"], *TEXTS, *NUMBERS)
    assert found.returncode == 0, found.stderr
    texts, numbers, reals = found.stdout.splitlines()
    assert texts.split("\t")[1:] == ["2,2", "a", r"b\tc", "", "d"]
    assert numbers.split("\t")[1:] == ["2", "5", "-6"]
    assert reals.split("\t")[1:] == ["2", "1", "-1.75"]


def test_an_empty_tensor_has_no_values(ask):
    found = ask(["text_out"], TEXT, "3,0", *NUMBERS)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split("\t")[1:] == ["3,0\n"]


@pytest.mark.parametrize(
    ("outputs", "words", "message"),
    [
        (["text_out"], TEXTS[:-1], "text: fewer values than its shape has"),
        (["text_out"], [TEXT], "text:0: no shape follows"),
        (["text_out"], [TEXT, "-1,2"], "text: no such shape"),
        (["text_out"], [*TEXTS, "text"], "text: no shape follows"),
        (["text_out"], [REAL, "1", "0.5"], "real: neither string nor int32"),
        (
            ["wide_out"],
            [*TEXTS, *NUMBERS],
            ": neither string nor int32 nor float32",
        ),
        (["text_out"] * 65, TEXTS, ": too many outputs"),
        (["number_out"], [NUMBER, "0"] * 65, "number:0: too many inputs"),
        (["text_out"], ["nothing:0", "0"], "nothing: no such operation"),
    ],
)
def test_errors_are_printed(ask, outputs, words, message):
    found = ask(outputs, *words)
    assert found.returncode == 1, found.stdout
    assert message in found.stderr
    assert not found.stdout

"""convert_checkpoint end to end, and a run without trained heads."""

import exports
import pytest

from bert_tf.checkpoint import detection
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.checkpoint.formats.google import tf1_checkpoint
from run_scripts import convert_checkpoint, run_pretraining


def convert(source, to, output_dir, *more):
    convert_checkpoint.main(
        [
            "convert_checkpoint",
            f"--from={source}",
            f"--to={to}",
            f"--output_dir={output_dir}",
            *more,
        ]
    )


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A TF1 checkpoint of a pre-trainer."""
    folder = tmp_path_factory.mktemp("released")
    model = exports.make_model("pretraining")
    exports.save_model(model, "pretraining", folder / "ours")
    convert(folder / "ours", "google", folder / "uncased_L-1_H-16_A-2")
    return folder / "uncased_L-1_H-16_A-2"


def test_flags_are_those_of_the_conversion(pretrained, tmp_path, capsys):
    convert(pretrained, "bert_tf", tmp_path / "ours")
    report = capsys.readouterr().out
    assert "hidden_act gelu\n" in report
    more = ("--overwrite", "--hidden_act=gelu_erf")
    convert(pretrained, "hugging_face", tmp_path / "ours", *more)
    report = capsys.readouterr().out
    assert "equal bit for bit" in report
    assert detection.detect(str(tmp_path / "ours")) == "hugging_face"
    assert Checkpoint.open(tmp_path / "ours").config.hidden_act == "gelu_erf"


def test_newly_initialized_heads_are_not_evaluated(
    pretrained, pretraining_records, tmp_path
):
    convert(pretrained, "google", tmp_path / "bare")
    tensors = tf1_checkpoint.read_tensors(f"{tmp_path}/bare/bert_model.ckpt")
    tf1_checkpoint.write_tensors(
        {n: t for n, t in tensors.items() if not n.startswith("cls/")},
        str(tmp_path / "bare"),
    )
    words = [
        f"--eval_input_file={pretraining_records}/held_out",
        *(f"--init_checkpoint={tmp_path}/bare", f"--output_dir={tmp_path}/run"),
    ]
    with pytest.raises(ValueError, match="without masked_lm/bias, .*not train"):
        run_pretraining.main(["run_pretraining", *words])

"""Fine-tuning with --lora_rank: what is trained, and read by others."""

import numpy as np
import planted_data
import pytest
import safetensors.numpy
import served

from bert_tf.workflows import conversion
from run_scripts import run_glue
from tfrecords.io import json_files


def run(*flags):
    run_glue.main(["run_glue", *map(str, flags)])


def weights(folder):
    return safetensors.numpy.load_file(folder / "model.safetensors")


@pytest.fixture(scope="module")
def flags(tmp_path_factory, tiny_model_flags):
    """Flags of a run with adapters, and the model that it starts from."""
    folder = tmp_path_factory.mktemp("lora")
    planted_data.write_glue(folder)
    base = [
        *("--task_name=CoLA", f"--data_dir={folder / 'CoLA'}"),
        *("--max_seq_length=32", "--train_batch_size=4"),
        *("--learning_rate=1e-2", f"--records_dir={folder / 'records'}"),
    ]
    source = folder / "source"
    words = "--do_train", "--num_train_epochs=1", f"--output_dir={source}"
    run(*base, *tiny_model_flags, *words)
    base += [f"--init_checkpoint={source}", "--num_train_epochs=2"]
    return [*base, "--do_train", "--do_eval", "--lora_rank=4"], source


@pytest.mark.slow
def test_only_adapted_kernels_pooler_and_head_are_trained(
    flags, tmp_path, caplog
):
    flags, source = flags
    whole = tmp_path / "whole"
    with caplog.at_level("INFO", logger="absl"):
        run(*flags, f"--output_dir={whole}")
    assert "adapters of rank 4  trained 818 of" in caplog.text
    last = "checkpoints/step-00000006"
    (first,) = source.glob("checkpoints/*")
    before, after = weights(first), weights(whole / last)
    assert set(before) == set(after)
    changed = {
        name
        for name in after
        if name.startswith("encoder/")
        and not np.array_equal(before[name], after[name])
    }
    assert changed == {
        "encoder/pooler/kernel",
        "encoder/pooler/bias",
        *(
            f"encoder/layer_{i}/attention/{name}/kernel"
            for i in (0, 1)
            for name in ("query", "value")
        ),
    }
    # Slots only for weights that are trained.
    slots = safetensors.numpy.load_file(whole / last / "optimizer.safetensors")
    trained = [name for name in slots if name.startswith("m/")]
    assert len(trained) == 2 * 2 * 2 + 2 + 2

    # The moments of adapters do not belong to the merged kernels.
    conversion.convert(str(whole / last), "google", str(tmp_path / "google"))
    assert (tmp_path / "google" / "bert_config.json").exists()

    # Other settings are another run.
    with pytest.raises(ValueError, match="lora_rank: was 4, is now 2"):
        run(*flags, f"--output_dir={whole}", "--lora_rank=2")


@pytest.mark.slow
def test_the_best_model_is_an_ordinary_one(flags, tmp_path):
    flags, _ = flags
    run(*flags, f"--output_dir={tmp_path}", "--lora_targets=query,output")
    results = json_files.read(tmp_path / "eval_results.json")
    assert not (tmp_path / "best/lora.safetensors").exists()
    # Without --do_train and --lora_rank a model without adapters is built.
    run(*flags[:2], f"--output_dir={tmp_path}", "--do_eval", "--do_predict")
    again = json_files.read(tmp_path / "eval_results.json")
    assert again["dev"] == pytest.approx(results["dev"], abs=1e-6)
    assert (tmp_path / "predictions/CoLA.tsv").exists()
    answers = served.answers(tmp_path, [{"text_a": "The sea ."}], tmp_path)
    assert answers[0]["label"] in ("0", "1")

"""Fine-tuning with --lora_rank: what is trained, and read by others."""

import numpy as np
import planted_data
import pytest
import safetensors.numpy

from bert_tf.workflows import conversion
from run_scripts import run_glue
from tfrecords.io import json_files


def run(*flags):
    run_glue.main(["run_glue", *map(str, flags)])


def weights(folder):
    return safetensors.numpy.load_file(folder / "model.safetensors")


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_adapters_are_trained_and_the_models_of_a_run_are_ordinary_ones(
    tmp_path, tiny_model_flags, caplog
):
    planted_data.write_glue(tmp_path)
    data = "--task_name=CoLA", f"--data_dir={tmp_path / 'CoLA'}"
    base = [
        *(*data, "--max_seq_length=32", "--train_batch_size=4", "--do_train"),
        *("--learning_rate=1e-2", f"--records_dir={tmp_path / 'records'}"),
    ]
    source, output = tmp_path / "source", tmp_path / "run"
    words = "--num_train_epochs=1", f"--output_dir={source}"
    run(*base, *tiny_model_flags, *words)
    flags = [*base, "--do_eval", f"--output_dir={output}", "--lora_rank=4"]
    flags += [f"--init_checkpoint={source}", "--num_train_epochs=2"]
    flags += ["--lora_targets=query,output"]
    with caplog.at_level("INFO", logger="absl"):
        run(*flags)
    assert "adapters of rank 4  trained 946 of" in caplog.text
    (first,), last = source.glob("checkpoints/*"), output / "checkpoints"
    last /= "step-00000006"
    before, after = weights(first), weights(last)
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
            f"encoder/layer_{i}/{name}/kernel"
            for i in (0, 1)
            for name in ("attention/query", "output_dense")
        ),
    }
    # Slots only for weights that are trained.
    slots = safetensors.numpy.load_file(last / "optimizer.safetensors")
    trained = [name for name in slots if name.startswith("m/")]
    assert len(trained) == 2 * 2 * 2 + 2 + 2

    # The moments of adapters do not belong to the merged kernels.
    conversion.convert(str(last), "google", str(tmp_path / "google"))
    assert (tmp_path / "google" / "bert_config.json").exists()

    # Other settings are another run.
    with pytest.raises(ValueError, match="lora_rank: was 4, is now 2"):
        run(*flags, "--lora_rank=2")

    # Without --do_train and --lora_rank a model without adapters is built.
    assert not (output / "best/lora.safetensors").exists()
    results = json_files.read(output / "eval_results.json")
    run(*data, f"--output_dir={output}", "--do_eval", "--do_predict")
    again = json_files.read(output / "eval_results.json")
    assert again["dev"] == pytest.approx(results["dev"], abs=1e-6)
    assert (output / "predictions/CoLA.tsv").exists()

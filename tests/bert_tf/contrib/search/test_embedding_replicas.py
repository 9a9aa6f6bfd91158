"""Vectors trained on two replicas have the losses of one: all are gathered."""

import planted_data
import pytest
import run_processes

from bert_tf.contrib.search.records import text_examples


def train(folder, name, *words):
    """Returns the lines of the log of a run."""
    flags = [f"--train_file={folder / 'rows.tsv'}", "--dev_share=0"]
    flags += ["--text_column=a,b,c", "--do_train"]
    flags += [f"--vocab_file={run_processes.VOCAB_FILE}"]
    flags += [f"--bert_config_file={folder / 'bert_config.json'}"]
    flags += ["--max_seq_length=16", "--train_batch_size=8"]
    flags += ["--num_train_epochs=2", "--learning_rate=1e-2"]
    flags += ["--log_every_steps=1", f"--output_dir={folder / name}"]
    script = "run_scripts.run_embeddings"
    return run_processes.train([*flags, *words], folder / name, script=script)


@pytest.mark.slow
def test_two_replicas_have_the_losses_of_one(tmp_path):
    lines = planted_data.sentences()
    # Short first texts: their padding is not computed.
    rows = [("a", "b", "c")]
    firsts = [" ".join(line.split()[:2]) for line in lines[:16]]
    rows += [(x, *lines[i + 1 : i + 3]) for i, x in enumerate(firsts)]
    content = "".join("\t".join(row) + "\n" for row in rows)
    (tmp_path / "rows.tsv").write_text(content)
    run_processes.write_config(tmp_path)
    one = train(tmp_path, "one")
    replicas = ["--distribution_strategy=mirrored", "--virtual_devices=2"]
    two = train(tmp_path, "two", *replicas)
    records = {"train": str(tmp_path / "two" / "records" / "train")}
    assert 2 * text_examples.first_length(records) <= 16
    assert [line["step"] for line in two] == [1, 2, 3, 4]
    for found, expected in zip(two, one, strict=True):
        for name in ("loss", "in_batch_accuracy", "gradient_norm"):
            assert found[name] == pytest.approx(expected[name], rel=1e-5)

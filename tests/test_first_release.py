"""Files of 0.2.0, the first release, are read by every later version.

`data/run_0_2_0` has the command that made them; it stopped after 6 of 12 steps.
"""

import json
import pathlib
import shutil

import numpy as np
import pytest

import bert_tf
from run_scripts import run_glue
from tfrecords.io.records import Records

DATA = pathlib.Path(__file__).parent / "data"
MADE = DATA / "run_0_2_0"
EXPECTED = json.loads((MADE / "expected.json").read_text())


def test_its_best_model_gives_the_answers_that_it_gave():
    model, tokenizer = bert_tf.load(MADE / "run")
    assert model.metadata["labels"] == ["bad", "good"]
    predict = bert_tf.Predictor(model, tokenizer)
    found = [predict(text) for text in EXPECTED["texts"]]
    assert [x.label for x in found] == EXPECTED["labels"]
    for answer, expected in zip(found, EXPECTED["probabilities"], strict=True):
        probabilities = [answer.probabilities[x] for x in ("bad", "good")]
        np.testing.assert_allclose(probabilities, expected, rtol=1e-5)


def test_its_records_are_read():
    records = Records.open(str(MADE / "run/records/train"))
    assert len(records) == 12
    assert records.manifest.schema_name == "classification"


@pytest.mark.slow
def test_the_same_command_resumes_the_run(tmp_path, monkeypatch, caplog):
    shutil.copytree(MADE, tmp_path / "made")
    shutil.copy(DATA / "vocab.txt", tmp_path)
    monkeypatch.chdir(tmp_path / "made")
    words = (MADE / "command.txt").read_text().split()[3:]
    assert words.pop() == "--stop_at_step=6"
    with caplog.at_level("INFO", logger="absl"):
        run_glue.main(["run_glue", *words])
    assert "resuming from step 6" in caplog.text
    results = json.loads(pathlib.Path("run/eval_results.json").read_text())
    assert results["step"] == EXPECTED["best_step"]
    assert results["dev"]["loss"] == pytest.approx(
        EXPECTED["dev_loss"], rel=1e-3
    )

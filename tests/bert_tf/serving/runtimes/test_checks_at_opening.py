"""predict.py refuses an export of which some files belong to another.

See `conftest.folder` for its runtime.
"""

import json
import subprocess
import sys


def change(folder, **changes):
    """Changes entries of model.json; None removes one."""
    path = folder / "model.json"
    settings = json.loads(path.read_text()) | changes
    settings = {n: x for n, x in settings.items() if x is not None}
    path.write_text(json.dumps(settings))


def predict(folder):
    return subprocess.run(
        [sys.executable, "-B", str(folder / "predict.py")],
        input="a fine film\n",
        capture_output=True,
        text=True,
    )


def refused(folder, *words):
    """Checks that there is one line, with the words, and no answer."""
    process = predict(folder)
    assert (process.returncode, process.stdout) == (1, "")
    (line,) = process.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.endswith("Copy the whole folder again.")
    assert all(word in line for word in words), line


def test_a_whole_export_answers_without_a_note(folder):
    process = predict(folder)
    assert json.loads(process.stdout)["label"] == "good"
    assert (process.returncode, process.stderr) == (0, "")


def test_a_vocabulary_that_was_copied_in_part_is_refused(folder):
    path = folder / "vocab.txt"
    path.write_bytes(path.read_bytes()[:-6])  # Without most of "film\nfine\n".
    # ... and one of as many entries, in another order.
    refused(folder, str(path), "has 6 entries", "was exported with 8 and")
    entries = path.read_text().splitlines() + ["fine"]
    path.write_text("".join(f"{entry}\n" for entry in reversed(entries)))
    refused(folder, str(path), "has 8 entries", "was exported with 8 and")


def test_labels_of_another_model_are_refused(folder):
    change(folder, labels=["bad", "good", "so so"])
    refused(folder, "3 labels in model.json", "with 2 classes")


def test_a_network_with_other_classes_is_refused(folder):
    (folder / "model.onnx").write_text("3")
    refused(folder, "3 outputs of model.onnx", "with 2 classes")


def test_an_export_of_an_earlier_version_opens_with_a_note(folder):
    names = ("vocab_size", "vocab_sha256", "num_classes")
    change(folder, **dict.fromkeys(names))
    process = predict(folder)
    assert json.loads(process.stdout)["label"] == "good"
    (line,) = process.stderr.splitlines()
    assert line.startswith(
        f"note: {folder}/model.json is of an earlier version"
    )

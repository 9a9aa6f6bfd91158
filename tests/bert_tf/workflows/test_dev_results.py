"""Scores on dev sets -> the best model, logs."""

import json
import math

import exports
import pytest

from bert_tf.checkpoint import checksums, model_folders
from bert_tf.training import run_folder
from bert_tf.workflows import dev_results


def make_keep_best(folder, evaluate, is_chief=True, **changes):
    """Returns a function that evaluates a step and keeps the best model."""
    settings = {
        "best_metric": "accuracy",
        "dev": "f00",
        "metadata_of": dict,
        "vocabulary": None,
    }
    return dev_results.make_keep_best(
        None,
        evaluate,
        run_folder.RunFolder(str(folder), is_chief),
        **settings | changes,
    )


def test_the_first_of_the_best_steps_is_kept(tmp_path, monkeypatch):
    def save_model(folder, model, *, metadata, vocabulary):
        with open(f"{folder}/model.json", "w") as file:
            json.dump(metadata, file)

    monkeypatch.setattr(dev_results.model_folders, "save_model", save_model)
    scores = {1: 0.5, 2: 0.75, 3: 0.75, 4: 0.25}
    step = 0
    keep_best = make_keep_best(
        tmp_path,
        lambda: {
            "dev_matched": {"accuracy": scores[step]},
            # The first dev set decides.
            "dev_mismatched": {"accuracy": step / 4},
        },
        metadata_of=lambda scores: {"score": scores["dev_matched"]["accuracy"]},
    )
    for step in scores:
        keep_best(step)
    state = json.loads((tmp_path / "best/state.json").read_text())
    expected = {"step": 2, "metric": "accuracy", "value": 0.75, "dev": "f00"}
    assert state.items() >= expected.items()
    metadata = json.loads((tmp_path / "best/model.json").read_text())
    assert metadata == {"score": 0.75}
    lines = (tmp_path / "logs/dev_mismatched/steps.jsonl").read_text()
    values = [json.loads(line)["accuracy"] for line in lines.splitlines()]
    assert values == [0.25, 0.5, 0.75, 1.0]


def test_an_undefined_score_is_best_only_until_one_is_defined(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(
        dev_results.model_folders, "save_model", lambda *args, **kwargs: None
    )
    scores = {1: None, 2: None, 3: -0.5, 4: None, 5: -0.75}
    keep_best = make_keep_best(
        tmp_path,
        lambda: {"dev": {"loss": 1.0, "spearman": scores[step]}},
        best_metric="spearman",
    )
    best = {}
    for step in scores:
        keep_best(step)
        state = dev_results.read_best(str(tmp_path / "best"))
        best[step] = state["step"], state["value"]
    assert best == {
        **{1: (1, None), 2: (1, None)},
        **{3: (3, -0.5), 4: (3, -0.5), 5: (3, -0.5)},
    }
    lines = (tmp_path / "logs/dev/steps.jsonl").read_text().splitlines()
    assert lines[0] == '{"step": 1, "loss": 1.0, "spearman": null}'


def no_constants(name):
    raise ValueError(f"{name} is not valid JSON")


def test_an_undefined_score_is_null_with_the_reason(tmp_path, caplog):
    results = {"dev": {"loss": 0.5, "pearson": None, "spearman": 0.25}}
    baseline = {"dev": {"pearson": None, "spearman": None}}
    names = {"task_name": "STS-B", "best_metric": "spearman"}
    details = {"dev": {"classes": {"a": {"f1": 1.0}}}}
    with caplog.at_level("INFO", logger="absl"):
        dev_results.write(
            results, baseline, 7, str(tmp_path), details=details, **names
        )
    text = (tmp_path / "eval_results.json").read_text()
    content = json.loads(text, parse_constant=no_constants)
    assert content == {
        **{"step": 7, "majority_baseline": baseline, **names, **results},
        "classes": {"dev": {"a": {"f1": 1.0}}},
        "undefined": {
            "dev.pearson": "all predictions, or all labels, are the same"
        },
    }
    assert "loss 0.5  pearson undefined  spearman 0.25" in caplog.messages[0]


def test_a_run_that_resumes_chooses_its_best_model_by_the_same_scores(
    tmp_path,
):
    folder = run_folder.RunFolder(str(tmp_path))
    dev_results.check_comparable(folder, "mrr", "f00")  # A new run.
    best = tmp_path / "best"
    best.mkdir()
    state = {"step": 3, "metric": "mrr", "value": 0.5}
    checksums.write_checksums(str(best), state)
    dev_results.check_comparable(folder, "mrr", "f00")  # Unknown rows.
    (best / "state.json").unlink()
    checksums.write_checksums(str(best), state | {"dev": "f00"})
    dev_results.check_comparable(folder, "mrr", "f00")
    for metric, dev, message in (
        ("ndcg@10", "f00", "by mrr of dev, and now ndcg@10 would decide"),
        ("mrr", "ba4", "by mrr of other dev files, or of what they had"),
    ):
        with pytest.raises(ValueError, match=message) as raised:
            dev_results.check_comparable(folder, metric, dev)
        assert f"are in {tmp_path / 'run.flags'}; to" in str(raised.value)


def test_a_best_model_without_a_value_is_replaced(tmp_path, caplog):
    best = tmp_path / "best"
    best.mkdir()
    checksums.write_checksums(str(best), {"step": 3})
    with caplog.at_level("WARNING", logger="absl"):
        assert dev_results.read_best(str(best))["step"] == 0
    assert "value is missing or null; it should be a number" in caplog.text


def test_a_worker_that_is_not_the_chief_evaluates_and_writes_nothing(tmp_path):
    evaluated = []
    keep_best = make_keep_best(
        tmp_path,
        lambda: evaluated.append(1) or {"dev": {"accuracy": 1.0}},
        is_chief=False,
    )
    keep_best(1)
    keep_best(2)
    assert evaluated == [1, 1]
    assert not list(tmp_path.iterdir())


def test_a_damaged_best_model_is_replaced(tmp_path, caplog):
    best = tmp_path / "best"
    assert dev_results.read_best(str(best))["value"] == -math.inf
    best.mkdir()
    (best / "model.safetensors").write_bytes(b"weights")
    checksums.write_checksums(str(best), {"step": 3, "value": 0.5})
    with caplog.at_level("WARNING", logger="absl"):
        assert dev_results.read_best(str(best))["value"] == 0.5
        assert not caplog.messages
        (best / "model.safetensors").write_bytes(b"weight")
        assert dev_results.read_best(str(best))["value"] == -math.inf
    assert caplog.messages == [
        f"{best} is damaged: model.safetensors has 6 bytes instead of 7. "
        "It is replaced by the model of this step."
    ]


TRAINED = {"task": "reviews"}
WEIGHTED = TRAINED | {"class_weights": ["balanced"]}


def advice_for(folder, settings, *, accuracy=0.95, f1=0.0, **changes):
    """Returns the advice after an evaluation of 95 common and 5 rare rows."""
    if settings:
        (folder / "run.json").write_text(json.dumps(settings))
    classes = {
        "common": {"support": 95, "f1": 0.97},
        "rare": {"support": 5, "f1": f1},
        "no_rows": {"support": 0, "f1": 0.0},
    }
    results = {
        "best_metric": "accuracy",
        "dev": {"accuracy": accuracy, "macro_f1": 0.33},
        "majority_baseline": {"dev": {"accuracy": 0.95}},
        "classes": {"dev": classes},
    }
    return dev_results.advice(results | changes, str(folder))


@pytest.mark.parametrize(
    ("settings", "changes", "expected"),
    [
        (
            TRAINED,
            {},
            "dev: accuracy 0.950 is that of the majority class, and 'rare' has "
            "5.0% of the rows. --class_weights=balanced lets rare classes "
            "count, and --best_metric=macro_f1 keeps the model that is best on "
            "all.",
        ),
        (TRAINED, {"best_metric": "macro_f1"}, "lets rare classes count."),
        (WEIGHTED, {}, "no row of 'rare' is found. Clipping undoes large"),
    ],
)
def test_advice_is_given(tmp_path, settings, changes, expected):
    (found,) = advice_for(tmp_path, settings, **changes)
    assert expected in found
    assert expected.endswith(".") <= found.endswith(expected)


NO_RARE = {
    "common": {"support": 95, "f1": 0.97},
    "other": {"support": 15, "f1": 0.0},
    "no_rows": {"support": 0, "f1": 0.0},
}


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        pytest.param({}, {}, id="a model that was not trained here"),
        pytest.param(TRAINED, {"accuracy": 0.0}, id="below the baseline"),
        pytest.param(TRAINED, {"accuracy": 0.94}, id="a little below"),
        pytest.param(TRAINED, {"accuracy": 0.97}, id="above"),
        pytest.param(TRAINED, {"f1": 0.6}, id="the rare class is found"),
        pytest.param(
            TRAINED, {"classes": {"dev": NO_RARE}}, id="rare without rows"
        ),
        pytest.param(TRAINED, {"classes": {}}, id="no classes"),
        pytest.param(
            TRAINED, {"dev": {"accuracy": 0.95}}, id="no macro F1 to choose by"
        ),
        pytest.param(
            TRAINED, {"majority_baseline": {"dev": {}}}, id="no baseline"
        ),
        pytest.param(WEIGHTED, {"f1": 0.1}, id="weights, and some are found"),
        pytest.param(WEIGHTED, {"accuracy": 0.9}, id="weights, and below"),
        pytest.param(
            WEIGHTED | {"clip_norm": 1e9}, {}, id="weights without clipping"
        ),
    ],
)
def test_advice_that_does_not_apply_is_not_given(tmp_path, settings, changes):
    assert advice_for(tmp_path, settings, **changes) == []


def test_no_advice_is_by_a_test_file(tmp_path):
    names = ("majority_baseline", "classes")
    of_test = {name: {"test": {}} for name in names}
    scores = {"accuracy": 0.95, "macro_f1": 0.3}
    classes = {"a": {"support": 95, "f1": 1.0}, "b": {"support": 5, "f1": 0.0}}
    of_test["majority_baseline"]["test"] = {"accuracy": 0.95}
    of_test["classes"]["test"] = classes
    assert advice_for(tmp_path, TRAINED, test=scores, **of_test) == []


def test_rows_are_written_if_there_are_any(tmp_path):
    rows = [{"text_a": "caf\u00e9", "predicted": "a"}] * 2
    dev_results.write_rows(iter(rows), str(tmp_path), "dev")
    path = tmp_path / "predictions" / "dev.jsonl"
    lines = path.read_text("utf-8").splitlines()
    assert list(map(json.loads, lines)) == rows and "caf\u00e9" in lines[0]
    dev_results.write_rows(iter([]), str(tmp_path / "other"), "dev")
    assert not (tmp_path / "other").exists()


def test_the_head_is_divided_by_a_temperature_in_the_saved_model_alone(
    tmp_path,
):
    model = exports.make_model("classification")
    weights = {
        n: w.numpy() for n, w in model_folders.weight_names(model).items()
    }
    metadata = {"task": "classification", "labels": exports.LABELS}
    metadata["temperature"] = 3.0
    for name in ("best", "again"):
        dev_results.save_best(
            str(tmp_path / name),
            model,
            {"step": 1},
            metadata=metadata,
            vocabulary=None,
        )
    found = model_folders.read(str(tmp_path / "best"))
    assert found.metadata["temperature"] == 3.0
    for name, weight in model_folders.weight_names(model).items():
        assert (weight.numpy() == weights[name]).all(), name
        divisor = 3.0 if name.startswith("classification/") else 1.0
        assert (found.tensors[name] == weights[name] / divisor).all(), name
    one, other = (tmp_path / x / "model.safetensors" for x in ("best", "again"))
    assert one.read_bytes() == other.read_bytes()

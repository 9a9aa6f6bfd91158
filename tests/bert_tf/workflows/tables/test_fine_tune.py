"""DataFrames -> a run of run_glue; its other settings are tested there."""

import exports
import pytest

import bert_tf

SETTINGS = {
    "text_column": "review",
    "label_column": "stars",
    "num_train_epochs": 1,
    "max_seq_length": 16,
    "train_batch_size": 8,
}


@pytest.fixture
def frame():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(
        {
            "review": ["the old cat", "a ship", "sat on bread", "it rained"]
            * 4,
            "stars": ["good", "bad"] * 8,
            "seen": pandas.Timestamp("2020-01-02"),
        },
        index=range(7, 23),
    )


@pytest.fixture
def settings(tmp_path):
    folder = tmp_path / "model"
    exports.save_model(
        exports.make_model("classification"), "classification", folder
    )
    return SETTINGS | {
        "init_checkpoint": str(folder),
        "output_dir": str(tmp_path / "run"),
    }


@pytest.mark.slow
def test_a_frame_trains_a_model_that_answers_one(frame, settings, tmp_path):
    settings["output_dir"] = tmp_path / "run"
    predictor = bert_tf.fine_tune(frame, frame[:4], **settings)
    found = predictor(frame, text_column="review")
    assert list(found.index) == list(frame.index)
    added = ["label", "probability", "probability_bad", "probability_good"]
    assert list(found) == [*frame, *added]
    path = tmp_path / "run/tables/train.jsonl"
    lines = path.read_text().splitlines()
    assert lines[0] == '{"review": "the old cat", "stars": "good"}'
    assert len(lines) == 16
    # The run has its table: it neither trains on another, nor loses its own.
    bert_tf.fine_tune(frame, frame[:4], **settings)
    with pytest.raises(
        ValueError, match="other rows than train has. Choose an"
    ):
        bert_tf.fine_tune(frame[:9], frame[:4], **settings)
    assert path.read_text().splitlines() == lines


def test_wrong_tables_and_settings_are_refused(frame, settings, tmp_path):
    empty = frame.assign(stars=None)
    for train, changes, message in [
        (frame, {"epochs": 3}, "epochs is no setting of fine_tune"),
        (frame, {"do_train": False}, "do_train is no setting"),
        (frame, {"num_train_epochs": "3"}, r"is '3' \(str\); expected float"),
        (frame, {"multi_label": "false"}, r"\(str\); expected bool"),
        (frame, {"test_file": frame}, r"\(DataFrame\); expected str"),
        (frame, {"text_column": None}, "Give text_column.*review, stars, seen"),
        (frame, {"text_column": "reviw"}, "no column 'reviw'"),
        (frame, {"label_column": "star"}, "no column 'star'"),
        (frame, {"text_column": "seen"}, "Timestamp.* in column 'seen'"),
        (frame["review"], {}, "expected a pandas.DataFrame, or the path"),
        ("no.csv", {}, "train_file=no.csv"),
        (empty, {}, "'stars' of .*no values|no gold label"),
    ]:
        with pytest.raises(ValueError, match=message):
            bert_tf.fine_tune(train, **settings | changes)
    assert not (tmp_path / "run/run.json").exists()

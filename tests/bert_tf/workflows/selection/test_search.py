"""--search: its words, grids, and settings that Optuna suggests."""

import pytest

from bert_tf.workflows.configs import TrialsConfig
from bert_tf.workflows.selection import search


def test_words_are_options_and_their_numbers():
    words = ("learning_rate:1e-5..1e-4:log", "train_batch_size:16|32")
    words += ("num_train_epochs:2..4", "lora_rank:4..8")
    assert search.parse(words) == {
        "learning_rate": (1e-5, 1e-4, "log"),
        "train_batch_size": (16, 32),
        "num_train_epochs": (2.0, 4.0, ""),
        "lora_rank": (4, 8, ""),
    }
    assert search.parse(("none",)) == {}  # --grid=none of earlier flag files.


def test_the_search_of_the_paper_has_24_settings():
    found = search.points(search.parse(("paper",)))
    assert len(found) == len({tuple(x.items()) for x in found}) == 24
    assert found[0] == {
        "train_batch_size": 16,
        "learning_rate": 5e-5,
        "num_train_epochs": 2,
    }


@pytest.mark.parametrize(
    "word",
    [
        *("learning_rate", "learning_rate:", "learning_rate:x", "seed:1|2"),
        *("learning_rate:1e-4..1e-5", "learning_rate:0..1:log"),
        *("learning_rate:1|2:log", "learning_rate:1..2:exp"),
        *("learning_rate:1..2..3", "train_batch_size:16|16"),
        *("train_batch_size:8.5|16", "learning_rate:1|2,learning_rate:3"),
    ],
)
def test_words_that_are_no_options_and_numbers_are_refused(word):
    with pytest.raises(ValueError, match=r"--search=.* should be one of train"):
        search.parse(word.split(","))


def test_a_range_needs_a_number_of_trials():
    words = ("learning_rate:1e-5..1e-4",)
    with pytest.raises(ValueError, match="has a range, from which .* Add"):
        TrialsConfig(output_dir="x", search=words)
    TrialsConfig(output_dir="x", search=words, num_trials=2)
    with pytest.raises(ValueError, match="num_trials=2 needs --search"):
        TrialsConfig(output_dir="x", num_trials=2)


class Killed(BaseException):
    pass


def test_a_killed_search_suggests_the_same_settings_again(tmp_path):
    optuna = pytest.importorskip("optuna")
    space = search.parse(
        ("learning_rate:1e-5..1e-4:log", "train_batch_size:16|32")
    )

    def settings(folder, kill=None, num_trials=14):
        found = []

        def score(setting):
            if len(found) == kill:
                raise Killed
            found.append(setting)
            if len(found) == 4:
                return None  # It diverged.
            return -abs(setting["learning_rate"] - 3e-5)

        folder.mkdir(exist_ok=True)
        try:
            search.run(space, num_trials, 5, str(folder), score)
        except Killed:
            path = folder / search.JOURNAL  # As a kill may leave it.
            path.write_bytes(path.read_bytes()[:-9])
            (folder / f"{search.JOURNAL}.lock").symlink_to("x")
        return found

    whole = settings(tmp_path / "whole")
    assert len(whole) == 14
    assert all(1e-5 <= x["learning_rate"] <= 1e-4 for x in whole)
    assert {x["train_batch_size"] for x in whole} == {16, 32}
    assert settings(tmp_path / "killed", kill=11) == whole[:11]
    assert settings(tmp_path / "killed") == whole
    assert settings(tmp_path / "fewer", num_trials=12) == whole[:12]
    path = str(tmp_path / "killed" / search.JOURNAL)
    backend = optuna.storages.journal.JournalFileBackend(path)
    study = optuna.load_study(
        study_name="search", storage=optuna.storages.JournalStorage(backend)
    )
    assert [trial.params for trial in study.trials] == whole
    best = min(whole, key=lambda x: abs(x["learning_rate"] - 3e-5))
    assert study.best_params == best

"""Files of tasks and runs: what is counted, scored, written again, reported."""

import dataclasses
import json
import math

import planted_squad
import pytest

from bert_tf.config import BertConfig
from experiments import dev_scores, evaluation_tasks, recipes
from experiments.ablations import report
from experiments.dev_scores import Score


def test_rows_windows_and_sentences_of_tasks_are_counted(tmp_path):
    folder = tmp_path / "SST-2"
    folder.mkdir()
    rows = "a fine film , fine\t1\n" * 30
    (folder / "train.tsv").write_text(f"sentence\tlabel\n{rows}")
    (folder / "dev.tsv").write_text("sentence\tlabel\ndull\t0\nfine\t1\n")
    task = evaluation_tasks.glue(f"{folder}/")
    assert (task.name, task.num_train, task.num_dev) == ("SST-2", 30, 2)
    assert task.num_tokens == 2 + 1.3 * 5
    with pytest.raises(ValueError, match="tasks: SST-2, SST-2. Give one task"):
        evaluation_tasks.check_names([task, task])
    (folder / "dev.tsv").unlink()
    assert evaluation_tasks.glue(str(folder)).num_dev == 3  # A tenth.
    paths = []
    for num_words in (100, 10):
        text = "w " * num_words
        questions = [
            planted_squad.question(str(i), "What?", text, "w") for i in range(4)
        ]
        paths.append(str(tmp_path / f"{num_words}.json"))
        with open(paths[-1], "w") as file:
            json.dump(planted_squad.article((text, questions)), file)
    task = evaluation_tasks.squad(*paths, 60)
    # 130 pieces, of which 40 fit; 30 more in each further window.
    assert (task.num_train, task.num_dev) == (16, 4)
    assert task.flags["doc_stride"] == 30
    path = tmp_path / "eng.train"
    path.write_text("EU B-ORG\nrejects O\n\nPeter B-PER\n\n" * 10)
    tasks = evaluation_tasks.ner(str(path), str(path), 16)
    assert [task.kind for task in tasks] == ["ner", "ner_features"]
    # Without -DOCSTART- each sentence is a document.
    assert tasks[0].num_train == tasks[0].num_dev == 20


@pytest.mark.parametrize(
    ("kind", "best", "scores", "expected"),
    [
        # MRPC and QQP, whose best model is selected by F1.
        ("glue", "f1", {"accuracy": 0.7, "f1": 0.8}, "accuracy"),
        # The accuracy of tags includes the words outside of entities.
        ("ner", "entity_f1", {"accuracy": 0.9, "entity_f1": 0.6}, "entity_f1"),
        ("glue", "spearman", {"spearman": None}, "spearman"),
    ],
)
def test_scores_are_those_of_the_paper_and_nan_is_below_a_baseline(
    tmp_path, kind, best, scores, expected
):
    content = {"task_name": "CoLA", "step": 2, "best_metric": best}
    content["dev"] = {"loss": 1.0} | scores
    content["majority_baseline"] = {"dev": {expected: 0.1}}
    (tmp_path / "eval_results.json").write_text(json.dumps(content))
    score = dev_scores.read_score(str(tmp_path), kind)
    if scores[expected] is None:
        assert math.isnan(score.mean) and report._is_below_baseline(score)
    else:
        assert score == Score((scores[expected],), expected, 0.1)


def test_configs_of_finished_runs_are_not_overwritten(tmp_path):
    config = BertConfig(vocab_size=30)
    path = tmp_path / "configs" / "small.json"
    recipes.write_configs({str(path): config})
    assert BertConfig.from_json_file(path) == config
    before = path.read_bytes()
    other = dataclasses.replace(config, hidden_dropout_prob=0.0)
    more = {str(tmp_path / "more.json"): other, str(path): other}
    with pytest.raises(ValueError, match="small.json .*_prob: was 0.1, is now"):
        recipes.write_configs(more)
    assert path.read_bytes() == before
    # The missing one is not written either.
    assert not (tmp_path / "more.json").exists()

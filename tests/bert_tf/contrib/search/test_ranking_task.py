"""ranking_task.py: losses and metrics in NumPy, a ranking that is planted."""

import contextlib
import json

import numpy as np
import planted_ranking
import pytest
import run_processes
import tensorflow as tf

import bert_tf
from bert_tf.contrib.search.options import LabelledRankings
from bert_tf.contrib.search.ranking_task import Ranking
from bert_tf.contrib.search.records.ranking_tables import RankingTable
from bert_tf.workflows.configs import FineTuningConfig
from run_scripts import run_ranking
from tfrecords.tasks import glue_rows

GENERATOR = np.random.default_rng(0)
# Rows of dev: queries in turns, of 3, 2, 1 and 2 passages.
QUERIES = ["a", "b", "a", "c", "a", "b", "d", "d"]
GRADES = np.array([0, 1, 2, 1, 1, 0, 0, 0], np.float32)
SCORES = GENERATOR.normal(size=8).astype(np.float32)


def make(loss, **fields):
    table = RankingTable(
        name="search",
        files={},
        text_columns=("query", "passage"),
        labels=(),
        metrics=("ndcg@10", "mrr"),
        best_metric="ndcg@10",
        ranking_loss=loss,
        **fields,
    )
    task = Ranking(table, LabelledRankings(ranking_loss=loss))
    task.labels = {"dev": GRADES}
    rows = [
        glue_rows.Row((x, f"text {i}"), grade, f"dev.csv:{i + 2}", None, x)
        for i, (x, grade) in enumerate(zip(QUERIES, GRADES, strict=True))
    ]
    task.read_rows("dev", rows)
    return task


def loss_of(task, outputs, batch):
    (mean,) = task.losses({"predictions": tf.constant(outputs)}, batch).values()
    assert task.accuracies({"predictions": outputs}, batch) == {}
    (weight,) = task.loss_weights(batch).values()
    assert float(weight) == pytest.approx(float(mean.weight))
    return float(mean.value())


def softmax_loss(scores, grades):
    scores, grades = np.float64(scores), np.float64(grades)
    log_shares = scores - np.log(np.exp(scores).sum())
    return -(grades / grades.sum() * log_shares).sum()


def test_the_binary_loss_is_that_of_being_relevant():
    weights = GENERATOR.uniform(size=8).astype(np.float32)
    total = 0.0
    for score, grade, weight in zip(SCORES, GRADES, weights, strict=True):
        p = 1 / (1 + np.exp(-np.float64(score)))
        total -= weight * np.log(p if grade > 0 else 1 - p)
    batch = {"label_scores": GRADES, "is_real_example": weights}
    found = loss_of(make("binary"), SCORES, batch)
    assert found == pytest.approx(total / weights.sum(), rel=1e-5)


def test_the_listwise_loss_is_that_of_each_querys_passages():
    scores = GENERATOR.normal(size=(4, 3)).astype(np.float32)
    grades = np.array([[2, 0, 1], [1, 0, 0], [0, 0, 0], [3, 0, 0]], np.float32)
    is_passage = np.array([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 1, 1]], float)
    # A query without a relevant passage counts as little as a missing one.
    weights = np.array([1, 0.5, 1, 0], np.float32)
    expected = softmax_loss(scores[0], grades[0])
    expected += 0.5 * softmax_loss(scores[1, :2], grades[1, :2])
    batch = {
        "passage_grades": tf.constant(grades),
        "passage_weights": tf.constant(is_passage, tf.float32),
        "is_real_example": tf.constant(weights),
    }
    found = loss_of(make("listwise"), scores, batch)
    assert found == pytest.approx(expected / 1.5, rel=1e-5)
    variable = tf.Variable(scores)
    with tf.GradientTape() as tape:
        task = make("listwise")
        (mean,) = task.losses({"predictions": variable}, batch).values()
        value = mean.value()
    gradient = tape.gradient(value, variable).numpy()
    assert np.isfinite(gradient).all()
    assert gradient[1, 2] == 0 and not gradient[2:].any()
    assert gradient[0].all() and gradient[1, :2].all()


def test_the_loss_of_dev_has_all_passages_of_each_query():
    outputs = {"predictions": SCORES}
    of_a = softmax_loss(SCORES[[0, 2, 4]], GRADES[[0, 2, 4]])
    of_b = softmax_loss(SCORES[[1, 5]], GRADES[[1, 5]])
    # c has one passage, d none that is relevant.
    found = make("listwise").score("dev", outputs)["loss"]
    assert found == pytest.approx((of_a + of_b) / 3, rel=1e-5)


def test_lists_of_a_batch_are_scored_as_single_rows(tiny_config):
    task = make("listwise")
    model = task.build_model(tiny_config)
    rows = {
        "input_word_ids": GENERATOR.integers(5, 90, (6, 8)),
        "input_mask": np.ones((6, 8)),
        "input_type_ids": np.arange(8) // 4 * np.ones((6, 1)),
    }
    rows = {name: tf.constant(x, tf.int32) for name, x in rows.items()}
    key = tf.constant([1, 2, 3], tf.int64)
    lists = {name: tf.reshape(x, [2, 3, 8]) for name, x in rows.items()}
    # Dropout is that of rows 3 b to 3 b + 2.
    expected = model(rows, training=True, dropout_key=key * [1, 1, 3])[
        "predictions"
    ]
    found = task.outputs(model, lists, key)["predictions"]
    assert found.shape == (2, 3)
    np.testing.assert_allclose(
        tf.reshape(found, [-1]), expected, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("loss", ["binary", "listwise"])
def test_metrics_are_means_over_queries(loss):
    task = make(loss)
    # a: grades 1, 0, 2 from the best; b: 0, 1; c: 1; d: none.
    scores = np.array([2, 1, 1, 0, 3, 2, 0, 1], np.float32)
    found = task.score("dev", {"predictions": scores})
    ideal = 2 + 1 / np.log2(3)
    of_a = (1 + 2 / 2) / ideal
    assert found["ndcg@10"] == pytest.approx((of_a + 1 / np.log2(3) + 1) / 4)
    assert found["mrr"] == pytest.approx((1 + 1 / 2 + 1 + 0) / 4)
    assert list(found) == ["loss", "ndcg@10", "mrr"]
    assert task.best_metric == "ndcg@10"


def test_equal_scores_rank_as_the_baseline_in_no_order_of_the_file():
    task = make("binary")
    baseline = task.majority_baseline()["dev"]
    found = task.score("dev", {"predictions": np.full(8, 0.25, np.float32)})
    assert {n: found[n] for n in ("ndcg@10", "mrr")} == baseline
    # The relevant passage is the first of each query, and as often the last.
    first = []
    for order in (1, -1):
        rows, grades = [], []
        for query in range(200):
            for grade, text in [(1, "x"), (0, "y")][::order]:
                texts = str(query), f"{text} {query}"
                rows.append(glue_rows.Row(texts, grade, "a:1", None, texts[0]))
                grades.append(grade)
        task.read_rows("dev", rows)
        found = task.baseline(np.array(grades, np.float32), "dev")
        first.append(found["mrr"])
    assert first == pytest.approx([0.75, 0.75], abs=0.06)
    assert first[0] == first[1]


def test_a_dev_set_without_a_ranking_is_refused(tmp_path):
    task = make("binary")
    for grades in (np.zeros(8), np.ones(8), np.array([0, 1, 0, 1, 0, 1, 0, 0])):
        task.labels = {"dev": grades.astype(np.float32)}
        with pytest.raises(ValueError) as error:
            task.majority_baseline()
        assert "dev.csv: none of the 4 queries ('query') of dev" in str(error)


def test_scores_that_are_not_finite_have_no_metrics(caplog):
    task = make("binary")
    found = task.score("dev", {"predictions": SCORES * np.nan})
    assert found["ndcg@10"] is None and found["mrr"] is None
    assert "some scores are not finite" in caplog.text


def test_options_of_classes_are_refused():
    for name, value in (("class_weights", ("balanced",)), ("threshold", "0.4")):
        table = make("binary").table
        with pytest.raises(ValueError, match=f"--{name}=.* is for"):
            Ranking(
                table, LabelledRankings(ranking_loss="binary", **{name: value})
            )


@pytest.mark.parametrize(
    ("loss", "losses", "is_refused"),
    [
        ("binary", ("soft_targets",), True),
        ("binary", ("hidden_relations",), False),
        ("listwise", ("hidden_relations",), True),
    ],
)
def test_rankings_learn_at_most_relations(loss, losses, is_refused):
    config = FineTuningConfig(
        output_dir="run",
        do_train=True,
        teacher="teacher",
        distillation_losses=losses,
    )
    expected = contextlib.nullcontext()
    if is_refused:
        expected = pytest.raises(ValueError, match="learns no soft_targets")
    with expected:
        make(loss).prepare(config, None)


@pytest.fixture
def train(tmp_path):
    """Flags -> folder of a run on 80 planted queries."""
    run_processes.write_config(tmp_path, hidden_size=32)
    path = tmp_path / "bert_config.json"
    config = json.loads(path.read_text()) | {"initializer_range": 0.1}
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    path.write_text(json.dumps(config))
    planted_ranking.write(tmp_path / "train.csv", planted_ranking.rows(80, 1))

    def run(*words):
        flags = [
            f"--train_file={tmp_path / 'train.csv'}",
            "--text_column=query,passage",
            "--label_column=grade",
            "--group_column=topic",
            f"--vocab_file={run_processes.VOCAB_FILE}",
            f"--bert_config_file={path}",
            "--max_seq_length=16",
            "--do_train",
            "--do_eval",
            "--dev_share=0.25",
            "--learning_rate=1e-3",
            f"--output_dir={tmp_path / 'run'}",
        ]
        run_ranking.main(["run_ranking", *flags, *words])
        return tmp_path / "run"

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("binary", "--num_train_epochs=25"),
        ("listwise", "--num_train_epochs=60", "--passages_per_query=4"),
    ],
    ids=["binary", "listwise"],
)
def test_a_planted_ranking_is_learned_and_served(train, words):
    loss, *words = words
    folder = train(f"--ranking_loss={loss}", "--train_batch_size=16", *words)
    results = json.loads((folder / "eval_results.json").read_text())
    assert results["majority_baseline"]["dev"]["mrr"] < 0.7
    assert results["dev"]["mrr"] > 0.95 < results["dev"]["ndcg@10"]
    # Whole queries are held out.
    lines = (folder / "predictions/dev.jsonl").read_text().splitlines()
    assert len(lines) == 80
    predictor = bert_tf.Predictor(folder)
    assert predictor.kind == "ranking"
    for noun in planted_ranking.NOUNS:
        passages = [f"the {x}" for x in planted_ranking.NOUNS]
        assert predictor((noun, passages)).passages[0] == f"the {noun}"


def test_queries_are_drawn_again_for_the_interval():
    task, outputs = make("binary"), {"predictions": SCORES}
    unit, size, score = task.resampled("dev", outputs)
    assert (unit, size) == ("queries", 4)
    scores = task.score("dev", outputs)
    assert score(np.arange(4)) == pytest.approx(scores["ndcg@10"])
    each = [score(np.array([i])) for i in range(4)]
    assert each[3] == 0  # Query d has no relevant passage.
    assert score(np.array([0, 0, 3, 3])) == pytest.approx(each[0] / 2)
    assert task.resampled("dev", {"predictions": SCORES * np.nan}) is None

"""Folder of GoEmotions -> scores of several labels, and of a rare class.

Each model is fine-tuned with default options ("before") and with those for the
question ("after"), for each seed, on the first rows of train.tsv; run_glue
holds a fifth of them out as dev, for thresholds and the best model. All scores
are on dev.tsv, which no run has seen. Beside them stands TF-IDF with logistic
regression, on all of the first rows.

    python -m experiments.own_labels --data_dir=goemotions \
      --init_checkpoint=... --output_dir=runs/own_labels
"""

import json
import os
import subprocess
import sys

import numpy as np
import sklearn.metrics
from absl import app, flags, logging
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import GridSearchCV

import bert_tf
from bert_tf.tasks.labels import several

_DATA = flags.DEFINE_string("data_dir", None, "Folder of GoEmotions.")
_MODEL = flags.DEFINE_string("init_checkpoint", None, "Model to fine-tune.")
_OUTPUT = flags.DEFINE_string("output_dir", None, "Folder for all runs.")
_ROWS = flags.DEFINE_integer("rows", 10000, "Rows of train.tsv.")
_SEEDS = flags.DEFINE_list("seeds", ["1", "2", "3"], "Seeds.")
_RARE = flags.DEFINE_list("rare", ["fear", "nervousness"], "The rare class.")
_PARTS = flags.DEFINE_list(
    "parts", ["several_labels", "rare_class"], "What to score; or tf_idf."
)
_FLAGS = flags.DEFINE_list("run_flags", [], "Further flags of run_glue.")


def read_tables():
    """Returns labels; texts and [N, C] labels of train and test."""
    with open(os.path.join(_DATA.value, "labels.txt")) as file:
        labels = file.read().split()
    tables = []
    for name, limit in (("train", _ROWS.value), ("dev", None)):
        with open(os.path.join(_DATA.value, f"{name}.tsv")) as file:
            rows = [line.rstrip("\n").split("\t") for line in file][:limit]
        found = np.zeros((len(rows), len(labels)), int)
        for i, row in enumerate(rows):
            found[i, [int(x) for x in row[1].split(",")]] = 1
        tables.append(([row[0] for row in rows], found))
    return labels, *tables


def fine_tune(name: str, rows, multi_label: bool, *options: str) -> str:
    """Writes a table and trains on it; returns the run's folder."""
    folder = os.path.join(_OUTPUT.value, name)
    table = os.path.join(_OUTPUT.value, f"table_{multi_label}.jsonl")
    with open(table, "w") as file:
        for text, label in rows:
            file.write(json.dumps({"text": text, "label": label}) + "\n")
    command = [sys.executable, "-m", "run_scripts.run_glue", "--do_train"]
    command += ["--do_eval", f"--train_file={table}", "--text_column=text"]
    command += [f"--init_checkpoint={_MODEL.value}", "--dev_share=0.2"]
    command += [f"--output_dir={folder}", *_FLAGS.value, *options]
    if multi_label:
        command += ["--multi_label"]
    with open(f"{folder}.log", "w") as log:
        subprocess.run(command, check=True, stderr=log, stdout=log)
    return folder


def several_labels(labels, train, test) -> dict:
    """Returns scores at 0.5, at one threshold and at one a label, by seed."""
    names = [[labels[i] for i in np.flatnonzero(row)] for row in train[1]]
    found = {}
    for seed in _SEEDS.value:
        run = fine_tune(
            f"several_{seed}",
            list(zip(train[0], names, strict=True)),
            True,
            f"--labels={','.join(labels)}",
            f"--seed={seed}",
        )
        with open(os.path.join(run, "predictions/dev.jsonl")) as file:
            dev = [json.loads(line) for line in file]
        known = np.array([[x in row["label"] for x in labels] for row in dev])
        dev = np.array([row["probabilities"] for row in dev])
        answers = bert_tf.Predictor(run)(test[0])
        tested = np.array(
            [[*answer.probabilities.values()] for answer in answers]
        )
        found |= thresholded(
            "plain", dev, known.astype(int), tested, test[1], seed
        )
    return found


def thresholded(name, dev, known, tested, true, seed) -> dict:
    """Returns the scores of probabilities, with thresholds chosen on dev."""
    found = {}
    each = several.choose_thresholds
    for kind, thresholds in (
        ("0.5", 0.5),
        ("one", each(dev, known, of_each_label=False)),
        ("each", each(dev, known, of_each_label=True)),
    ):
        predicted = (tested >= thresholds).astype(int)
        found[f"{name}, {kind}, seed {seed}"] = {
            **several.f1_scores(predicted, true),
            "average_precision": sklearn.metrics.average_precision_score(
                true, tested, average="macro"
            ),
        }
    return found


def rare_class(labels, train, test) -> dict:
    """Returns accuracy, macro F1 and F1 of the class, before and after."""
    columns = [labels.index(x) for x in _RARE.value]
    names = ["other", "rare"]
    is_rare = train[1][:, columns].any(axis=1).astype(int)
    true = test[1][:, columns].any(axis=1).astype(int)
    logging.info("share of the class: %.4f", is_rare.mean())
    found = {}
    for seed in _SEEDS.value:
        for name, *options in (
            ("before",),
            ("after", "--class_weights=balanced", "--best_metric=macro_f1"),
        ):
            run = fine_tune(
                f"rare_{name}_{seed}",
                [(x, names[i]) for x, i in zip(train[0], is_rare, strict=True)],
                False,
                f"--seed={seed}",
                *options,
            )
            answers = bert_tf.Predictor(run)(test[0])
            predicted = [names.index(answer.label) for answer in answers]
            found[f"{name}, seed {seed}"] = class_scores(true, predicted)
    return found


def class_scores(true, predicted) -> dict:
    """Returns accuracy, macro F1, and the scores of class 1."""
    scores = sklearn.metrics.precision_recall_fscore_support(
        true, predicted, zero_division=0.0
    )
    return {
        "accuracy": float(np.mean(np.array(true) == predicted)),
        "macro_f1": float(scores[2].mean()),
        "precision": float(scores[0][1]),
        "recall": float(scores[1][1]),
        "f1": float(scores[2][1]),
    }


def tf_idf(labels, train, test) -> dict:
    """Returns the same scores of TF-IDF and logistic regression."""
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    features = vectorizer.fit_transform(train[0])
    tested = vectorizer.transform(test[0])
    found = {}
    # Thresholds by the held-out fifth, as those of BERT.
    num_train = len(train[0]) * 4 // 5

    def fit(column, scoring, weights):
        model = LogisticRegressionCV(
            Cs=(0.1, 1.0, 10.0, 100.0),
            cv=3,
            scoring=scoring,
            class_weight=weights,
            max_iter=1000,
        )
        return model.fit(features[:num_train], column[:num_train])

    for name, weights in (("plain", None), ("balanced", "balanced")):
        models = [fit(column, "neg_log_loss", weights) for column in train[1].T]
        dev, probabilities = (
            np.stack([x.predict_proba(rows)[:, 1] for x in models], axis=1)
            for rows in (features[num_train:], tested)
        )
        found |= thresholded(
            name, dev, train[1][num_train:], probabilities, test[1], "TF-IDF"
        )
    columns = [labels.index(x) for x in _RARE.value]
    is_rare = train[1][:, columns].any(axis=1).astype(int)
    true = test[1][:, columns].any(axis=1).astype(int)
    for name, scoring, weights in (
        ("before", "accuracy", None),
        ("after", "f1_macro", "balanced"),
    ):
        model = GridSearchCV(
            LogisticRegression(class_weight=weights, max_iter=1000),
            {"C": (0.1, 1.0, 10.0, 100.0)},
            scoring=scoring,
            cv=3,
        )
        model.fit(features[:num_train], is_rare[:num_train])
        found[f"rare, {name}, TF-IDF"] = class_scores(
            true, model.predict(tested)
        )
    return found


def main(_):
    """Prints the scores of all parts."""
    logging.set_verbosity(logging.INFO)
    os.makedirs(_OUTPUT.value, exist_ok=True)
    data = read_tables()
    parts = {x.__name__: x for x in (several_labels, rare_class, tf_idf)}
    parts = [parts[name] for name in _PARTS.value]
    for part in parts:
        for name, scores in part(*data).items():
            cells = "  ".join(f"{k} {v:.3f}" for k, v in scores.items())
            print(f"{part.__name__}: {name}  {cells}", flush=True)


if __name__ == "__main__":
    app.run(main)

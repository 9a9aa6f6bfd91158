"""Two sets of classes -> accuracies with few labelled rows of each class.

For each number of rows and each draw of them: `run_glue --few_shot`, plain
fine-tuning of the same model with the same steps, logistic regression on its
vectors without training (--num_train_epochs=0 of the first, which is one step
at a rate of 0), and TF-IDF with logistic regression. Scores are on dev, from
which nothing is chosen.

    python -m experiments.few_rows --data_dir=data --init_checkpoint=... \
      --output_dir=runs/few_rows
"""

import collections
import csv
import json
import os
import subprocess
import sys

import numpy as np
from absl import app, flags
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

_DATA = flags.DEFINE_string("data_dir", None, "Folder of goemotions, glue.")
_MODEL = flags.DEFINE_string("init_checkpoint", None, "Sentence model.")
_OUTPUT = flags.DEFINE_string("output_dir", None, "Folder for all runs.")
_SETS = flags.DEFINE_list("sets", ["emotions", "sst-2"], "Sets of classes.")
_ROWS = flags.DEFINE_list("rows", ["8", "16"], "Rows of each class.")
_DRAWS = flags.DEFINE_list("draws", ["1", "2", "3", "4", "5"], "Seeds.")
_STEPS = flags.DEFINE_integer("steps", 120, "Steps of 16 rows.")
_RATE = flags.DEFINE_string("learning_rate", "1e-4", "Peak.")
_WAYS = flags.DEFINE_list(
    "ways", ["tf_idf", "vectors", "few_shot", "plain"], "What to score."
)
_EMOTIONS = "admiration amusement anger curiosity fear gratitude love sadness"


def read(name: str, split: str) -> list[tuple[str, str]]:
    """Returns the texts and classes of a split."""
    if name == "sst-2":
        path = os.path.join(_DATA.value, f"glue/SST-2/{split}.tsv")
        with open(path) as file:
            rows = list(csv.reader(file, delimiter="\t", quoting=3))[1:]
        return [(text.strip(), ["bad", "good"][int(x)]) for text, x in rows]
    folder = os.path.join(_DATA.value, "goemotions")
    with open(os.path.join(folder, "labels.txt")) as file:
        labels = dict(enumerate(file.read().split()))
    with open(os.path.join(folder, f"{split}.tsv")) as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    single = [
        (row[0], labels.get(int(row[1].split(",")[0])))
        for row in rows
        if "," not in row[1]
    ]
    return [row for row in single if row[1] in _EMOTIONS.split()]


def draw(rows, count: int, seed: int):
    """Returns `count` rows of each class."""
    generator, found = np.random.default_rng(seed), []
    for label in sorted({label for _, label in rows}):
        own = [row for row in rows if row[1] == label]
        numbers = generator.choice(len(own), count, replace=False)
        found += [own[i] for i in numbers]
    return found


def run(folder: str, tables, epochs: float, *words: str) -> float:
    """Trains with run_glue; returns the accuracy on dev."""
    results = os.path.join(folder, "eval_results.json")
    if not os.path.exists(results):
        command = [sys.executable, "-m", "run_scripts.run_glue", "--do_train"]
        command += ["--do_eval", f"--init_checkpoint={_MODEL.value}"]
        for split, path in tables.items():
            command += [f"--{split}_file={path}"]
        command += ["--text_column=text", "--max_seq_length=64"]
        command += ["--train_batch_size=16", f"--num_train_epochs={epochs}"]
        command += ["--save_checkpoints_steps=100000"]
        command += [f"--output_dir={folder}", *words]
        with open(f"{folder}.log", "w") as log:
            subprocess.run(command, check=True, stderr=log, stdout=log)
    with open(results) as file:
        return json.load(file)["dev"]["accuracy"]


def tf_idf(train, dev) -> float:
    """Returns the accuracy of TF-IDF with logistic regression."""
    vectors = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    known = vectors.fit_transform([text for text, _ in train])
    model = LogisticRegression(C=10.0, max_iter=1000)
    model.fit(known, [label for _, label in train])
    predicted = model.predict(vectors.transform([text for text, _ in dev]))
    return float(np.mean(predicted == np.array([label for _, label in dev])))


def score(way: str, folder: str, tables, train, dev) -> float:
    """Returns the accuracy of a way to learn from the rows of train."""
    if way == "tf_idf":
        return tf_idf(train, dev)
    words = [f"--learning_rate={_RATE.value}"]
    epochs = 16 * _STEPS.value / len(train)
    if way == "vectors":
        words, epochs = ["--learning_rate=0"], 0
    if way != "plain":
        words.append("--few_shot")
    return run(f"{folder}/{way}", tables, epochs, *words)


def main(_):
    """Prints mean and standard deviation over the draws."""
    for name in _SETS.value:
        known, dev = read(name, "train"), read(name, "dev")
        for count in map(int, _ROWS.value):
            found = collections.defaultdict(list)
            for seed in map(int, _DRAWS.value):
                train = draw(known, count, seed)
                folder = os.path.join(_OUTPUT.value, f"{name}_{count}_{seed}")
                os.makedirs(folder, exist_ok=True)
                tables = {}
                for split, rows in (("train", train), ("dev", dev)):
                    tables[split] = os.path.join(folder, f"{split}.jsonl")
                    with open(tables[split], "w") as file:
                        for text, label in rows:
                            row = {"text": text, "label": label}
                            file.write(json.dumps(row) + "\n")
                for way in _WAYS.value:
                    found[way].append(score(way, folder, tables, train, dev))
            for way, scores in found.items():
                print(
                    f"{name}  {count} rows of each class  {way}  "
                    f"{np.mean(scores):.3f} +- {np.std(scores, ddof=1):.3f}  "
                    f"{' '.join(f'{x:.3f}' for x in scores)}",
                    flush=True,
                )


if __name__ == "__main__":
    app.run(main)

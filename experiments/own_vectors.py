"""A model of an hour, texts -> vectors: scores beside those of TF-IDF.

The model is trained by run_embeddings, for each seed, on titles and bodies of
Wikipedia, on halves of its paragraphs, on its sentences alone, or on the scores
of STS-B; Spearman's correlation on STS-B's dev and the search of Cranfield are
scored before and after. The Cranfield folder has corpus.jsonl and queries.jsonl
(id, title, text) and its judgements.

    python -m experiments.own_vectors --init_checkpoint=runs/budget \
      --wikipedia='wikipedia/*' --sts_b=glue/STS-B --cranfield=cranfield \
      --output_dir=runs/own_vectors
"""

import glob
import json
import os
import re
import subprocess
import sys

import numpy as np
import scipy.stats
from absl import app, flags
from sklearn.feature_extraction.text import TfidfVectorizer

import bert_tf

_MODEL = flags.DEFINE_string("init_checkpoint", None, "Run of an hour.")
_CONFIG = flags.DEFINE_string("bert_config_file", None, "With dropout.")
_VOCAB = flags.DEFINE_string("vocab_file", None, "Of --scratch.")
_WIKIPEDIA = flags.DEFINE_string("wikipedia", None, "WikiExtractor's files.")
_STS_B = flags.DEFINE_string("sts_b", None, "Folder of STS-B.")
_CRANFIELD = flags.DEFINE_string("cranfield", None, "Folder of Cranfield.")
_OUTPUT = flags.DEFINE_string("output_dir", None, "Folder for all runs.")
_SEEDS = flags.DEFINE_list("seeds", ["1", "2", "3"], "Seeds.")
_RATE = flags.DEFINE_string("learning_rate", "2e-4", "Peak.")
_WAYS = flags.DEFINE_list(
    "ways", ["titles", "halves", "sentences", "sts-b"], "To train on."
)
_SCRATCH = flags.DEFINE_bool("scratch", False, "Without the hour's weights.")
_MORE = flags.DEFINE_list("more", [], "More words of run_embeddings.")


def write_tables(folder: str) -> None:
    """Writes titles.jsonl, halves.jsonl and sentences.jsonl."""
    titles, halves, sentences = [], [], []
    for name in sorted(glob.glob(_WIKIPEDIA.value)):
        with open(name, encoding="utf-8") as file:
            text = file.read()
        for title, body in re.findall(
            r'<doc [^>]*title="([^"]*)">\n(.*?)</doc>', text, re.DOTALL
        ):
            paragraphs = body.split("\n")[1:]
            words = " ".join(paragraphs).split()
            if len(words) >= 40:
                titles.append({"a": title, "b": " ".join(words[:80])})
            for paragraph in paragraphs:
                words = paragraph.split()
                if len(words) >= 40:
                    middle = min(len(words) // 2, 60)
                    parts = words[:middle], words[middle : 2 * middle]
                    halves.append(dict(zip("ab", map(" ".join, parts))))
                sentences += [
                    {"a": x}
                    for x in re.split(r"(?<=[a-z]\.) ", paragraph)
                    if 5 <= len(x.split()) <= 40
                ]
    generator = np.random.default_rng(0)
    for name, rows, count in (
        ("titles", titles, 10000),
        ("halves", halves, 10000),
        ("sentences", sentences, 20000),
    ):
        order = generator.permutation(len(rows))[:count]
        print(name, len(rows), "rows,", len(order), "of them used")
        with open(os.path.join(folder, f"{name}.jsonl"), "w") as file:
            file.writelines(json.dumps(rows[i]) + "\n" for i in order)


def read_dev():
    """Returns first and second texts and scores of STS-B's dev."""
    with open(os.path.join(_STS_B.value, "dev.tsv")) as file:
        header, *rows = [line.rstrip("\n").split("\t") for line in file]
    columns = [header.index(x) for x in ("sentence1", "sentence2", "score")]
    return zip(*([row[i] for i in columns] for row in rows), strict=True)


def tf_idf() -> float:
    """Returns Spearman's correlation of TF-IDF on STS-B's dev."""
    first, second, gold = read_dev()
    vectors = TfidfVectorizer(sublinear_tf=True)
    vectors.fit([*first, *second])
    a, b = vectors.transform(first), vectors.transform(second)
    cosines = np.asarray(a.multiply(b).sum(axis=1)).ravel()
    return float(scipy.stats.spearmanr(cosines, np.array(gold, float))[0])


def scores(model: str) -> dict[str, float]:
    """Returns Spearman's correlation on STS-B, and scores of Cranfield."""
    first, second, gold = read_dev()
    embed = bert_tf.Predictor(model, kind="sentence_embedding")
    a, b = (np.asarray(embed(list(texts))) for texts in (first, second))
    cosines = np.sum(a * b, -1) / np.linalg.norm(a, axis=-1)
    cosines /= np.linalg.norm(b, axis=-1)
    correlation = scipy.stats.spearmanr(cosines, np.array(gold, float))[0]
    command = [sys.executable, "-m", "run_scripts.score_retrieval"]
    command += [f"--model_dir={model}", "--corpus_columns=title,text"]
    command += ["--max_seq_length=128", "--baselines=tfidf,bm25"]
    for name in ("corpus", "queries"):
        path = os.path.join(_CRANFIELD.value, f"{name}.jsonl")
        command += [f"--{name}_file={path}"]
    path = os.path.join(_CRANFIELD.value, "judgements")
    command += [f"--judgements_file={path}"]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(result.stdout)["scores"]
    return {"spearman": round(float(correlation), 4)} | found["model"]


def train(way: str, seed: str) -> str:
    """Trains; returns the run's folder."""
    folder = os.path.join(_OUTPUT.value, f"{way}_{seed}")
    command = [sys.executable, "-m", "run_scripts.run_embeddings"]
    command += ["--do_train", f"--bert_config_file={_CONFIG.value}"]
    if _SCRATCH.value:
        command += [f"--vocab_file={_VOCAB.value}"]
    else:
        command += [f"--init_checkpoint={_MODEL.value}"]
    command += [f"--output_dir={folder}", f"--seed={seed}", "--dev_share=0"]
    command += [f"--learning_rate={_RATE.value}", *_MORE.value]
    if way == "sts-b":
        path = os.path.join(_STS_B.value, "train.tsv")
        command += [f"--train_file={path}", "--score_column=score"]
        command += ["--text_column=sentence1,sentence2", "--score_range=0,5"]
        command += ["--max_seq_length=64", "--num_train_epochs=4"]
    else:
        path = os.path.join(_OUTPUT.value, f"{way}.jsonl")
        columns = "a" if way == "sentences" else "a,b"
        length = {"titles": 128, "halves": 96, "sentences": 64}[way]
        command += [f"--train_file={path}", f"--text_column={columns}"]
        command += [f"--max_seq_length={length}", "--num_train_epochs=1"]
        command += ["--train_batch_size=64"]
    if not os.path.exists(os.path.join(folder, "model.json")):
        with open(f"{folder}.log", "w") as log:
            subprocess.run(command, check=True, stderr=log, stdout=log)
    return folder


def main(_):
    """Prints the scores of the model before and after."""
    os.makedirs(_OUTPUT.value, exist_ok=True)
    write_tables(_OUTPUT.value)
    print("tf-idf", tf_idf(), flush=True)
    if not _SCRATCH.value:
        print("before", scores(_MODEL.value), flush=True)
    for way in _WAYS.value:
        for seed in _SEEDS.value:
            print(way, seed, scores(train(way, seed)), flush=True)


if __name__ == "__main__":
    app.run(main)

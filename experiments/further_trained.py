"""Sentence model, STS-B, Wikipedia, Cranfield -> scores before and after.

The model is trained further by run_embeddings, on the scores of STS-B or on
titles and bodies of Wikipedia, for each seed; Spearman's correlation on STS-B's
dev and the search of Cranfield are scored before and after. The Cranfield
folder has corpus.jsonl and queries.jsonl (id, title, text) and its judgements.

    python -m experiments.further_trained --init_checkpoint=... \
      --wikipedia='wikipedia/*' --sts_b=glue/STS-B --cranfield=cranfield \
      --output_dir=runs/further
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

import bert_tf

_MODEL = flags.DEFINE_string("init_checkpoint", None, "Sentence model.")
_WIKIPEDIA = flags.DEFINE_string("wikipedia", None, "WikiExtractor's files.")
_STS_B = flags.DEFINE_string("sts_b", None, "Folder of STS-B.")
_CRANFIELD = flags.DEFINE_string("cranfield", None, "Folder of Cranfield.")
_OUTPUT = flags.DEFINE_string("output_dir", None, "Folder for all runs.")
_SEEDS = flags.DEFINE_list("seeds", ["1", "2", "3"], "Seeds.")
_PAIRS = flags.DEFINE_integer("pairs", 8000, "Titles and bodies.")
_SETS = flags.DEFINE_list("sets", ["sts-b", "wikipedia"], "To train on.")


def write_pairs(path: str) -> None:
    """Writes titles and bodies, of at least 40 words."""
    found = []
    for name in sorted(glob.glob(_WIKIPEDIA.value)):
        with open(name, encoding="utf-8") as file:
            text = file.read()
        for title, body in re.findall(
            r'<doc [^>]*title="([^"]*)">\n(.*?)</doc>', text, re.DOTALL
        ):
            words = body.split("\n", 1)[1].split()
            if len(words) >= 40:
                found.append({"title": title, "body": " ".join(words[:80])})
    order = np.random.default_rng(0).permutation(len(found))
    print(len(found), "bodies")
    with open(path, "w") as file:
        for i in order[: _PAIRS.value]:
            file.write(json.dumps(found[i]) + "\n")


def scores(model: str) -> dict[str, float]:
    """Returns Spearman's correlation on STS-B, and scores of Cranfield."""
    with open(os.path.join(_STS_B.value, "dev.tsv")) as file:
        header, *rows = [line.rstrip("\n").split("\t") for line in file]
    columns = [header.index(x) for x in ("sentence1", "sentence2", "score")]
    first, second, gold = zip(
        *([row[i] for i in columns] for row in rows), strict=True
    )
    embed = bert_tf.Predictor(model, kind="sentence_embedding")
    a, b = (np.asarray(embed(list(texts))) for texts in (first, second))
    cosines = np.sum(a * b, -1) / np.linalg.norm(a, axis=-1)
    cosines /= np.linalg.norm(b, axis=-1)
    correlation = scipy.stats.spearmanr(cosines, np.array(gold, float))[0]
    command = [sys.executable, "-m", "run_scripts.score_retrieval"]
    command += [f"--model_dir={model}", "--corpus_columns=title,text"]
    for name in ("corpus", "queries"):
        path = os.path.join(_CRANFIELD.value, f"{name}.jsonl")
        command += [f"--{name}_file={path}"]
    path = os.path.join(_CRANFIELD.value, "judgements")
    command += [f"--judgements_file={path}"]
    table = subprocess.run(command, check=True, capture_output=True, text=True)
    print(table.stdout, flush=True)
    return {"spearman": float(correlation)}


def train(name: str, seed: str) -> str:
    """Trains further; returns the run's folder."""
    folder = os.path.join(_OUTPUT.value, f"{name}_{seed}")
    command = [sys.executable, "-m", "run_scripts.run_embeddings"]
    command += ["--do_train", f"--init_checkpoint={_MODEL.value}"]
    command += [f"--output_dir={folder}", f"--seed={seed}"]
    if name == "sts-b":
        path = os.path.join(_STS_B.value, "train.tsv")
        command += [f"--train_file={path}", "--score_column=score"]
        command += ["--text_column=sentence1,sentence2", "--score_range=0,5"]
        command += ["--max_seq_length=64", "--num_train_epochs=2"]
        command += ["--dev_share=0", "--learning_rate=2e-5"]
    else:
        path = os.path.join(_OUTPUT.value, "pairs.jsonl")
        command += [f"--train_file={path}", "--text_column=title,body"]
        command += ["--max_seq_length=96", "--num_train_epochs=1"]
        command += ["--dev_share=0", "--learning_rate=2e-5"]
    with open(f"{folder}.log", "w") as log:
        subprocess.run(command, check=True, stderr=log, stdout=log)
    return folder


def main(_):
    """Prints the scores of the model before and after."""
    os.makedirs(_OUTPUT.value, exist_ok=True)
    write_pairs(os.path.join(_OUTPUT.value, "pairs.jsonl"))
    print("before", scores(_MODEL.value), flush=True)
    for name in _SETS.value:
        for seed in _SEEDS.value:
            print(name, seed, scores(train(name, seed)), flush=True)


if __name__ == "__main__":
    app.run(main)

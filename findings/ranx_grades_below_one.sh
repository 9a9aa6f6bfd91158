#!/usr/bin/env bash
# ranx 0.3.21 makes whole numbers of relevance grades: 0.9 becomes 0.
#
# Guess: `Qrels`, whose hints say int, refuses a grade of 0.9 wherever it comes from.
# Seen: a DataFrame and a TREC file with 0.9 are refused, but fractions in a dict and in
# a JSON file are cut off without a word. A grade below 1 (a judge's probability, a
# share of votes) is then "not relevant", and 1.9 counts as 1: the perfect ranking below
# has nDCG 0, and with the same grades times 10 it has 1.
#
# Needs Python 3.10 or later with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check \
  'ranx==0.3.21' 'numba==0.62.1' 'numpy==2.2.6' 'pandas==2.3.3'

cat > grade.py <<'PY'
import importlib.metadata
import json
import pathlib

import pandas
import ranx

print("ranx", importlib.metadata.version("ranx"))
grades = {"q1": {"d1": 0.9, "d2": 0.6, "d3": 0.1}}
run = ranx.Run({"q1": {"d1": 3.0, "d2": 2.0, "d3": 1.0}})
pathlib.Path("qrels.json").write_text(json.dumps(grades))
pathlib.Path("qrels.trec").write_text("q1 0 d1 0.9\n")
rows = [("q1", doc, grade) for doc, grade in grades["q1"].items()]
frame = pandas.DataFrame(rows, columns=["q_id", "doc_id", "score"])
tenfold = {"q1": {doc: 10 * grade for doc, grade in grades["q1"].items()}}


def show(name, qrels):
    kept = dict(sorted(qrels.to_dict()["q1"].items()))
    print(f"{name}: {kept} nDCG {ranx.evaluate(qrels, run, 'ndcg'):.2f}")


show("dict", ranx.Qrels(grades))
show("JSON", ranx.Qrels.from_file("qrels.json"))
try:
    show("DataFrame", ranx.Qrels.from_df(frame))
except AssertionError as error:
    print("DataFrame:", error)
show("times 10", ranx.Qrels(tenfold))
show("1.9", ranx.Qrels({"q1": {"d1": 1.9}}))
try:
    show("TREC", ranx.Qrels.from_file("qrels.trec"))
except ValueError as error:
    print("TREC:", error)
PY
venv/bin/python -W ignore grade.py | tee seen.txt
cat > expected.txt <<'TXT'
ranx 0.3.21
dict: {'d1': 0, 'd2': 0, 'd3': 0} nDCG 0.00
JSON: {'d1': 0, 'd2': 0, 'd3': 0} nDCG 0.00
DataFrame: DataFrame scores column dtype must be `int`
times 10: {'d1': 9, 'd2': 6, 'd3': 1} nDCG 1.00
1.9: {'d1': 1} nDCG 1.00
TREC: invalid literal for int() with base 10: '0.9'
TXT
diff expected.txt seen.txt
echo "as stated"

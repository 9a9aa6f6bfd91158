#!/usr/bin/env bash
# datasets 5.2.0 writes lists in CSV as NumPy prints them: no commas, and cut at 1000.
#
# Guess: `Dataset.to_csv` writes a list as Python or JSON does, "[0, 1, 0]", so that
# `json.loads` or `ast.literal_eval` has the list again.
# Seen: it writes "[0 1 0]", which neither reads. Words stand side by side, which Python
# reads as one word: two tags become one, without an error. More than 1000 elements are
# written as the first three, "..." and the last three; the rest is lost. `to_json`
# writes all of them, commas included.
#
# Needs Python 3.10 or later with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check \
  'datasets==5.2.0' 'pandas==2.3.3' 'numpy==2.2.6'

cat > write.py <<'PY'
import ast
import csv
import json

import datasets
import numpy
import pandas

print("datasets", datasets.__version__, "pandas", pandas.__version__)
print("numpy", numpy.__version__)
datasets.disable_progress_bars()
rows = {
    "labels": [[0, 1, 0]],
    "tags": [["B-PER", "O"]],
    "tokens": [[f"w{i}" for i in range(1001)]],
}
data = datasets.Dataset.from_dict(rows)
data.to_csv("rows.csv")
data.to_json("rows.jsonl")
with open("rows.csv", newline="") as file:
    row = next(csv.DictReader(file))
for name, cell in row.items():
    print(f"{name}: {cell}")
for name in ("labels", "tags"):
    for reader in (json.loads, ast.literal_eval):
        try:
            print(name, reader.__name__, reader(row[name]))
        except ValueError:
            print(name, reader.__name__, "ValueError")
        except SyntaxError:
            print(name, reader.__name__, "SyntaxError")
with open("rows.jsonl") as file:
    whole = json.loads(file.readline())
print("JSON has all:", whole == {name: cells[0] for name, cells in rows.items()})
PY
venv/bin/python write.py | tee seen.txt
cat > expected.txt <<'TXT'
datasets 5.2.0 pandas 2.3.3
numpy 2.2.6
labels: [0 1 0]
tags: ['B-PER' 'O']
tokens: ['w0' 'w1' 'w2' ... 'w998' 'w999' 'w1000']
labels loads ValueError
labels literal_eval SyntaxError
tags loads ValueError
tags literal_eval ['B-PERO']
JSON has all: True
TXT
diff expected.txt seen.txt
echo "as stated"

#!/usr/bin/env bash
# DuckDB 2.0.1 reads labels yes and no in CSV as truth values, and writes true and false.
#
# Guess: only "true" and "false" become BOOLEAN; class names such as yes and no, t and f
# or the country NO stay text, so that `copy` writes the labels that it read.
# Seen: a column of yes and no, Yes and No, or t and f is BOOLEAN and is written as true
# and false, in JSON without quotes. So is a column that has NO alone; one SE makes it
# text, so two files of one data set can have NO and false for one label. y and n, on
# and off stay. `all_varchar = true` keeps the labels as they are.
#
# Needs Python 3.11 or later with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'duckdb==2.0.1'

cat > labels.py <<'PY'
import csv
import json
import pathlib

import duckdb

print("duckdb", duckdb.__version__)


def copied(labels, options=""):
    lines = ["text,label"] + [f"text {i},{x}" for i, x in enumerate(labels)]
    pathlib.Path("in.csv").write_text("\n".join(lines) + "\n")
    table = f"(select * from read_csv('in.csv'{options}))"
    duckdb.sql(f"copy {table} to 'out.csv'")
    duckdb.sql(f"copy {table} to 'out.jsonl' (format json)")
    with open("out.csv", newline="") as file:
        in_csv = [row["label"] for row in csv.DictReader(file)]
    rows = pathlib.Path("out.jsonl").read_text().splitlines()
    return *in_csv, [json.loads(row)["label"] for row in rows]


for labels in ("yes no", "Yes No", "t f", "NO NO", "NO SE", "y n", "on off"):
    print(f"{labels}:", *copied(labels.split()))
print("yes no as text:", *copied(["yes", "no"], ", all_varchar = true"))
PY
venv/bin/python labels.py | tee seen.txt
cat > expected.txt <<'TXT'
duckdb 2.0.1
yes no: true false [True, False]
Yes No: true false [True, False]
t f: true false [True, False]
NO NO: false false [False, False]
NO SE: NO SE ['NO', 'SE']
y n: y n ['y', 'n']
on off: on off ['on', 'off']
yes no as text: yes no ['yes', 'no']
TXT
diff expected.txt seen.txt
echo "as stated"

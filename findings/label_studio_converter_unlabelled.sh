#!/usr/bin/env bash
# label-studio-sdk 2.1.2 writes a task that nobody annotated to CoNLL with O for every word.
#
# Guess: a task without annotations is left out of CONLL2003, as a cancelled one is; TSV
# is written to result.tsv; and a column of choices is written in one way, be it one
# choice or several.
# Seen: the task is a sentence whose tags are all O, no different from one in which an
# annotator found no name, so a model learns that its names are none. In CSV it has an
# empty annotation_id; the CoNLL file has no ids. TSV is named result.csv. One choice is
# written bare, two as an object in JSON, in the same column.
#
# Needs Python 3.10 or later with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check \
  'label-studio-sdk==2.1.2' 'pandas==2.3.3' 'numpy==2.2.6'

cat > export.py <<'PY'
import csv
import importlib.metadata
import json
import pathlib

from label_studio_sdk.converter import Converter

print("label-studio-sdk", importlib.metadata.version("label-studio-sdk"))
CONFIG = """<View><Text name="text" value="$text"/>
<Choices name="topic" toName="text" choice="multiple">
  <Choice value="sport"/><Choice value="film"/></Choices>
<Labels name="ner" toName="text"><Label value="PER"/></Labels></View>"""


def task(number, text, spans=(), topics=(), annotated=True, cancelled=False):
    common = {"to_name": "text"}
    results = [
        common
        | {"from_name": "ner", "type": "labels", "id": f"span{start}"}
        | {"value": {"start": start, "end": end, "text": text[start:end], "labels": ["PER"]}}
        for start, end in spans
    ]
    if topics:
        choices = {"from_name": "topic", "type": "choices", "value": {"choices": topics}}
        results.append(common | choices)
    annotation = {"id": 10 + number, "completed_by": 1, "result": results}
    annotation["was_cancelled"] = cancelled
    annotations = [annotation] if annotated else []
    return {"id": number, "data": {"text": text}, "annotations": annotations}


tasks = [
    task(1, "Ann sings", [(0, 3)], ["film"]),
    task(2, "It rains", topics=["sport", "film"]),
    task(3, "Bob runs", annotated=False),
    task(4, "Eve cancelled", [(0, 3)], cancelled=True),
]
pathlib.Path("tasks.json").write_text(json.dumps(tasks))
converter = Converter(CONFIG, project_dir=None)
for kind in ("CONLL2003", "CSV", "TSV"):
    converter.convert("tasks.json", kind, kind, is_dir=False)
    print(kind, *[path.name for path in pathlib.Path(kind).iterdir()])
print(pathlib.Path("CONLL2003/result.conll").read_text().strip())
for kind, separator in (("CSV", ","), ("TSV", "\t")):
    with open(f"{kind}/result.csv", newline="") as file:
        for row in csv.DictReader(file, delimiter=separator):
            print(kind, *[row[x] or "-" for x in ("id", "annotation_id", "topic")])
PY
venv/bin/python export.py | tee seen.txt
cat > expected.txt <<'TXT'
label-studio-sdk 2.1.2
CONLL2003 result.conll
CSV result.csv
TSV result.csv
-DOCSTART- -X- O
Ann -X- _ B-PER
sings -X- _ O

It -X- _ O
rains -X- _ O

Bob -X- _ O
runs -X- _ O
CSV 1 11 film
CSV 2 12 {"choices":["sport","film"]}
CSV 3 - -
TSV 1 11 film
TSV 2 12 {"choices":["sport","film"]}
TSV 3 - -
TXT
diff expected.txt seen.txt
echo "as stated"

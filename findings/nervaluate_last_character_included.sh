#!/usr/bin/env bash
# nervaluate 1.2.1 counts neighbouring spans as overlapping.
#
# Guess: spans given as dicts end before "end", as spaCy, Label Studio and the offsets
# of tokenizers count, so that [0, 5) and [5, 9) share nothing.
# Seen: "end" is taken as the last position inside. An entity that was missed, and a
# wrong one that begins where it ends, count as one found entity by type (F1 1.0
# where nothing was found) and as half a match; one position further they count as
# missed and spurious. Its description does not say which end it takes. So subtract
# one from the ends of such spans.
#
# Needs Python 3.10 or later with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'nervaluate==1.2.1'

cat > score.py <<'END'
import importlib.metadata

from nervaluate import Evaluator

print("nervaluate", importlib.metadata.version("nervaluate"))
true = [[{"label": "PER", "start": 0, "end": 5}]]
for start in (5, 6):
    found = [[{"label": "PER", "start": start, "end": 9}]]
    results = Evaluator(true, found, tags=["PER"], loader="dict").evaluate()
    for way in ("ent_type", "partial"):
        result = results["overall"][way]
        print(f"0-5 and {start}-9, {way}: F1 {result.f1:.1f}, missed {result.missed}")
END
venv/bin/python score.py 2> errors.txt | tee seen.txt || { cat errors.txt; exit 1; }
diff seen.txt - <<'END'
nervaluate 1.2.1
0-5 and 5-9, ent_type: F1 1.0, missed 0
0-5 and 5-9, partial: F1 0.5, missed 0
0-5 and 6-9, ent_type: F1 0.0, missed 1
0-5 and 6-9, partial: F1 0.0, missed 1
END
echo "as stated"

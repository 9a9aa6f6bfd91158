#!/usr/bin/env bash
# polars 2.1.0 reads large ids as 128-bit integers; pyarrow opens no Parquet with them.
#
# Guess: ids from 2**63 on, as hashes have them, become UInt64 or text; and a Parquet
# column that a reader does not know leaves the other columns readable by their names.
# Seen: `read_csv` and `read_ndjson` take Int128 unasked, `DataFrame` UInt64. pyarrow
# 26.0.1, and with it pandas and datasets, opens nothing of a file with Int128, not even
# the texts alone. DuckDB reads it, but the ids as bytes. Cast them to UInt64 or String
# before `write_parquet`: then all of them read the file.
#
# Needs Python 3.11 or later with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check \
  'polars==2.1.0' 'pyarrow==26.0.1' 'pandas==2.3.3' 'numpy==2.2.6' \
  'datasets==5.2.0' 'duckdb==2.0.1'

cat > meet.py <<'PY'
import io

import datasets
import duckdb
import pandas
import polars
import pyarrow
import pyarrow.parquet

for library in (polars, pyarrow, pandas, datasets, duckdb):
    print(library.__name__, library.__version__)
datasets.disable_progress_bars()
big = 2**63 + 5
table = f"id,text,label\n{big},fine,1\n7,bad,0\n"
frame = polars.read_csv(io.StringIO(table))
lines = polars.read_ndjson(io.StringIO(f'{{"id": {big}}}\n'))
print("CSV", frame.schema["id"], "JSON", lines.schema["id"], end=" ")
print("list", polars.DataFrame({"id": [big]}).schema["id"])
frame.write_parquet("wide.parquet")
unsigned = polars.col("id").cast(polars.UInt64)
frame.with_columns(unsigned).write_parquet("unsigned.parquet")

readers = {
    "pyarrow": lambda path: pyarrow.parquet.read_table(path, columns=["text"]),
    "pandas": lambda path: pandas.read_parquet(path, columns=["text"]),
    "datasets": lambda path: datasets.load_dataset(
        "parquet", data_files=path, split="train", columns=["text"], cache_dir="cache"
    ),
}
for path in ("wide.parquet", "unsigned.parquet"):
    for name, read in readers.items():
        try:
            print(path, name, len(read(path)["text"]), "texts")
        except NotImplementedError as error:
            print(path, f"{name}: {error}")
    rows = duckdb.sql(f"select id, text from '{path}'").fetchall()
    print(path, "DuckDB", *[(type(id).__name__, text) for id, text in rows])
PY
venv/bin/python meet.py | tee seen.txt
cat > expected.txt <<'TXT'
polars 2.1.0
pyarrow 26.0.1
pandas 2.3.3
datasets 5.2.0
duckdb 2.0.1
CSV Int128 JSON Int128 list UInt64
wide.parquet pyarrow: Integers with more than 64 bits not implemented
wide.parquet pandas: Integers with more than 64 bits not implemented
wide.parquet datasets: Integers with more than 64 bits not implemented
wide.parquet DuckDB ('bytes', 'fine') ('bytes', 'bad')
unsigned.parquet pyarrow 2 texts
unsigned.parquet pandas 2 texts
unsigned.parquet datasets 2 texts
unsigned.parquet DuckDB ('int', 'fine') ('int', 'bad')
TXT
diff expected.txt seen.txt
echo "as stated"

#!/usr/bin/env bash
# tfrecord 1.14.6 gives every worker all records if there is no index file.
#
# Guess: shard=(1, 3), for the second of three workers, gives its third of the file,
# or an error if that needs an index.
# Seen: without an index the argument is ignored, without a warning: three workers
# read every record three times in an epoch. With an index each has its part. The
# checksums of the format are never compared, either: a changed record is read as if
# nothing were wrong, where TensorFlow raises DataLossError. So people who read
# TFRecords from PyTorch write an index first, and check files by other means.
#
# Needs Python 3.10 or later with venv.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'tfrecord==1.14.6' 'numpy==2.2.6'

cat > read_them.py <<'END'
import importlib.metadata

import tfrecord
from tfrecord.tools import tfrecord2idx

print("tfrecord", importlib.metadata.version("tfrecord"))
writer = tfrecord.TFRecordWriter("ids.tfrecord")
for i in range(6):
    writer.write({"id": (i, "int"), "text": (f"text {i}".encode(), "byte")})
writer.close()


def ids(index, worker):
    records = tfrecord.tfrecord_loader("ids.tfrecord", index, shard=(worker, 3))
    return [int(record["id"][0]) for record in records]


tfrecord2idx.create_index("ids.tfrecord", "ids.index")
for worker in range(3):
    print("worker", worker, "no index:", ids(None, worker))
for worker in range(3):
    print("worker", worker, "with one:", ids("ids.index", worker))
with open("ids.tfrecord", "rb") as file:
    data = file.read()
with open("changed.tfrecord", "wb") as file:
    file.write(data.replace(b"text 2", b"teXt 2"))
texts = [record["text"] for record in tfrecord.tfrecord_loader("changed.tfrecord", None)]
print("a changed record:", texts[2])
END
venv/bin/python read_them.py 2> errors.txt | tee seen.txt || { cat errors.txt; exit 1; }
diff seen.txt - <<'END'
tfrecord 1.14.6
worker 0 no index: [0, 1, 2, 3, 4, 5]
worker 1 no index: [0, 1, 2, 3, 4, 5]
worker 2 no index: [0, 1, 2, 3, 4, 5]
worker 0 with one: [0, 1]
worker 1 with one: [2, 3]
worker 2 with one: [4, 5]
a changed record: b'teXt 2'
END
echo "as stated"

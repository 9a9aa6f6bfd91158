"""File, folder of parts, globs and names with commas -> files to read."""

import collections
import glob
import os

from tfrecords.io import atomic_files, json_files, storage
from tfrecords.io.inputs import file_kinds
from tfrecords.options import some

# In the folders of table formats with a log: what it is, and what writes its
# rows as one table.
_LOGGED = {
    "_delta_log": (
        "a Delta table",
        "deltalake.DeltaTable(FOLDER).to_pandas().to_parquet(FILE)",
    ),
    ".hoodie": (
        "a Hudi table",
        'spark.read.format("hudi").load(FOLDER).write.parquet(OTHER)',
    ),
    "metadata": (
        "an Iceberg table",
        "pyiceberg.table.StaticTable.from_metadata(JSON).scan().to_pandas()"
        ".to_parquet(FILE)",
    ),
    "_versions": (
        "a Lance table",
        "lance.dataset(FOLDER).to_table().to_pandas().to_parquet(FILE)",
    ),
}


def find(names: str) -> list[str]:
    """Returns the files of a table, in the order of their rows.

      reviews.csv                     itself
      reviews.parquet/                the parts in it, as Spark writes them, or
                                      the shards of `datasets.save_to_disk`
      train-*.parquet                 what matches, sorted
      a.csv,b.csv                     each, in this order

    A folder's files whose names begin with _ or . are none of its parts.

    Raises:
      ValueError: if there is no such file, a file is named twice, or a folder
        has other things than the parts of one table.
    """
    if os.path.exists(names):  # Perhaps with a comma or [ in its name.
        return _not_empty(_found(names))
    files = []
    for name in _split(names):
        files += _found(name)
    counts = collections.Counter(files)
    if len(counts) < len(files):
        raise ValueError(
            f"{counts.most_common(1)[0][0]} is named twice; its rows would "
            "count twice. Name each file once."
        )
    return _not_empty(files)


def _not_empty(files: list[str]) -> list[str]:
    """Returns the files that are not empty; Spark also writes empty parts."""
    return [path for path in files if os.path.getsize(path)] or files[:1]


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",")]


def _found(name: str) -> list[str]:
    if os.path.isdir(name):
        return _parts(name)
    found = sorted(set(storage.find(name)))
    if found != [name]:  # Of a glob.
        found = [x for x in found if os.path.basename(x)[0] not in "._"]
        folders = dict.fromkeys(map(os.path.dirname, found))
        # Files of Delta and Iceberg may be one level below their log.
        for folder in folders | dict.fromkeys(map(os.path.dirname, folders)):
            if named := _named(folder or "."):
                others = (x for x in found if os.path.dirname(x) != folder)
                found = sorted({*others, *{*named} & {*found}})
    if found:
        return found
    if os.path.exists(name):
        raise ValueError(
            f"{name} is a pipe or a device, which cannot be read twice. Save "
            "it to a file."
        )
    raise ValueError(f"there is no file {name}.")


def _named(folder: str) -> list[str]:
    """Returns the files that a folder's own list names; [] without a list."""
    for sign, (what, fix) in _LOGGED.items():
        if not os.path.isdir(os.path.join(folder, sign)):
            continue
        if sign != "metadata" or _is_iceberg(os.path.join(folder, sign)):
            raise ValueError(
                f"{folder} is {what}, whose log says which of its files "
                f"count. Write its rows as one table: {fix}"
            )
    if os.path.isfile(os.path.join(folder, "dataset_dict.json")):
        raise ValueError(
            f"{folder} is a DatasetDict of several splits. Give the folder of "
            f"one of them, such as {os.path.join(folder, 'train')}."
        )
    state = os.path.join(folder, "state.json")
    if not os.path.isfile(state):
        return []
    form = {"_data_files": [{"filename": str}]}  # Of datasets.save_to_disk.
    files = json_files.read(state, form)["_data_files"]
    return [os.path.join(folder, file["filename"]) for file in files]


def _parts(folder: str) -> list[str]:
    """Returns the files of a folder that has the parts of one table."""
    if named := _named(folder):
        return named
    names = sorted(x for x in os.listdir(folder) if x[0] not in "._")
    inner = [x for x in names if os.path.isdir(os.path.join(folder, x))]
    endings = sorted({ending(name) for name in names})
    if inner:
        raise ValueError(
            f"{folder} has folders in it: {some(inner)}. Give a glob of the "
            f"files to read, such as {_pattern(folder, '**')}; a column that "
            "is only in the names of folders is not read."
        )
    if len(endings) != 1:
        raise ValueError(
            f"{folder} has {some(names) or 'no files'}, not the parts of one "
            f"table. Give such a folder, or a glob, such as {_pattern(folder)}."
        )
    return [os.path.join(folder, name) for name in names]


def _pattern(folder: str, inner: str = "") -> str:
    """Returns a glob of some files of a folder, for advice."""
    every = glob.iglob(f"{glob.escape(folder)}/**", recursive=True)
    kind = max(os.path.splitext(path)[1] for path in every) or ".parquet"
    return os.path.join(folder, inner, f"*{kind}")


def _is_iceberg(metadata: str) -> bool:
    return any(x.endswith(".metadata.json") for x in os.listdir(metadata))


def exist(names: str) -> bool:
    """Returns whether there are files of these names, whatever is in them."""
    return os.path.exists(names) or all(
        os.path.isdir(name) or storage.find(name) for name in _split(names)
    )


def absolute(names: str) -> str:
    """Returns names with absolute paths, so that they mean the same files."""
    if os.path.exists(names):
        return os.path.abspath(names)
    return ",".join(map(os.path.abspath, _split(names)))


def ending(path: str) -> str:
    """Returns .csv for `reviews.csv` and `REVIEWS.csv.gz`."""
    return os.path.splitext(file_kinds.without_compression(path.lower()))[1]


def source(names: str) -> dict[str, str]:
    """Returns the manifest's entries of the files of a table.

    With several, the names have commas between them, and the sha256 is that of
    their bytes in this order.
    """
    paths = find(names)
    return {
        "source": ",".join(map(os.path.basename, paths)),
        "source_sha256": atomic_files.digest(*paths),
    }

"""Serialized examples of shards, a manifest -> a folder of records."""

import os

from tfrecords.io import records


def write(folder, *shards, **fields):
    """Writes a shard for each list of examples; returns the manifest.

    `fields` are of the manifest, in which most may be omitted.
    """
    os.makedirs(folder, exist_ok=True)
    written = []
    for number, serialized in enumerate(shards):
        name = records.shard_name("train", number, len(shards))
        path = os.path.join(folder, name)
        written.append(records.write_shard(path, serialized))
    empty = {"flags": {}, "vocabulary": {}, "statistics": {}}
    empty |= {"schema_name": "pretraining", "shards": written}
    manifest = records.Manifest(**(empty | fields))
    manifest.write(folder)
    return manifest

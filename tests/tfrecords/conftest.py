"""Fixtures of the tests of tfrecords."""

import json

import numbered_records
import pytest


@pytest.fixture
def samples():
    """The module that writes numbered records."""
    return numbered_records


@pytest.fixture
def write_parquet_of():
    """Writes ids of labels as Hugging Face's `datasets` writes them."""
    pytest.importorskip("pyarrow", reason="make test-engines installs it")
    import pyarrow
    import pyarrow.parquet

    def write(path, features, metadata=None):
        info = json.dumps({"info": {"features": features}})
        columns = {"text": ["a", "b"], "y": [1, 0], "z": [[1], []]}
        table = pyarrow.table(columns).replace_schema_metadata(
            {"huggingface": info} if metadata is None else metadata
        )
        pyarrow.parquet.write_table(table, path)

    return write

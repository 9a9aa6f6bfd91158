"""Fixtures of the tests of tfrecords."""

import numbered_records
import pytest


@pytest.fixture
def samples():
    """The module that writes numbered records."""
    return numbered_records

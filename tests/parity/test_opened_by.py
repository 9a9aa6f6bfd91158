"""Other libraries open our Hugging Face folders, with our model's numbers.

Those of this environment and, with Node, transformers.js and onnxruntime.
`make opened-by` has more.
"""

import shutil
import subprocess
import sys

import pytest

from bert_tf.contrib.runtimes import config
from tools import opened_by

pytestmark = pytest.mark.slow
# Scripts of an installation would download libraries for GPUs.
INSTALL = "npm install --ignore-scripts @huggingface/transformers@4.3.2"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    for module in config.MODULES["onnx"]:
        pytest.importorskip(module, reason="make parity installs it")
    work = tmp_path_factory.mktemp("opened_by")
    opened_by.make_folders(work)
    return work


def test_libraries_of_python(folders):
    rows = opened_by.read([sys.executable], folders)
    assert not [row for row in rows if not opened_by.is_right(row)]
    assert {row["library"] for row in rows} >= {
        *("ctranslate2", "fastembed", "onnxruntime"),
        *("sentence-transformers", "transformers"),
    }


def test_libraries_of_node(folders, tmp_path):
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("node and npm are not installed")
    words = [*INSTALL.split(), "--prefix", tmp_path]
    npm = subprocess.run(words, capture_output=True, text=True, check=False)
    if "failed, reason: " in npm.stderr:  # Of a request.
        pytest.skip("npm has no network")
    assert npm.returncode == 0, npm.stderr
    rows = opened_by.read(["node", str(tmp_path)], folders)
    assert not [row for row in rows if not opened_by.is_right(row)]
    assert len(rows) == 5

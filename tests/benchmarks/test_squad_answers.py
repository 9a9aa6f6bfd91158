"""benchmarks.squad_answers runs on a few windows and logs its times."""

import json
import pathlib
import re
import subprocess
import sys

import planted_squad as planted
import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.slow
def test_all_windows_are_timed(tmp_path, tiny_vocab_file):
    passage = "The captain sat on the warm stone."
    questions = [
        planted.question(f"q{i}", "Who sat?", passage, "captain")
        for i in range(3)
    ]
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(planted.article((passage, questions))))
    # In a separate process, since it restricts itself to one core and thread.
    command = [sys.executable, "-m", "benchmarks.squad_answers"]
    done = subprocess.run(
        [
            *command,
            f"--data_file={path}",
            f"--vocab_file={tiny_vocab_file}",
            "--num_windows=20",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"ours +windows 24  answers [0-9.]+ s", done.stderr)

"""TensorFlow's client of gs://, with an emulator of Google Cloud Storage."""

import pathlib
import shlex
import subprocess
import sys

import pytest
import run_processes

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def namespaces():
    """Skips where processes may not make namespaces, as in most containers."""
    result = subprocess.run(
        shlex.split("unshare --net --mount --map-root-user true"),
        capture_output=True,
        text=True,
    )
    if result.returncode:
        pytest.skip(f"no namespaces for the emulator: {result.stderr.strip()}")


def run(folder, script, check=True):
    """Runs a shell script beside an emulator that has one empty bucket."""
    python = shlex.quote(sys.executable)
    result = subprocess.run(
        [
            *(sys.executable, "-m", "tools.gcs_emulator", "--"),
            *("bash", "-c", f'python() {{ {python} "$@"; }}\n{script}'),
        ],
        cwd=run_processes.ROOT,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
    )
    assert not check or result.returncode == 0, result.stdout + result.stderr
    return result


def test_records_and_a_stopped_run_are_in_the_bucket(tmp_path):
    run_processes.write_config(tmp_path)
    records = " ".join(
        argument
        for argument in run_processes.record_arguments(tmp_path, 1)
        if not argument.startswith("--output_dir")
    )
    script = f"""
        set -e
        python -m run_scripts.make_pretraining_records {records} \\
          --output_dir=gs://bucket/records
        train() {{
          python -m run_scripts.run_pretraining --num_train_steps=4 \\
            --input_file=gs://bucket/records/train \\
            --eval_input_file=gs://bucket/records/held_out \\
            --vocab_file={run_processes.VOCAB_FILE} --num_warmup_steps=1 \\
            --bert_config_file={tmp_path}/bert_config.json "$@"
        }}
        train --output_dir=gs://bucket/run --stop_at_step=2
        train --output_dir=gs://bucket/run --cache_dir={tmp_path}/other
        train --output_dir={tmp_path}/local
        python -c '
import tensorflow as tf
for name in ["eval_results.json", "checkpoints/step-00000004/state.json"]:
    with tf.io.gfile.GFile("gs://bucket/run/" + name) as file:
        open("{tmp_path}/" + name.split("/")[-1], "w").write(file.read())
'
    """
    run(tmp_path, script)
    local = tmp_path / "local"
    for path in (
        local / "eval_results.json",
        local / "checkpoints" / "step-00000004" / "state.json",
    ):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", ["no-such-bucket", "bucket"])
def test_what_is_not_there_is_named_in_one_line(tmp_path, name):
    source = pathlib.Path(run_processes.DATA) / "sentences.txt"
    address = f"gs://{name}/vocab.txt"
    flags = f"--input_file={source} --output_file={address} --vocab_size=200"
    if name == "bucket":  # It is there, but the object to read is not.
        flags = f"--input_file={address} --output_file={tmp_path}/vocab.txt"
    result = run(tmp_path, f"python -m run_scripts.make_vocab {flags}", False)
    assert result.returncode == 1
    errors = [
        line
        for line in result.stderr.splitlines()
        if line.startswith("error: ")
    ]
    assert len(errors) == 1 and address in errors[0], result.stderr
    assert "Traceback" not in result.stderr
    assert "learning" not in result.stderr  # Before the work begins.

"""Outputs that cannot be written, numbers and text out of bounds -> cases."""

from hostile.commands import Case

_ADDRESS = "is not a path on a disk"
_NOT_ATOMIC = "file:// has no atomic renames"
_NO_ADDRESS = "is not a local path; an address begins with gs://."
_SAME = "would destroy this input. Choose another file."
_LAST_LAYER = "--layers=-1"
_RECORDS = "make_pretraining_records"
_SCORE = (
    "--data_file=squad/dev-v1.1.json --predictions_file=squad/dev-v1.1.json"
)
_OWN = (
    "--train_file=CoLA/train.tsv --data_dir=glue --text_column=sentence "
    "--labels=0,1"
)

CASES = [
    # Stores that cannot be reached, or not be written to.
    *(
        Case(script, f"{flag}={address}", message)
        for script, flag, address, message in (
            ("run_pretraining", "--output_dir", "gs://b/run", "'gs://b/run"),
            ("run_pretraining", "--output_dir", "ram://run", "the memory of"),
            ("run_pretraining", "--output_dir", "file:///tmp/x", _NOT_ATOMIC),
            ("run_pretraining", "--output_dir", "gs:/b/run", _NO_ADDRESS),
            ("run_glue", "--output_dir", "s3://b/run", "s3://b/run"),
            ("run_swag", "--output_dir", "hdfs://b/run", "hdfs://b/run"),
            ("predict", "--output_file", "ram://x", "the memory of"),
            ("predict", "--export_dir", "gs://b/x", "'gs://b/x'"),
            ("doctor", "--output_dir", "gs://b/x", _ADDRESS),
            (
                "make_glue_submission",
                "--run_dirs=model --output_file",
                "s3:/b",
                "an address begins with s3://.",
            ),
            ("run_scripts.quickstart.tour", "--output_dir", "gs://b", _ADDRESS),
            (
                "experiments.ablations.run_ablations",
                "--corpus=text/one.txt --output_dir",
                "gs://b",
                _ADDRESS,
            ),
            (_RECORDS, "--output_dir", "file:///tmp/x", _NOT_ATOMIC),
            (
                _RECORDS,
                "--compat=original --output_dir",
                "gs://b/x",
                _ADDRESS,
            ),
        )
    ),
    # Outputs that are inputs, folders, or in no folder.
    Case("predict", "--output_file=text/one.txt", _SAME),
    Case("predict", "--output_file=none/x", "No such file"),
    Case("predict", "--explain=x.html", "--explain=x.html needs gradients"),
    Case("run_scripts.explore", "--model= ", "--model is empty"),
    Case(
        "run_scripts.explore",
        "--model=model --host=192.0.2.1",
        "--host=192.0.2.1 --port=7860 (Cannot assign",
    ),
    Case(
        "extract_features",
        f"{_LAST_LAYER} --vocab_file=vocab.txt --output_file=vocab.txt",
        _SAME,
    ),
    Case("score_squad", f"{_SCORE} --output_file=squad/dev-v1.1.json", _SAME),
    Case("make_vocab", "--overwrite --output_file=text/one.txt", _SAME),
    Case("make_vocab", "--output_file=text", "Is a directory: 'text'"),
    Case(
        "show_records",
        "--page=records/train/train-00000-of-00001.tfrecord",
        _SAME,
    ),
    *(
        Case(
            script,
            "--run_dirs=run --output_file=run/eval_results.json",
            _SAME,
            {"run/eval_results.json": b"{}"},
        )
        for script in ("report", "glue_table")
    ),
    # Devices. /dev/full cannot be replaced.
    Case("make_vocab", "--vocab_size=200 --output_file=/dev/full", "/dev/full"),
    Case("make_vocab", "--input_file=/dev/full", "matches no file"),
    Case(
        "extract_features",
        f"{_LAST_LAYER} --vocab_file=/dev/zero",
        "No vocabulary at /dev/zero",
    ),
    # Numbers; those that no flag accepts are in contracts/script_answers.py.
    Case("run_glue", "--num_train_epochs=1e300", "num_train_epochs=1e300"),
    Case(
        "run_glue",
        "--seed=4294967295 --num_restarts=2",
        "needs seeds to 4294967296; the largest is 4294967295",
    ),
    # Text.
    *(
        Case("run_glue", f"{_OWN} --do_predict --task_name={name}", "--task_na")
        for name in ("../../x", "/x", ".hidden", "..", "a" * 101, "'a\tb'")
    ),
    Case("run_pretraining", "--output_dir='a\0b'", "contains a zero byte"),
    # Python 3.10 refuses it while it splits the list.
    Case("run_glue", "--labels='a,b\0'", "--labels="),
    Case("run_pretraining", "--output_dir=caf\udce9", "is not UTF-8"),
]

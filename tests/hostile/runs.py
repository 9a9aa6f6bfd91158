"""Damaged records, logs and results, and wrong workers -> cases.

More manifests and indices are in tests/tfrecords/io.
"""

import json

from hostile.commands import Case

_SHARD = "records/train/train-00000-of-00001.tfrecord"
_MANIFEST = "records/train/manifest.json"
_OUT = ("out", "out/*", "out/*/*", "out/*/*/*")


def _with(**changes):
    """Returns a function that changes fields of a JSON file."""

    def change(content: bytes) -> bytes:
        fields = json.loads(content) | changes
        return json.dumps(fields).encode()

    return change


def _with_shard(**changes):
    """Returns a function that changes the first shard of a manifest."""

    def change(content: bytes) -> bytes:
        fields = json.loads(content)
        fields["shards"][0].update(changes)
        return json.dumps(fields).encode()

    return change


def _twice(content: bytes) -> bytes:
    fields = json.loads(content)
    fields["shards"] *= 2
    return json.dumps(fields).encode()


def _json(content) -> bytes:
    return json.dumps(content).encode()


def _manifest(message, change, script="show_records"):
    return Case(script, "", message, {_MANIFEST: change})


_EVALUATED = {
    "task_name": "CoLA",
    "step": 3,
    "best_metric": "matthews_correlation",
    "dev": {"matthews_correlation": 0.5},
    "majority_baseline": {"dev": {"matthews_correlation": 0.0}},
}


def _table(message, results, trials=None):
    files = {"run/eval_results.json": _json(results)}
    if trials is not None:
        files["run/trials.json"] = _json(trials)
    return Case("glue_table", "--run_dirs=run", message, files)


CASES = [
    # A damaged index is made again.
    *(
        Case(
            script,
            "",
            "does not match its",
            {f"{_SHARD}.index": b""},
            ("records/train/*.index", *_OUT),
            code=0,
        )
        for script in ("show_records", "run_pretraining")
    ),
    # A manifest that is not one.
    _manifest("lists 'train-00000-of-00001.tfrecord' twice", _twice),
    _manifest("brackets are nested deeper", b"[" * 20_000),
    _manifest("should be a file in", _with_shard(name="../train")),
    _manifest("should be a file in", _with_shard(name="")),
    _manifest("sizes.max_seq_length is missing or null", _with(sizes={})),
    _manifest("flags.pairs is ['x']", _with(flags={"pairs": ["x"]})),
    _manifest("schema 'x'", _with(schema_name="x"), "run_pretraining"),
    # Folders of runs.
    *(
        Case("make_glue_submission", f"--run_dirs={folder}", message, files)
        for folder, message, files in (
            ("none", "none has no predictions", {}),
            (
                "run",
                "CoLA.tsv has 1 rows; the official",
                {"run/predictions/CoLA.tsv": b"index\tprediction\n\xff"},
            ),
        )
    ),
    Case(
        "report",
        "--run_dirs=run",
        "run/predictions/dev.jsonl:1 is not JSON",
        {
            "run/eval_results.json": _json(_EVALUATED),
            "run/predictions/dev.jsonl": b'{"source"\n',
        },
    ),
    Case("glue_table", "--run_dirs=text", "text has no eval_results.json"),
    _table("not of a fine-tuning run", {"step": 1, "records": "x"}),
    _table("the content is None; it should be an object", None),
    _table("which is not a GLUE task", _EVALUATED | {"task_name": "SQuAD"}),
    _table("dev.f1 is missing or null", _EVALUATED | {"best_metric": "f1"}),
    _table("dev is 0.5; it should be an object", _EVALUATED | {"dev": 0.5}),
    _table("majority_baseline is []", _EVALUATED | {"majority_baseline": []}),
    _table("trials is missing or null; it should", _EVALUATED, {}),
    _table(
        "settings[0].num_runs is missing",
        _EVALUATED,
        {"flags": {}, "settings": [{"mean": 1}], "trials": []},
    ),
    Case(
        "run_glue",
        "--do_eval --num_restarts=2",
        "trials.json: trials is missing or null; it should be a list",
        {"out/trials.json": b"{}"},
        ("out/trials", "out/trials/*"),
    ),
    Case(
        "run_glue",
        "--do_eval --num_restarts=2",
        "out contains runs with other flags:",
        {"out/trials.json": b'{"flags": null, "trials": [], "settings": []}'},
    ),
    # Batches that cannot fit.
    *(
        Case(
            script,
            "--train_batch_size=1000000",
            "memory: training needs an estimated",
            left=_OUT,
        )
        for script in ("run_pretraining", "run_glue")
    ),
    Case(
        "run_pretraining",
        "--eval_input_file=records/held_out --do_eval "
        "--eval_batch_size=1000000",
        "held out, step 1",
        left=_OUT,
        code=0,
    ),
    # Workers.
    Case(
        "run_pretraining",
        "--distribution_strategy=multi_worker",
        "needs the environment variable TF_CONFIG",
    ),
]

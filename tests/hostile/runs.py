"""Damaged records, logs and results, and wrong workers -> cases."""

import hashlib
import json

from hostile.commands import Case

_SHARD = "records/train/train-00000-of-00001.tfrecord"
_MANIFEST = "records/train/manifest.json"
_INDEX = f"{_SHARD}.index"
_OUT = ("out", "out/*", "out/*/*", "out/*/*/*")
_ANY = ("records/train/*.index", *_OUT)


def _with(**changes):
    """Returns a function that changes fields of a JSON file."""

    def change(content: bytes) -> bytes:
        fields = json.loads(content) | changes
        return json.dumps(fields).encode()

    return change


def _with_in(field, /, **changes):
    """Returns a function that changes entries of a field of a JSON file."""

    def change(content: bytes) -> bytes:
        fields = json.loads(content)
        entries = fields[field]
        (entries[0] if field == "shards" else entries).update(changes)
        return json.dumps(fields).encode()

    return change


def _without(name):
    def change(content: bytes) -> bytes:
        fields = json.loads(content)
        del fields[name]
        return json.dumps(fields).encode()

    return change


def _twice(content: bytes) -> bytes:
    fields = json.loads(content)
    fields["shards"] *= 2
    return json.dumps(fields).encode()


def _json(content) -> bytes:
    return json.dumps(content).encode()


def _flip(position):
    def change(content: bytes) -> bytes:
        data = bytearray(content)
        data[position] ^= 1
        return bytes(data)

    return change


_EVALUATED = {
    "task_name": "CoLA",
    "step": 3,
    "best_metric": "matthews_correlation",
    "dev": {"matthews_correlation": 0.5},
    "majority_baseline": {"dev": {"matthews_correlation": 0.0}},
}
_TABLE = "--run_dirs=run"
_MANY = {"flags": {}, "settings": [], "trials": []}
_PREDICTED = "run/predictions/CoLA.tsv"


def _table(message, results, trials=None):
    files = {"run/eval_results.json": _json(results)}
    if trials is not None:
        files["run/trials.json"] = _json(trials)
    return Case("glue_table", _TABLE, message, files)


def _manifest(message, change):
    return Case("show_records", "", message, {_MANIFEST: change})


def _index(change, script="show_records", message="does not match its"):
    return Case(script, "", message, {_INDEX: change}, _ANY, code=0)


CASES = [
    # A damaged index is made again.
    _index(b""),
    _index(b"", "run_pretraining"),
    _index(lambda content: content[:-8]),
    _index(lambda content: content[:60]),
    _index(_flip(3)),
    _index(_flip(70)),
    _index(_flip(-1)),
    _index(_flip(-8)),
    _index(_flip(-9), "run_pretraining"),
    _index(b"PK\x03\x04 of a zip"),
    _index(b"\x80\x04K\x01."),
    _index(b"\x93NUMPY\x01\x00\x10\x00{'descr': (((((  "),
    # A manifest that is not one.
    _manifest("lists 'train-00000-of-00001.tfrecord' twice", _twice),
    _manifest("manifest.json is not JSON (Expecting value", b""),
    _manifest("the content is [1]; it should be an object", b"[1]"),
    _manifest("the content is None; it should be an obj", b"null"),
    _manifest("line 1: byte 0xff is not UTF-8", b'{"shards": "\xff"}'),
    _manifest("brackets are nested deeper", b"[" * 20_000),
    _manifest("shards is missing or null; it should", _without("shards")),
    _manifest("vocabulary is missing or null", _without("vocabulary")),
    _manifest("shards is 'a'; it should be a list", _with(shards="a")),
    _manifest("shards[0] is 7; it should be an object", _with(shards=[7])),
    _manifest("shards[0].name is missing or null", _with(shards=[{}])),
    _manifest("shards[0].num_bytes is '9'", _with_in("shards", num_bytes="9")),
    _manifest("shards[0].num_examples", _with_in("shards", num_examples=True)),
    _manifest("should be a file in", _with_in("shards", name="../train")),
    _manifest("should be a file in", _with_in("shards", name="")),
    _manifest("sizes is missing or null", _with(sizes=None)),
    _manifest(
        "sizes.max_seq_length is 32.5", _with_in("sizes", max_seq_length=32.5)
    ),
    _manifest("is 0; it should be an int", _with_in("sizes", max_seq_length=0)),
    _manifest("sizes.max_seq_length is missing or null", _with(sizes={})),
    _manifest("schema_name is 3", _with(schema_name=3)),
    Case(
        "run_pretraining",
        "",
        "schema 'x'",
        {_MANIFEST: _with(schema_name="x")},
    ),
    _manifest("flags is []", _with(flags=[])),
    _manifest("flags.dupe_factor is 'x'", _with_in("flags", dupe_factor="x")),
    _manifest("flags.pairs is ['x']", _with_in("flags", pairs=["x"])),
    _manifest("vocabulary.size is '9'", _with_in("vocabulary", size="9")),
    _manifest(
        "vocabulary.do_lower_case is 'true'",
        _with_in("vocabulary", do_lower_case="true"),
    ),
    Case(
        "run_pretraining",
        "",
        "lists 'train-00000-of-00001.tfrecord' twice",
        {_MANIFEST: _twice},
    ),
    Case(
        "run_pretraining",
        "",
        "the manifest lists 7 records in train-00000",
        {_MANIFEST: _with_in("shards", num_examples=7)},
    ),
    # Folders of runs.
    *(
        Case("make_glue_submission", f"--run_dirs={folders}", message, files)
        for folders, message, files in (
            ("", "--run_dirs= has an empty entry", {}),
            (",", "--run_dirs=, has an empty", {}),
            ("none", "none has no predictions", {}),
            (
                "run",
                "CoLA.tsv is not UTF-8",
                {_PREDICTED: b"index\tprediction\n\xff"},
            ),
            ("run", "should be 'index\\tprediction'", {_PREDICTED: b""}),
        )
    ),
    Case("report", "--run_dirs=", "--run_dirs= has an empty entry"),
    Case("report", "--run_dirs=text", "text has no eval_results.json"),
    Case(
        "report",
        "--run_dirs=run",
        "run/logs/dev/steps.jsonl:2 is not JSON",
        {
            "run/eval_results.json": _json(_EVALUATED),
            "run/logs/dev/steps.jsonl": b'{"step": 1}\n{"step"\n',
        },
    ),
    Case("glue_table", "--run_dirs=", "--run_dirs= has an empty entry"),
    Case("glue_table", "--run_dirs=text", "text has no eval_results.json"),
    _table("not of a fine-tuning run", {"step": 1, "records": "x"}),
    _table("the content is [1]; it should be an object", [1]),
    _table("the content is None; it should be an object", None),
    _table("which is not a GLUE task", _EVALUATED | {"task_name": "SQuAD"}),
    _table("task_name is 3; it should be a str", _EVALUATED | {"task_name": 3}),
    _table("best_metric is missing", _EVALUATED | {"best_metric": None}),
    _table("dev.f1 is missing or null", _EVALUATED | {"best_metric": "f1"}),
    _table("dev is 0.5; it should be an object", _EVALUATED | {"dev": 0.5}),
    _table("dev.matthews_correlation is missing", _EVALUATED | {"dev": {}}),
    _table(
        "majority_baseline is []; it should be an",
        _EVALUATED | {"majority_baseline": []},
    ),
    _table("step is missing or null; it should be", {"task_name": "CoLA"}),
    Case(
        "glue_table",
        _TABLE,
        "eval_results.json is not JSON",
        {"run/eval_results.json": b'{"task_name": "Co'},
    ),
    _table("trials.json: the content is []; it should", _EVALUATED, []),
    _table("trials is missing or null; it should", _EVALUATED, {}),
    _table("trials[0] is 3; it", _EVALUATED, _MANY | {"trials": [3]}),
    _table(
        "settings[0].num_runs is missing",
        _EVALUATED,
        _MANY | {"settings": [{"mean": 1}]},
    ),
    Case(
        "run_glue",
        "--do_eval --num_restarts=2",
        "trials.json: trials is missing or null; it should be a list",
        {"out/trials.json": b"{}"},
        ("out/trials", "out/trials/*"),
    ),
    Case(
        "run_pretraining",
        "--init_checkpoint=model --bert_config_file=model/bert_config.json",
        "do_lower_case is 'yes'; it should be true or false",
        {"model/model.json": _with(do_lower_case="yes")},
    ),
    *(
        Case("export_savedmodel", "", message, {"model/model.json": content})
        for message, content in (
            (
                "max_seq_length is '9'; it should be an integer from 1 to",
                _with(max_seq_length="9"),
            ),
            ("labels is {}; it should be a list", _with(labels={})),
            (
                "untrained[0] is 3; it should be a string",
                _with(untrained=[3]),
            ),
            (
                "score_range [0] should be two numbers",
                _with(score_range=[0]),
            ),
            (
                "null_score_diff_threshold nan one, all finite",
                _with(null_score_diff_threshold=float("nan")),
            ),
            ("model.json: the content is []; it should be an object", b"[]"),
        )
    ),
    *(
        Case(
            "export_savedmodel",
            "",
            f"model is damaged: state.json: {message}",
            {"model/state.json": content},
        )
        for message, content in (
            ("the content is None; it should", b"null"),
            (
                "files is missing or null",
                _json({"state_sha256": hashlib.sha256(b"{}").hexdigest()}),
            ),
        )
    ),
    # Batches and models that cannot fit.
    Case(
        "run_pretraining",
        "--train_batch_size=1000000",
        "memory: training needs an estimated",
    ),
    Case(
        "run_glue",
        "--train_batch_size=1000000",
        "memory: training needs an estimated",
        left=_OUT,
    ),
    Case(
        "run_pretraining",
        "",
        "A BERT of 1000000000 layers",
        {"bert_config.json": _with(num_hidden_layers=10**9)},
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

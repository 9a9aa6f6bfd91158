"""Outputs that cannot be written, numbers and text out of bounds -> cases."""

from hostile.commands import Case

_ADDRESS = "is not a path on a disk"
_NOT_ATOMIC = "file:// has no atomic renames"
_NO_ADDRESS = "is not a local path; an address begins with gs://."
_SAME = "would destroy this input. Choose another file."
_LAST_LAYER = "--layers=-1"
_GLUE_TABLE = "--run_dirs=model"
_SCORE = (
    "--data_file=squad/dev-v1.1.json --predictions_file=squad/dev-v1.1.json"
)
_OWN = (
    "--train_file=CoLA/train.tsv --data_dir=glue --text_column=sentence "
    "--labels=0,1"
)
_ABLATIONS = "experiments.ablations.run_ablations"

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
            ("run_glue", "--records_dir", "s3://b/run", "s3://b/run"),
            ("run_squad", "--output_dir", "gs://b/run", "'gs://b/run"),
            ("run_swag", "--output_dir", "hdfs://b/run", "hdfs://b/run"),
            ("run_ner", "--output_dir", "gs://b/run", "'gs://b/run"),
            ("make_vocab", "--output_file", "gs://b/x", "'gs://b/x'"),
            ("make_glue_records", "--output_dir", "gs://b/x", "'gs://b/x"),
            ("make_squad_records", "--output_dir", "gs://b/x", "'gs://b/x"),
            ("make_swag_records", "--output_dir", "gs://b/x", "'gs://b/x"),
            ("make_ner_records", "--output_dir", "gs://b/x", "'gs://b/x"),
            ("show_records", "--png", "gs://b/x.png", "'gs://b/x.png'"),
            ("extract_features", "--output_file", "gs://b/x", "'gs://b/x'"),
            ("export_savedmodel", "--export_dir", "gs://b/x", "'gs://b/x"),
            ("predict", "--output_file", "ram://x", "the memory of"),
            ("predict", "--export_dir", "gs://b/x", "'gs://b/x'"),
            ("run_glue", "--data_dir", "gs://b/x", "'gs://b/x'"),
            ("run_pretraining", "--vocab_file", "gs://b/x", "'gs://b/x'"),
            ("doctor", "--output_dir", "gs://b/x", _ADDRESS),
        )
    ),
    Case(
        "run_ner",
        "--feature_layers=all --features_dir=gs://b/x",
        "'gs://b/x",
    ),
    Case(
        "convert_checkpoint",
        "--from=model --to=google --output_dir=gs://b/x",
        "'gs://b/x",
    ),
    Case("score_squad", f"{_SCORE} --output_file=gs://b/x", "'gs://b/x'"),
    Case("glue_table", f"{_GLUE_TABLE} --output_file=gs://b/x", "'gs://b/x'"),
    Case(
        "make_glue_submission",
        f"{_GLUE_TABLE} --output_file=s3:/b",
        "an address begins with s3://.",
    ),
    Case("run_scripts.quickstart.tour", "--output_dir=gs://b/x", _ADDRESS),
    Case(_ABLATIONS, "--corpus=text/one.txt --output_dir=gs://b", _ADDRESS),
    Case(
        "make_pretraining_records",
        "--output_dir=file:///tmp/x",
        "file:// has no atomic renames",
    ),
    Case(
        "make_pretraining_records",
        "--output_dir=gs:/b/x",
        "gs:/b/x is not a local path; an address begins with gs://.",
    ),
    Case(
        "make_pretraining_records",
        "--compat=original --output_dir=gs://b/x",
        _ADDRESS,
    ),
    # Outputs that are inputs, folders, or in no folder.
    Case("predict", "--output_file=text/one.txt", _SAME),
    Case("predict", "--output_file=text/../text/one.txt", _SAME),
    Case("predict", "--output_file=text", "Is a directory: 'text'"),
    Case("predict", "--output_file=none/x", "No such file"),
    Case("predict", "--explain=x.html", "--explain=x.html needs gradients"),
    Case("predict", "--model_dir=model", "Give either --export_dir"),
    Case("run_scripts.explore.page", "--model= ", "--model is empty"),
    Case(
        "run_scripts.explore.page",
        "--model=model --host=192.0.2.1",
        "--host=192.0.2.1 --port=7860 (Cannot assign",
    ),
    Case(
        "extract_features", f"{_LAST_LAYER} --output_file=text/one.txt", _SAME
    ),
    Case(
        "extract_features",
        f"{_LAST_LAYER} --vocab_file=vocab.txt --output_file=vocab.txt",
        _SAME,
    ),
    Case("extract_features", "--output_file=text", "Is a directory: 'text'"),
    Case("score_squad", f"{_SCORE} --output_file=squad/dev-v1.1.json", _SAME),
    Case("score_squad", f"{_SCORE} --output_file=none/x", "No such file"),
    Case("make_vocab", "--overwrite --output_file=text/one.txt", _SAME),
    Case("make_vocab", "--output_file=text", "Is a directory: 'text'"),
    Case("show_records", "--png=vocab.txt", _SAME),
    Case(
        "show_records",
        "--png=records/train/train-00000-of-00001.tfrecord",
        _SAME,
    ),
    Case(
        "glue_table",
        "--run_dirs=run --output_file=run/eval_results.json",
        _SAME,
        {"run/eval_results.json": b"{}"},
    ),
    # Devices. /dev/full cannot be replaced.
    Case("make_vocab", "--vocab_size=200 --output_file=/dev/full", "/dev/full"),
    Case("make_vocab", "--input_file=/dev/full", "matches no file"),
    Case(
        "extract_features",
        f"{_LAST_LAYER} --vocab_file=/dev/zero",
        "No vocabulary at /dev/zero",
    ),
    # Numbers.
    *(
        Case(script, f"--{flag}", f"{flag}")
        for script, flag in (
            ("run_pretraining", "learning_rate=nan"),
            ("run_pretraining", "learning_rate=inf"),
            ("run_pretraining", "learning_rate=-1"),
            ("run_pretraining", "weight_decay_rate=-100"),
            ("run_pretraining", "weight_decay_rate=inf"),
            ("run_pretraining", "clip_norm=inf"),
            ("run_pretraining", "clip_norm=nan"),
            ("run_pretraining", "layerwise_lr_decay=nan"),
            ("run_pretraining", "layerwise_lr_decay=2"),
            ("run_pretraining", "seed=-1"),
            ("run_pretraining", "seed=4294967296"),
            ("run_pretraining", "max_seq_length=-3"),
            ("run_pretraining", "max_predictions_per_seq=0"),
            ("run_pretraining", "num_train_steps=9999999999999999999999"),
            ("run_pretraining", "train_batch_size=1000000000000"),
            ("run_pretraining", "eval_batch_size=1000000000000"),
            ("run_glue", "num_train_epochs=inf"),
            ("run_glue", "num_train_epochs=1e300"),
            ("run_glue", "num_train_epochs=nan"),
            ("run_glue", "learning_rate=nan"),
            ("run_ner", "learning_rate=-inf"),
            ("run_squad", "null_score_diff_threshold=nan"),
            ("run_glue", "warmup_proportion=nan"),
            ("doctor", "learning_rate=nan"),
            ("doctor", "num_train_steps=-1"),
            ("make_pretraining_records", "random_seed=-1"),
            ("make_pretraining_records", "random_seed=9223372036854775808"),
            ("make_pretraining_records", "dupe_factor=99999999"),
            ("make_pretraining_records", "held_out_prob=nan"),
            ("make_vocab", "vocab_size=1000000000000"),
            ("make_squad_records", "max_seq_length=1000000000000"),
            ("extract_features", "batch_size=1000000000000"),
            ("predict", "batch_size=1000000000000"),
        )
    ),
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
    Case("predict", "--input_file='a\0b'", "contains a zero byte"),
    Case("run_pretraining", "--output_dir='a\0b'", "contains a zero byte"),
    # Python 3.10 refuses it while it splits the list.
    Case("run_glue", "--labels='a,b\0'", "--labels="),
    Case("run_pretraining", "--output_dir=caf\udce9", "is not UTF-8"),
    Case("export_savedmodel", "--export_dir=caf\udce9", "is not UTF-8"),
]

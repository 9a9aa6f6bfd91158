"""Settings that are out of bounds, or contradict records or model -> cases."""

from hostile.commands import Case

_CASED = {
    "records/train/manifest.json": lambda content: content.replace(
        b'"do_lower_case": true', b'"do_lower_case": false'
    )
}

CASES = [
    Case(
        "run_glue",
        "--dev_share=0.999",
        "--dev_share=0.999: 0.999 is not a number in the range",
    ),
    Case(
        "run_pretraining",
        "--do_lower_case=false",
        "the records were made with do_lower_case=True. Use one value: omit",
    ),
    Case(
        "run_pretraining",
        "--eval_input_file=records/held_out --do_eval",
        "Records differ in do_lower_case (records/train: False; ",
        _CASED,
    ),
    Case(
        "run_ranking",
        "--passages_per_query=4",
        "=4 is for --ranking_loss=listwise. Omit it",
    ),
    Case(
        "run_few_shot",
        "--label_smoothing=0.1",
        "--label_smoothing=0.1 is for a head that is trained",
    ),
    Case("run_glue", "--labels=x", "--labels is for files of your own"),
    Case(
        "show_records",
        "--records=empty.tfrecord",
        "No records in 'empty.tfrecord': they are empty",
        {"empty.tfrecord": b""},
        ("empty.tfrecord.index",),
    ),
    Case(
        "export_savedmodel",
        "--kind=encoder --prompt_name=query",
        "prompt_name=query is for kind=sentence_embedding, but the kind",
    ),
    *(
        Case("run_glue", f"--preemption_server={address}", "does not answer")
        for address in ("127.0.0.1:1", "localhost:x", "[")
    ),
    Case("run_glue", "--save_checkpoints_minutes=0", "=0.0 should be above 0"),
    Case(
        "extend_vocab",
        "--words_file=words.txt",
        "--input_file=text/one.txt is given instead of --words_file",
        {"words.txt": b"a"},
    ),
    Case(
        "convert_checkpoint",
        "--max_position_embeddings=64",
        "=64 should be more than the model's own 64. Leave it out",
    ),
    Case("run_glue", "--do_eval --folds=5", "--folds=5 takes dev from the ro"),
    Case("run_glue", "--do_eval --fold=0", "--fold=0 needs --folds"),
    Case(
        "run_glue",
        "--do_eval --search=learning_rate:1e-5..1e-4",
        "Add their number, --num_trials=20",
    ),
    Case(
        "run_glue",
        "--do_eval --search=learning_rate:1e-4..1e-5:log",
        "such as train_batch_size:16|32 or learning_rate:1e-5..1e-4:log",
    ),
    Case("run_glue", "--calibrate", "finds a temperature on dev: add --do_e"),
    Case(
        "run_glue",
        "--task_name=STS-B --data_dir=glue/STS-B --do_eval --calibrate",
        "is for classes; STS-B is a task of regression",
    ),
    Case(
        "export_savedmodel",
        "--uncalibrated",
        "model.json has no temperature above 0, which run_glue --calibrate",
    ),
]

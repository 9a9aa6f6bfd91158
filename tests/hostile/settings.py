"""Settings that are out of bounds, or contradict records or model -> cases."""

from hostile.commands import Case

_CASED = {
    "records/train/manifest.json": lambda content: content.replace(
        b'"do_lower_case": true', b'"do_lower_case": false'
    )
}

CASES = [
    Case(
        "run_pretraining",
        "--do_lower_case=false",
        "the records were made with True. Use one case: omit the flag",
    ),
    Case(
        "run_pretraining",
        "--do_lower_case",
        "the records were made with False. Use one case: omit the flag",
        _CASED,
    ),
    Case(
        "run_pretraining",
        "--eval_input_file=records/held_out --do_eval",
        "Records differ in do_lower_case (records/train: False; ",
        _CASED,
    ),
]

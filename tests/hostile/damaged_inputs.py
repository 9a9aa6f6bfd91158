"""Inputs that are missing, empty, cut or random bytes -> cases.

One of each reader, whichever commands have it.
"""

from hostile.commands import Case

# Script -> its inputs, in the folder of the fixture `inputs`.
INPUTS = {
    "make_vocab": ["text/one.txt"],
    "make_pretraining_records": ["text/one.txt"],
    "make_glue_records": ["glue/CoLA/train.tsv", "vocab.txt"],
    "make_squad_records": ["squad/train-v1.1.json"],
    "make_swag_records": ["swag/train.csv"],
    "make_ner_records": ["conll2003/eng.train"],
    "run_pretraining": ["records/train/manifest.json", "bert_config.json"],
    "run_glue": ["glue/CoLA/train.tsv"],
    "run_embeddings": ["glue/STS-B/train.tsv"],
    "export_savedmodel": [
        "model/model.json",
        "model/bert_config.json",
        "model/vocab.txt",
        "model/model.safetensors",
    ],
    "extract_features": ["text/one.txt"],
    "predict": ["text/one.txt", "export/saved_model.pb"],
}
# Not an error: a task may have only a dev set, and text may be empty.
_VALID = {
    ("missing", "make_glue_records", "glue/CoLA/train.tsv"),
    ("missing", "make_squad_records", "squad/train-v1.1.json"),
    ("missing", "make_swag_records", "swag/train.csv"),
    ("empty", "predict", "text/one.txt"),
    ("empty", "extract_features", "text/one.txt"),
    ("random", "predict", "text/one.txt"),
    ("random", "extract_features", "text/one.txt"),
}
_NO_TRAINING_FILE = "needs a train file of "
_EXPORT = "export/saved_model.pb"
_MESSAGES = {
    ("empty", "make_vocab", "text/one.txt"): "check --input_file",
    ("random", "make_vocab", "text/one.txt"): "There is no word to learn",
    ("empty", "make_pretraining_records", "text/one.txt"): "check --input_file",
    ("random", "make_pretraining_records", "text/one.txt"): "--input_file",
    ("missing", "run_glue", "glue/CoLA/train.tsv"): _NO_TRAINING_FILE,
    (
        "missing",
        "make_ner_records",
        "conll2003/eng.train",
    ): "The entity types are unknown: give a training file",
    (
        "missing",
        "run_pretraining",
        "records/train/manifest.json",
    ): "'records/train' has no manifest.json",
    (
        "missing",
        "export_savedmodel",
        "model/model.safetensors",
    ): "model contains no model",
    ("missing", "predict", _EXPORT): "--export_dir=export contains no SavedMod",
    ("empty", "predict", _EXPORT): "--export_dir=export: TensorFlow",
    ("random", "predict", _EXPORT): "--export_dir=export: TensorFlow",
    ("cut", "predict", _EXPORT): "--export_dir=export: TensorFlow",
}
_DAMAGES = {
    "missing": None,
    "empty": b"",
    "random": bytes(range(128, 256)) * 8,
}


# Found late: the records of other sets, or of other files, are complete.
_LATE = ("--input_file", _NO_TRAINING_FILE, "check --input_file")


def _message(*damage: str) -> str:
    """Returns what the message contains: by default the folder or file."""
    folder, _, name = damage[-1].rpartition("/")
    return _MESSAGES.get(damage, f"{folder}/" if folder else name)


def _case(damage: str, script: str, path: str, content) -> Case:
    message = _message(damage, script, path)
    left = ("out",) if message in _LATE else ()
    return Case(script, "", message, {path: content}, left)


CASES = [
    _case(damage, script, path, content)
    for script, paths in INPUTS.items()
    for path in paths
    for damage, content in _DAMAGES.items()
    if (damage, script, path) not in _VALID
]
CASES += [
    _case("cut", script, path, lambda content: content[: len(content) // 2])
    for script, paths in INPUTS.items()
    for path in paths
    if path.endswith((".json", ".safetensors", ".pb"))
]

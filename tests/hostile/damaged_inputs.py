"""Inputs that are missing, empty, cut or random bytes -> cases.

One of each reader, whichever commands have it; hypothesis damages more of them
in test_text_readers.py and in tests/bert_tf/checkpoint/test_damaged_files.py.
"""

from hostile.commands import Case

_RANDOM = bytes(range(128, 256)) * 8


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


_EXPORT = "export/saved_model.pb"
_MANIFEST = "records/train/manifest.json"
_NO_TRAINING_FILE = "needs a train file of "
_NO_TYPES = "The entity types are unknown: give a training file"
_NO_WORDS = "There is no word to learn"
# Found late: the records of other sets, or of other files, are complete.
_LATE = ("--input_file", _NO_TRAINING_FILE, "check --input_file")
# Script, its input, the new content, part of the message.
_ROWS = [
    ("make_vocab", "text/one.txt", None, "text/one.txt"),
    ("make_vocab", "text/one.txt", b"", "check --input_file"),
    ("make_vocab", "text/one.txt", _RANDOM, _NO_WORDS),
    ("make_pretraining_records", "text/one.txt", b"", "check --input_file"),
    ("make_pretraining_records", "text/one.txt", _RANDOM, "--input_file"),
    ("run_glue", "glue/CoLA/train.tsv", None, _NO_TRAINING_FILE),
    ("make_ner_records", "conll2003/eng.train", None, _NO_TYPES),
    ("run_pretraining", _MANIFEST, None, "'records/train' has no manifest.jso"),
    ("export_savedmodel", "model/vocab.txt", None, "vocab.txt"),
    ("extract_features", "text/one.txt", None, "text/one.txt"),
    (
        "export_savedmodel",
        "model/model.safetensors",
        None,
        "model contains no model",
    ),
    ("predict", "text/one.txt", None, "text/one.txt"),
    ("predict", _EXPORT, None, "--export_dir=export contains no SavedMod"),
    *(
        ("predict", _EXPORT, content, "--export_dir=export: TensorFlow")
        for content in (b"", _RANDOM, _cut)
    ),
    # The message has the path.
    *(
        (script, path, content, path)
        for script, path in (
            ("make_glue_records", "glue/CoLA/train.tsv"),
            ("make_glue_records", "vocab.txt"),
            ("make_squad_records", "squad/train-v1.1.json"),
            ("make_swag_records", "swag/train.csv"),
            ("make_ner_records", "conll2003/eng.train"),
            ("run_pretraining", "bert_config.json"),
            ("run_embeddings", "glue/STS-B/train.tsv"),
            ("export_savedmodel", "model/vocab.txt"),
        )
        for content in (b"", _RANDOM)
    ),
    *(
        (script, path, _cut, path)
        for script, path in (
            ("make_squad_records", "squad/train-v1.1.json"),
            ("run_pretraining", _MANIFEST),
            ("export_savedmodel", "model/model.safetensors"),
        )
    ),
]
CASES = [
    Case(
        script,
        "",
        message,
        {path: content},
        ("out",) if message in _LATE else (),
    )
    for script, path, content, message in _ROWS
]

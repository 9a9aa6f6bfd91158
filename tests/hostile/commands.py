"""A command with wrong input -> its message, and the files that it changed."""

import hashlib
import importlib
import pathlib
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

from absl import logging

# Complete commands, to which a case appends flags: the last of two counts.
_TINY = "--train_batch_size=4 --eval_batch_size=4 --save_checkpoints_steps=1"
_MODEL = "--vocab_file=vocab.txt --bert_config_file=bert_config.json"
_FINE_TUNE = f"{_MODEL} {_TINY} --max_seq_length=32 --num_train_epochs=1"
COMMANDS = {
    "make_vocab": "--input_file=text/one.txt --output_file=out --vocab_size=99",
    "make_pretraining_records": "--input_file=text/one.txt --output_dir=out "
    "--vocab_file=vocab.txt --max_seq_length=32 --num_processes=1",
    "make_glue_records": "--task_name=CoLA --data_dir=glue/CoLA "
    "--vocab_file=vocab.txt --output_dir=out --max_seq_length=32",
    "make_squad_records": "--data_dir=squad --vocab_file=vocab.txt "
    "--output_dir=out --max_seq_length=64 --doc_stride=16 "
    "--max_query_length=16",
    "make_swag_records": "--data_dir=swag --vocab_file=vocab.txt "
    "--output_dir=out --max_seq_length=32",
    "make_ner_records": "--data_dir=conll2003 --vocab_file=vocab.txt "
    "--output_dir=out --max_seq_length=32",
    "show_records": "--records=records/train --vocab_file=vocab.txt",
    "doctor": f"--records=records/train {_MODEL}",
    "run_pretraining": f"--input_file=records/train {_MODEL} {_TINY} "
    "--output_dir=out --num_train_steps=1 --num_warmup_steps=0 --nodo_eval",
    "run_glue": f"--task_name=CoLA --data_dir=glue/CoLA {_FINE_TUNE} "
    "--output_dir=out --do_train",
    "run_ranking": "--train_file=glue/STS-B/train.tsv "
    "--text_column=sentence1,sentence2 --label_column=score --dev_share=0 "
    "--ranking_loss=binary "
    f"{_FINE_TUNE} --output_dir=out --do_train",
    "run_few_shot": f"--task_name=CoLA --data_dir=glue/CoLA {_FINE_TUNE} "
    "--output_dir=out --do_train",
    "run_squad": f"--data_dir=squad {_FINE_TUNE} --output_dir=out --do_train "
    "--doc_stride=16 --max_query_length=16",
    "run_swag": f"--data_dir=swag {_FINE_TUNE} --output_dir=out --do_train",
    "run_ner": f"--data_dir=conll2003 {_FINE_TUNE} --output_dir=out --do_train",
    "run_embeddings": "--train_file=glue/STS-B/train.tsv "
    "--text_column=sentence1,sentence2 --dev_share=0 "
    f"{_FINE_TUNE} --output_dir=out --do_train",
    "extract_features": "--input_file=text/one.txt --output_file=out "
    "--init_checkpoint=model --max_seq_length=16 --layers=-1",
    "extend_vocab": "--init_checkpoint=model --input_file=text/one.txt "
    "--output_dir=out",
    "embed": "--input_file=text/one.txt --model_dir=model "
    "--output_file=out.npy",
    "search": "--vectors_file=vectors.npy --model_dir=model "
    "--input_file=text/one.txt --output_file=out",
    "score_retrieval": "--corpus_file=corpus.jsonl --model_dir=model "
    "--queries_file=queries.jsonl --judgements_file=qrels --output_file=out",
    "export_savedmodel": "--model_dir=model --export_dir=out",
    "convert_checkpoint": "--from=model --output_dir=out --to=google",
    "predict": "--export_dir=export --input_file=text/one.txt "
    "--output_file=out",
}
# In messages; `run_...` is any of these.
_COMMAND = r"\b(run|make|convert|export|extract|show|glue)_[a-z_.]+"


class Case(NamedTuple):
    """A command that should be answered with one line.

    Attributes:
      script: module in run_scripts; or its full name.
      flags: appended to `COMMANDS[script]`, as typed in a shell.
      message: part of the line that is printed.
      files: path -> content, written first; a function instead changes the
        content of an existing file, and None deletes it.
      left: names or globs of files that the command may make or change, and
        names of folders.
      code: exit status; 0 for a warning.
    """

    script: str
    flags: str
    message: str
    files: Mapping[str, bytes | Callable[[bytes], bytes] | None] = {}
    left: tuple[str, ...] = ()
    code: int = 1

    def __str__(self) -> str:
        return " ".join([self.script, self.flags, *self.files])[:80]


def write(files: Mapping, folder: pathlib.Path) -> None:
    """Writes, changes or deletes the files of a case."""
    for name, content in files.items():
        path = folder / name
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content = content(path.read_bytes())
        path.write_bytes(content)


def digests(folder: pathlib.Path, left: tuple[str, ...]) -> dict[str, str]:
    """Returns path -> sha256 of all files that are not in `left`."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(
            path.read_bytes() if path.is_file() else b"folder"
        ).hexdigest()
        for path in folder.rglob("*")
        if not _matches(path.relative_to(folder), left)
    }


def _matches(path: pathlib.Path, left: tuple[str, ...]) -> bool:
    return path.parts[0] in left or any(path.match(glob) for glob in left)


def foreign_flags(case: Case, output: str) -> set[str]:
    """Returns the flags in messages that the command does not have.

    Those of another command are named after it: `make_vocab --overwrite`, or
    `the --output_dir of run_glue`.
    """
    own = {"traceback", "help", "flagfile", *_module(case).FLAGS}
    own |= {f"no{name}" for name in own}
    text = re.sub(rf"{_COMMAND} (--\w+\S*[ ,]*)+", "", output)
    text = re.sub(rf"--\w+ of {_COMMAND}", "", text)
    text = re.sub(r"hf download \S+ --local-dir", "", text)
    # Those that were typed are repeated.
    return set(re.findall(r"--(\w+)", text)) - own - _typed(case)


def _typed(case: Case) -> set[str]:
    return set(re.findall(r"--(\w+)", case.flags))


def _module(case: Case):
    package = "" if "." in case.script else "run_scripts."
    return importlib.import_module(package + case.script)


def run(case: Case, monkeypatch) -> int:
    """Runs the command of a case in this process; returns its exit status."""
    module = _module(case)
    words = shlex.split(f"{COMMANDS.get(case.script, '')} {case.flags}")
    monkeypatch.setattr(sys, "argv", [case.script, *words])
    level = logging.get_verbosity()
    try:
        module.run()
    except SystemExit as stop:
        return stop.code or 0
    finally:
        logging.set_verbosity(level)
    return 0

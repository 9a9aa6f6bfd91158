"""`python -m bert_tf` -> the commands by task, with a line each."""

import ast
import pathlib
import sys

SCRIPTS = pathlib.Path(__file__).parent.parent / "run_scripts"
TASKS = {
    "Try it": ("quickstart",),
    "Make a vocabulary and records": (
        *("make_vocab", "make_pretraining_records", "make_glue_records"),
        *("make_squad_records", "make_swag_records", "make_ner_records"),
        *("show_records", "doctor", "extend_vocab"),
    ),
    "Train": (
        *("run_pretraining", "run_glue", "run_few_shot", "run_ranking"),
        *("run_squad", "run_swag", "run_ner", "run_embeddings"),
    ),
    "Look at scores": (
        *("report", "score_squad", "score_retrieval", "glue_table"),
        "make_glue_submission",
    ),
    "Use a model": (
        *("predict", "explore", "embed", "search", "extract_features"),
    ),
    "Give a model away": ("export_savedmodel", "convert_checkpoint"),
}


def main(argv: list[str]) -> None:
    """Prints the commands.

    They are not imported: this answers at once.
    """
    if argv[1:] not in ([], ["--help"]):
        sys.exit(
            f"error: python -m bert_tf lists the commands; {argv[1]!r} is not "
            "for it. Run python -m run_scripts.NAME, with its flags."
        )
    lines = [
        "Each command, such as bert-predict, is python -m run_scripts.predict",
        "where its name is not installed; --help lists its flags.",
    ]
    for task, names in TASKS.items():
        lines.append(f"\n{task}:")
        for name in names:
            path = SCRIPTS / f"{name}.py"
            if not path.exists():
                path = SCRIPTS / name / "tour.py"
            doc = ast.get_docstring(ast.parse(path.read_text("utf-8")))
            line = doc.partition("\n")[0]
            lines.append(f"  bert-{name.replace('_', '-'):24} {line}")
    # At once, so that `| head` breaks no pipe.
    print("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv)

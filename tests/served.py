"""Run folder and rows -> answers of an export of its model."""

import json


def answers(model_dir, rows, folder, *words):
    """Exports the model to `folder` and returns the answers of `predict`.

    Rows and answers are dicts. `words` are additional flags of `predict`.
    """
    import exports

    from run_scripts import predict

    exports.write(model_dir, folder / "export")
    lines = [json.dumps(row) + "\n" for row in rows]
    (folder / "rows.jsonl").write_text("".join(lines), encoding="utf-8")
    predict.main(
        [
            "predict",
            f"--export_dir={folder / 'export'}",
            f"--input_file={folder / 'rows.jsonl'}",
            f"--output_file={folder / 'answers.jsonl'}",
            "--batch_size=4",
            *words,
        ]
    )
    found = (folder / "answers.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in found.splitlines()]

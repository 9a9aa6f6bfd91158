"""Run folder and rows -> answers of an export of its model."""

import json


def lines_of(loaded, kind, inputs, signature="text"):
    """Returns the lines that `predict` writes for inputs of a Predictor.

    `loaded` is the SavedModel of an export of the kind.
    """
    from bert_tf.serving import kinds, row_outputs, text_rows

    kind, call = kinds.by_name(kind), loaded.signatures[signature]
    specs = call.structured_input_signature[1]
    ranks = {name: spec.shape.rank for name, spec in specs.items()}
    rows = [
        text_rows.Row(i, kind.parse(value, "it"))
        for i, value in enumerate(inputs)
    ]
    names = set(call.structured_outputs)
    found = row_outputs.compute(kind, call, rows, ranks)
    return [
        {"line": row.line} | row.fields | kind.to_json(row.fields, x, names)
        for row, x in zip(rows, found, strict=True)
    ]


def answers(model_dir, rows, folder, *words):
    """Exports the model to `folder` and returns the answers of `predict`.

    Rows and answers are dicts. `words` are additional flags of `predict`.
    """
    from run_scripts import export_savedmodel, predict

    export_savedmodel.main(
        [
            "export_savedmodel",
            f"--model_dir={model_dir}",
            f"--export_dir={folder / 'export'}",
        ]
    )
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

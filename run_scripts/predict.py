r"""A model or SavedModel, lines of text, a table or JSON -> predictions.

    python -m run_scripts.predict --model_dir=runs/reviews \
      --input_file=reviews.csv --text_column=review --output_file=answers.csv
    python -m run_scripts.predict --export_dir=exports/sst2 < reviews.txt
    python -m run_scripts.predict --export_dir=exports/mrpc \
      --input_file=pairs.tsv --text_column=sentence1,sentence2
    echo "the cat [MASK] on the stone" | \
      python -m run_scripts.predict --export_dir=exports/pretrained
    echo '{"question": "Who sat?", "context": "The cat sat."}' | \
      python -m run_scripts.predict --export_dir=exports/squad

Each row of input gives one line of output, in the same order, with the keys of
the input and of the prediction; one that both have is input_... for the input.
An --output_file that ends in .csv, .tsv or .parquet is a table instead, with
the columns of the input and label, probability and the like of the prediction.
Without columns, a line is a text; but it is a JSON object in a file whose name
ends in .jsonl, .ndjson or .json, with --input_format=jsonl, and if the model
needs more than one text. Quotes in a TSV file are part of the text, as in
GLUE's files, unless --input_format=quoted_tsv; a .csv has commas and quotes.
Files may be compressed, or Parquet, and several. A line that is no row, such as
one that is not JSON, gives {"line": ..., "error": ...}, in a table a cell of
the column error, and the exit status is 1.
"""

import os

from bert_tf import config
from bert_tf.serving import predictions
from run_scripts.flags import common_flags

FLAGS = common_flags.make_flags(predictions.PredictConfig)


def main(argv: list[str]) -> None:
    """Predicts and writes the output."""
    common_flags.parse(FLAGS, argv, __doc__)
    config = common_flags.config(predictions.PredictConfig, FLAGS)
    open_explanations = None
    if config.explain:
        from bert_tf.contrib.apps import explanations

        open_explanations = explanations.open_file
    predictions.predict(config, open_explanations)


def run() -> None:
    """Runs the script in a process in which no weights change."""
    # oneDNN then packs each matrix only once. In bfloat16 this makes the
    # model 1.3 times as fast.
    os.environ.setdefault(config.FROZEN_WEIGHTS, "1")
    common_flags.run(main)


if __name__ == "__main__":
    run()

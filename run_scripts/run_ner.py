r"""CoNLL column files -> a fine-tuned tagger of named entities, predictions.

    python -m run_scripts.run_ner \
      --data_dir=conll2003 --init_checkpoint=runs/tiny \
      --do_train --do_eval --do_predict --output_dir=runs/ner

Makes the records first, keeps the model that is best on dev in `best/`, writes
`eval_results.json` with entity and token F1 and, in `predictions/`, dev.txt and
test.txt: the columns of the file and the predicted tag, as conlleval reads.
"""

import functools
import os

from absl import flags

from bert_tf.tasks import ner
from run_scripts import fine_tuning, ner_results, work
from run_scripts.flags import common_flags, fine_tuning_flags, ner_flags

NAME = "NER"

FLAGS = flags.FlagValues()
ner_flags.define_data(FLAGS)
fine_tuning_flags.define_fine_tuning(FLAGS, train_batch_size=16)


def find_work(source: str | None) -> work.Work:
    """Returns the work on the files that the flags mean.

    Args:
      source: model folder; of a tagger, whose tags they are, unless to train.
    """
    files = ner_flags.find_files(FLAGS)
    read_any = ner_flags.make_reader(FLAGS, files, None)
    needed = files
    if not FLAGS.do_train:
        needed = {split: files[split] for split in files if split != "train"}
    labels = ner_flags.find_labels(
        FLAGS, files, None if FLAGS.do_train else source
    )
    read = ner_flags.make_reader(FLAGS, files, ner_flags.types_of(labels))

    def write_predictions(sets, predict, folder):
        for split in ("dev", "test"):
            if split in sets:
                weights, _ = ner_results.read_tags(sets[split])
                ids = ner.predicted_tags(predict(split)["logits"], weights)
                corpus = read(split)
                ner_results.write_predictions(
                    corpus,
                    ner_results.in_sentences(corpus, ids, labels),
                    os.path.join(folder, f"{split}.txt"),
                )

    return work.Work(
        name=NAME,
        bert_task=ner.tagging_task(len(labels)),
        make_records=functools.partial(
            ner_flags.make_records, FLAGS, needed, labels, read
        ),
        make_score=functools.partial(ner_results.make_score, read, labels),
        # To train or not, and whatever types the model knows.
        majority_baseline=lambda sets: ner_results.majority_baseline(
            read_any, files
        ),
        best_metric="entity_f1",
        write_predictions=write_predictions,
        description={
            "task": "tagging",
            "labels": labels,
            "doc_stride": FLAGS.doc_stride,  # None: half of a window.
        },
        predicted=("dev", "test"),
    )


def main(argv: list[str]) -> None:
    """Makes records, trains, evaluates and predicts, as the flags say."""
    common_flags.parse(FLAGS, argv, __doc__)
    fine_tuning.run(FLAGS, "run_ner", find_work)


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()

r"""GLUE files, or a table of one's own -> a fine-tuned model, predictions.

    python -m run_scripts.run_glue \
      --task_name=SST-2 --data_dir=glue/SST-2 --init_checkpoint=runs/tiny \
      --do_train --do_eval --do_predict --output_dir=runs/sst-2

Makes the records first, keeps the model that is best on dev in `best/`, writes
`eval_results.json` and, in `predictions/`, what the GLUE site takes. Without
--init_checkpoint it trains from scratch. AX is predicted by a model of MNLI:

    python -m run_scripts.run_glue \
      --task_name=AX --data_dir=glue/AX --init_checkpoint=runs/mnli \
      --do_predict --output_dir=runs/ax

A model of MNLI is also a good one to begin RTE, STS-B and MRPC with:
--init_checkpoint=runs/mnli takes the encoder that was best there.

--num_restarts=5 trains with five seeds, --grid=paper with the 24 settings that
the paper chose from; each run in its own folder in `trials/`, the best of them
in `best/`, all scores in `trials.json`.

A table of one's own takes the flags that make_glue_records shows.
"""

import functools
import os

from absl import flags

from bert_tf.tasks import glue
from bert_tf.workflows import glue_results
from run_scripts import fine_tuning, trials, work
from run_scripts.flags import common_flags, fine_tuning_flags, glue_flags

FLAGS = flags.FlagValues()
glue_flags.define_data(FLAGS)
fine_tuning_flags.define_fine_tuning(FLAGS)
trials.define_trials(FLAGS)


def find_work() -> work.Work:
    """Returns the work on the task that the flags mean."""
    task = glue_flags.find_task(FLAGS)
    if task.is_regression:
        bert_task = glue.regression_task(task.name)
    else:
        bert_task = glue.classification_task(task.name, len(task.labels))

    description = {
        "task": "regression" if task.is_regression else "classification",
        "labels": list(task.labels),
    }
    if task.score_range:
        description["score_range"] = list(task.score_range)

    def write_predictions(sets, predict, folder):
        for split, name in task.predictions.items():
            if split in sets:
                path = os.path.join(folder, f"{name}.tsv")
                glue_results.write_predictions(task, predict(split), path)

    return work.Work(
        name=task.name,
        bert_task=bert_task,
        make_records=functools.partial(glue_flags.make_records, FLAGS, task),
        make_score=lambda sets: glue_results.make_score(
            task.metrics, bert_task, sets
        ),
        majority_baseline=lambda sets: glue_results.majority_baseline(
            task.metrics, bert_task, sets
        ),
        best_metric=task.best_metric,
        write_predictions=write_predictions,
        description=description,
    )


def main(argv: list[str]) -> None:
    """Makes records, trains, evaluates and predicts, as the flags say."""
    common_flags.parse(FLAGS, argv, __doc__)
    work_to_do = find_work()
    if trials.are_wanted(FLAGS):
        trials.run(FLAGS, "run_glue")
    else:
        trials.check_single(FLAGS)
        fine_tuning.run(FLAGS, "run_glue", lambda source: work_to_do)


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()

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

from bert_tf.workflows.configs import TrialsConfig
from run_scripts.flags import common_flags
from tfrecords.tasks.glue_tables import GlueData

FLAGS = common_flags.flags_of(GlueData, TrialsConfig)


def main(argv: list[str]) -> None:
    """Makes records, trains, evaluates and predicts, as the flags say."""
    common_flags.parse(FLAGS, argv, __doc__)
    from bert_tf.tasks.glue import Glue
    from bert_tf.workflows import trials

    task = Glue.from_data(common_flags.config(GlueData, FLAGS))
    config = common_flags.config(TrialsConfig, FLAGS)
    trials.fine_tune(task, config, "run_glue")


run = common_flags.command(main)

if __name__ == "__main__":
    run()

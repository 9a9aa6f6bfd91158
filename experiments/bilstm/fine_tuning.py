"""Task, BiLSTMFineTuningConfig -> fine-tuned model with a BiLSTM, scores."""

import dataclasses

from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.training import loop, run_folder
from bert_tf.workflows import fine_tuning, initial_model
from experiments.bilstm import models
from experiments.bilstm.config import BiLSTMConfig, BiLSTMFineTuningConfig


def fine_tune(task, config: BiLSTMFineTuningConfig, command: str) -> None:
    """Trains, evaluates and predicts, as `fine_tuning.fine_tune` does.

    The folder of such a run is not opened again as a model: a run that resumes
    takes sizes and vocabulary from `init_checkpoint`, and the same command
    evaluates it again.

    Args:
      task: a task with data files, of classes, scores, spans or tags.
      config: settings of the run.
      command: module of the command, for run.flags.

    Raises:
      ValueError: as in `fine_tuning.fine_tune`, or without `do_train`.
      stopping.Stopped: if a signal stopped training; the same call resumes.
    """
    if not config.do_train:
        raise ValueError(
            "--bilstm_units is for training: add --do_train. A finished run is "
            "not trained again, and is evaluated by the same command."
        )
    task.build_model = make_build_model(task, config.bilstm_units)
    strategy = loop.open_strategy(config, config.do_train)
    with run_folder.open_run(config.output_dir, strategy) as folder:
        name = initial_model.name_of(config)
        folder.check_setting("init_checkpoint", name)
        source = None
        if config.init_checkpoint:
            source = Checkpoint.open(
                config.init_checkpoint,
                accept_tokenizer_differences=(
                    config.accept_tokenizer_differences
                ),
            )
        run, filled = fine_tuning.prepare(
            *(task, config, folder, strategy, source)
        )
        fine_tuning.train_and_predict(run, filled, strategy, command)


def make_build_model(task, bilstm_units: int):
    """Returns `build_model` of a task, whose models have a BiLSTM."""

    def build_model(config, dtype=None):
        entries = task.metadata()
        sizes = BiLSTMConfig(
            **dataclasses.asdict(config), bilstm_units=bilstm_units
        )
        num_labels = len(entries.get("labels", ()))
        return models.for_task(entries["task"], sizes, num_labels, dtype)

    return build_model

"""Setting -> a step of this package, the same as in its training loop."""

from benchmarks import work


def make(
    setting: work.Setting,
    remat: bool = False,
    gradient_accumulation_steps: int = 1,
) -> work.Step:
    """Returns our step.

    Args:
      setting: task, sizes and precision.
      remat: whether to recompute activations in the backward pass.
      gradient_accumulation_steps: micro-batches that a batch is split into.
    """
    from bert_tf import config as bert_config
    from bert_tf.training import config as training_config
    from bert_tf.training import evaluation, loop, strategies

    task = make_task(setting)
    settings = training_config.TrainingConfig(
        output_dir="unused",
        seed=1,
        precision=setting.precision,
        remat=remat,
        learning_rate=setting.learning_rate,
        gradient_accumulation_steps=gradient_accumulation_steps,
    )
    config = bert_config.BertConfig.from_dict(setting.config)
    if setting.is_training:
        strategy = strategies.make_strategy("one_device")
        model = loop.build_model(task, config, strategy, settings)
        train_steps = make_train_steps(task, model, strategy, settings)

        def run(batch):
            return float(train_steps(batch)["loss"][0])
    else:
        # As in export_savedmodel.
        policy = bert_config.inference_policy(setting.precision)
        model = task.build_model(config, dtype=policy)
        predict = evaluation.make_prediction_step(
            model, strategies.make_strategy("one_device")
        )

        def run(batch):
            return float(next(iter(predict(batch).values())).numpy().flat[0])

    return work.Step(prepare, run, model.count_params())


def prepare(batch):
    """Returns a batch of arrays as tensors."""
    import tensorflow as tf

    return {name: tf.constant(x) for name, x in batch.items()}


def make_task(setting: work.Setting):
    """Returns the bert_tf Task of a setting."""
    from bert_tf.tasks import glue, pretraining
    from tfrecords.tasks import glue_tables

    if setting.task == "pretraining":
        return pretraining.TASK
    table = glue_tables.GlueTask(
        name="benchmark",
        files={},
        text_columns=("text",),
        labels=tuple(map(str, range(work.NUM_CLASSES))),
    )
    return glue.task_of(table)


def make_train_steps(task, model, strategy, settings):
    """Returns a function of a batch: one update, as in `loop.train`."""
    from bert_tf.training import loop, optimizers

    # The run is so long that the learning rate is practically constant.
    schedule = optimizers.WarmupDecay(settings.learning_rate, 10**9)
    return loop.make_step(task, model, settings, strategy, schedule)

"""Setting -> a step of this package: the one that its training loop takes."""

from benchmarks import work


def make(setting: work.Setting, **options) -> work.Step:
    """Returns our step.

    Args:
      setting: what to do.
      **options: `remat` for `training.build_model`, and
        `gradient_accumulation_steps` for `training.make_train_step`.
    """
    import tensorflow as tf

    from bert_tf import config as bert_config
    from bert_tf import evaluation, optimization, strategies, training
    from bert_tf.tasks import glue, pretraining

    task = pretraining.TASK
    if setting.task == "fine_tuning":
        task = glue.classification_task("benchmark", work.NUM_CLASSES)
    strategy = strategies.make_strategy("one_device")
    model = training.build_model(
        task,
        bert_config.BertConfig.from_dict(setting.config),
        strategy,
        seed=1,
        precision=setting.precision,
        **{name: options[name] for name in {"remat"} & set(options)},
    )
    if setting.is_training:
        # So long a run that the rate stays what it is.
        optimizer = optimization.AdamW(
            model.trainable_weights,
            optimization.WarmupLinearDecay(setting.learning_rate, 10**9),
        )
        accumulation = {"gradient_accumulation_steps"} & set(options)
        train_step = training.make_train_step(
            task,
            model,
            optimizer,
            strategy,
            clip_norm=1.0,
            seed=1,
            **{name: options[name] for name in accumulation},
        )

        def run(batch):
            return float(train_step(batch)["loss"])
    else:
        predict = evaluation.make_prediction_step(model)

        def run(batch):
            return float(next(iter(predict(batch).values())).numpy().flat[0])

    return work.Step(
        lambda batch: {name: tf.constant(x) for name, x in batch.items()},
        run,
        model.count_params(),
    )

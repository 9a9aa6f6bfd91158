r"""Pre-training records -> a pre-trained model, and its held-out metrics.

    python -m run_scripts.run_pretraining \
      --input_file=records/train --eval_input_file=records/held_out \
      --vocab_file=vocab.txt --bert_config_name=tiny \
      --output_dir=runs/tiny --num_train_steps=10000 --num_warmup_steps=1000

The same command goes on from the last checkpoint when it was stopped.
"""

import os

from absl import flags, logging

from bert_tf import (
    checkpoints,
    evaluation,
    model_folders,
    reporting,
    strategies,
    training,
)
from bert_tf.tasks import pretraining
from run_scripts import common_flags, training_flags
from tfrecords import batches, records, vocab, whole_files

FLAGS = flags.FlagValues()
common_flags.define_vocabulary(FLAGS)
training_flags.define_model(FLAGS)
training_flags.define_training(FLAGS, learning_rate=1e-4, train_batch_size=32)
flags.DEFINE_string(
    "input_file",
    None,
    "Records to train on: a folder that make_pretraining_records wrote, or "
    "TFRecord files of the original as comma-separated globs.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "eval_input_file",
    None,
    "Records to evaluate on, at every checkpoint and at the end.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "max_seq_length",
    None,
    "Tokens in an example; default: what the records' manifest says.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "max_predictions_per_seq",
    None,
    "Masked places in an example; default: what the manifest says.",
    flag_values=FLAGS,
)
flags.DEFINE_bool("do_train", True, "Whether to train.", flag_values=FLAGS)
flags.DEFINE_bool("do_eval", True, "Whether to evaluate.", flag_values=FLAGS)
flags.DEFINE_integer(
    "num_train_steps",
    100000,
    "Optimizer steps at the end of the run.",
    lower_bound=1,
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "num_warmup_steps",
    10000,
    "Optimizer steps until the peak of the learning rate.",
    lower_bound=0,
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "max_eval_steps",
    0,
    "Evaluation batches to stop after; 0 for all.",
    lower_bound=0,
    flag_values=FLAGS,
)
common_flags.require(FLAGS, "output_dir")


def find_sizes(found: records.Records) -> dict[str, int]:
    """Returns the sizes of examples, from flags or else from the manifest."""
    sizes = dict(found.manifest.sizes) if found.manifest else {}
    for name in ("max_seq_length", "max_predictions_per_seq"):
        if FLAGS[name].value is not None:
            sizes[name] = FLAGS[name].value
        if name not in sizes:
            raise ValueError(
                f"These records have no manifest, so --{name} is needed: the "
                "value they were made with."
            )
    return sizes


def vocabulary_digest(model_dir: str | None) -> str | None:
    """Returns the sha256 of the vocabulary that all records must share.

    That of --vocab_file, else the one kept with the model to begin with, else
    the one that the training records were made with.
    """
    kept = model_dir and os.path.join(model_dir, model_folders.VOCABULARY)
    for path in (FLAGS.vocab_file, kept):
        if path and os.path.exists(path):
            return vocab.digest(path)
    manifest = records.Records.open(
        FLAGS.input_file or FLAGS.eval_input_file
    ).manifest
    return manifest.vocabulary["sha256"] if manifest else None


def open_records(path, sizes, config, sha256) -> records.Records:
    """Opens records and checks that the model can read them."""
    found = records.Records.open(path)
    found.check(pretraining.TASK.schema, sizes, vocab_sha256=sha256)
    made_with = found.manifest.vocabulary["size"] if found.manifest else 0
    if made_with > config.vocab_size:
        raise ValueError(
            f"{path} was made with a vocabulary of {made_with} entries; the "
            f"model has only vocab_size={config.vocab_size}. Make the records "
            "with the vocabulary of the model."
        )
    if sizes["max_seq_length"] > config.max_position_embeddings:
        raise ValueError(
            f"{path} has examples of {sizes['max_seq_length']} tokens; the "
            "model reads at most max_position_embeddings="
            f"{config.max_position_embeddings}. Make them shorter."
        )
    return found


def vocabulary_size() -> int | None:
    """Returns the entries of --vocab_file, or of the records' vocabulary."""
    if FLAGS.vocab_file:
        return len(vocab.read(FLAGS.vocab_file))
    manifest = records.Records.open(
        FLAGS.input_file or FLAGS.eval_input_file
    ).manifest
    return manifest.vocabulary["size"] if manifest else None


def make_evaluate(model, held_out, sizes):
    """Returns step -> held-out metrics, which it logs and writes."""
    step_function = evaluation.make_evaluation_step(pretraining.TASK, model)

    def held_out_batches():
        return batches.evaluation_batches(
            held_out,
            pretraining.TASK.schema,
            sizes,
            batch_size=FLAGS.eval_batch_size,
            vocab_size=model.config.vocab_size,
        ).take(FLAGS.max_eval_steps or -1)

    # What a model reaches that only knows how often each token occurs.
    unigram_accuracy = pretraining.unigram_accuracy(
        held_out_batches(), model.config.vocab_size
    )
    writer = reporting.Writer(
        os.path.join(FLAGS.output_dir, "logs", "eval"),
        checkpoints.newest_step(FLAGS.output_dir),
    )

    def evaluate(step: int) -> dict[str, float]:
        values = evaluation.evaluate(step_function, held_out_batches())
        values["unigram_accuracy"] = unigram_accuracy
        logging.info(
            "held out, step %d  %s", step, reporting.format_values(values)
        )
        writer.write(step, values)
        whole_files.write_json(
            os.path.join(FLAGS.output_dir, "eval_results.json"),
            {"step": step} | values,
        )
        return values

    return evaluate


def evaluated_step() -> int | None:
    """Returns the step that eval_results.json is of, if there is one."""
    path = os.path.join(FLAGS.output_dir, "eval_results.json")
    return whole_files.read_json(path)["step"] if os.path.exists(path) else None


def run_settings(config, sizes, found: records.Records) -> dict:
    """Returns what makes this run this run, for run.json."""
    return {
        "task": "pretraining",
        "config": config.to_dict(),
        "sizes": sizes,
        "records": found.manifest.digest if found.manifest else found.paths,
        "init_checkpoint": FLAGS.init_checkpoint,
        "num_train_steps": FLAGS.num_train_steps,
        "num_warmup_steps": FLAGS.num_warmup_steps,
    } | training_flags.run_settings(FLAGS)


def train(model, strategy, found, sizes, settings, evaluate) -> None:
    """Trains to --num_train_steps."""

    def training_batches(batch_size, start_batch):
        return batches.training_batches(
            found,
            pretraining.TASK.schema,
            sizes,
            batch_size=batch_size,
            seed=FLAGS.seed,
            start_batch=start_batch,
            vocab_size=model.config.vocab_size,
        )

    training.train(
        pretraining.TASK,
        model,
        training_batches,
        strategy=strategy,
        settings=settings,
        description={
            "task": "pretraining",
            "do_lower_case": FLAGS.do_lower_case,
            "max_seq_length": sizes["max_seq_length"],
        },
        vocab_file=FLAGS.vocab_file,
        tokens_per_example=sizes["max_seq_length"],
        num_train_steps=FLAGS.num_train_steps,
        num_warmup_steps=FLAGS.num_warmup_steps,
        on_checkpoint=evaluate,
        **training_flags.training_keywords(FLAGS),
    )


def main(argv: list[str]) -> None:
    """Trains and evaluates as the flags say."""
    common_flags.parse(FLAGS, argv, __doc__)
    do_train = FLAGS.do_train and FLAGS.input_file
    do_eval = FLAGS.do_eval and FLAGS.eval_input_file
    if not do_train and not do_eval:
        raise ValueError(
            "Nothing to do: give --input_file=RECORDS to train, "
            "--eval_input_file=RECORDS to evaluate, or both."
        )
    strategy = strategies.make_strategy(
        FLAGS.distribution_strategy, FLAGS.virtual_devices
    )
    source = FLAGS.init_checkpoint
    if not do_train:
        source = source or FLAGS.output_dir
    model_dir = source and checkpoints.find(source)
    config = training_flags.find_config(FLAGS, vocabulary_size(), model_dir)
    sizes = find_sizes(
        records.Records.open(FLAGS.input_file or FLAGS.eval_input_file)
    )
    sha256 = vocabulary_digest(model_dir)
    train_set = do_train and open_records(
        FLAGS.input_file, sizes, config, sha256
    )
    held_out = do_eval and open_records(
        FLAGS.eval_input_file, sizes, config, sha256
    )
    if do_train:
        # Before anything is written: the folder may hold another run.
        settings = run_settings(config, sizes, train_set)
        has_begun = checkpoints.newest_step(FLAGS.output_dir) > 0
        training.check_run(FLAGS.output_dir, settings, has_begun=has_begun)
        training_flags.write_run_flags(FLAGS, FLAGS.output_dir)
    model = training.build_model(
        pretraining.TASK,
        config,
        strategy,
        seed=FLAGS.seed,
        precision=FLAGS.precision,
    )
    if model_dir:
        model_folders.load_weights(model, model_dir)
    evaluate = make_evaluate(model, held_out, sizes) if do_eval else None
    if do_train:
        train(model, strategy, train_set, sizes, settings, evaluate)
    step = FLAGS.num_train_steps if do_train else checkpoints.step_of(model_dir)
    # A finished run may be given records to evaluate on afterwards.
    if do_eval and not (do_train and evaluated_step() == step):
        evaluate(step)


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()

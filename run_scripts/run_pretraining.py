r"""Pre-training records -> a pre-trained model, and its held-out metrics.

    python -m run_scripts.run_pretraining \
      --input_file=records/train --eval_input_file=records/held_out \
      --vocab_file=vocab.txt --bert_config_name=tiny \
      --output_dir=runs/tiny --num_train_steps=10000 --num_warmup_steps=1000

The same command goes on from the last checkpoint when it was stopped.
"""

import functools
import os

from absl import flags, logging

from bert_tf.tasks import pretraining
from bert_tf.training import (
    checkpoints,
    evaluation,
    loop,
    model_folders,
    reporting,
    run_folder,
    strategies,
)
from bert_tf.workflows import pretraining_kinds, run_history, training_phases
from run_scripts import run_checks
from run_scripts.flags import (
    common_flags,
    model_flags,
    pretraining_flags,
    training_flags,
)
from tfrecords.io import atomic_files, records
from tfrecords.reading import batches

FLAGS = flags.FlagValues()
common_flags.define_vocabulary(FLAGS)
model_flags.define_model(FLAGS)
training_flags.define_training(FLAGS, learning_rate=1e-4, train_batch_size=32)
pretraining_flags.define_records(FLAGS)
pretraining_flags.define_objective(FLAGS)
flags.DEFINE_bool("do_train", True, "Whether to train.", flag_values=FLAGS)
flags.DEFINE_bool("do_eval", True, "Whether to evaluate.", flag_values=FLAGS)
pretraining_flags.define_steps(FLAGS)
run_checks.define_quick(FLAGS)
common_flags.require(FLAGS, "output_dir")


def make_evaluate(model, held_out, sizes):
    """Returns step -> held-out metrics, which it logs and writes."""
    config = model.config
    task = pretraining_kinds.task_of(held_out, config)
    step_function = evaluation.make_evaluation_step(task, model)

    def held_out_batches():
        return batches.evaluation_batches(
            held_out,
            pretraining_kinds.features_of(held_out, config),
            sizes,
            batch_size=FLAGS.eval_batch_size,
            vocab_size=config.vocab_size,
        ).take(FLAGS.max_eval_steps or -1)

    # What a model reaches that only knows how often each token occurs.
    unigram_accuracy = pretraining.unigram_accuracy(
        held_out_batches(), config.vocab_size, task
    )

    @functools.cache
    def writer() -> reporting.Writer:
        # Made only when the run has gone back to a whole checkpoint.
        return reporting.Writer(
            os.path.join(FLAGS.output_dir, "logs", "eval"),
            checkpoints.newest_step(FLAGS.output_dir),
        )

    def evaluate(step: int) -> dict[str, float]:
        values = evaluation.evaluate(step_function, held_out_batches())
        values["perplexity"] = pretraining.perplexity(values)
        values["unigram_accuracy"] = unigram_accuracy
        logging.info(
            "held out, step %d  %s", step, reporting.format_values(values)
        )
        writer().write(step, values)
        atomic_files.write_json(
            os.path.join(FLAGS.output_dir, "eval_results.json"),
            evaluation_of(step, held_out) | values,
        )
        return values

    return evaluate


def evaluation_of(step: int, held_out) -> dict:
    """Returns what eval_results.json begins with: what it is the result of."""
    return {
        "step": step,
        "records": pretraining_flags.digest(held_out),
        "max_eval_steps": FLAGS.max_eval_steps,
    }


def is_evaluated(step: int, held_out) -> bool:
    """Returns whether eval_results.json is of this step and these records."""
    path = os.path.join(FLAGS.output_dir, "eval_results.json")
    if not os.path.exists(path):
        return False
    found = atomic_files.read_json(path)
    wanted = evaluation_of(step, held_out)
    return all(found.get(name) == value for name, value in wanted.items())


def run_settings(config, phases) -> dict:
    """Returns what makes this run this run, for run.json."""
    digests = [pretraining_flags.digest(phase.records) for phase in phases]
    sizes = [phase.sizes for phase in phases]
    settings = {
        "task": "pretraining",
        "config": config.to_dict(),
        "sizes": sizes[0],
        "records": digests[0],
        "init_checkpoint": FLAGS.init_checkpoint,
        "num_train_steps": FLAGS.num_train_steps,
        "num_warmup_steps": FLAGS.num_warmup_steps,
    }
    if len(phases) > 1:
        steps = [phase.num_steps for phase in phases]
        settings |= {"sizes": sizes, "records": digests, "phases": steps}
    return settings | training_flags.run_settings(FLAGS)


def load_weights(model, folder: str, do_train: bool, held_out) -> None:
    """Loads a pre-trainer's weights; of another model its encoder alone.

    Raises:
      ValueError: if weights that were never trained, or trained on pairs of
        another kind, would be evaluated, or model.json says no task.
    """
    papers = model_folders.read_metadata(folder)
    task, absent = papers["task"], papers.get("not_in_source", ())
    if not do_train and (task != "pretraining" or absent):
        raise ValueError(
            f"{folder} is of task {task}"
            + f", without {', '.join(absent)}" * bool(absent)
            + ": its heads for pre-training were never trained. Train them "
            "with --do_train and --input_file."
        )
    if not do_train:
        pretraining_kinds.check_labels(papers, folder, held_out)
    if task == "pretraining":
        model_folders.load_weights(model, folder)
    else:
        logging.info("%s is of task %s: heads begin anew", folder, task)
        model_folders.load_encoder(model, folder)


def train(model, strategy, phases, settings, vocabulary, evaluate) -> None:
    """Trains to --num_train_steps; `vocabulary` is a file, and its case."""
    vocab_file, do_lower_case = vocabulary
    lengths = [phase.sizes["max_seq_length"] for phase in phases]
    loop.train(
        pretraining_kinds.task_of(phases[0].records, model.config),
        model,
        [
            training_phases.make_phase(
                phase.records,
                pretraining_kinds.features_of(phase.records, model.config),
                phase.sizes,
                num_steps=phase.num_steps,
                vocab_size=model.config.vocab_size,
                batch_size=FLAGS.train_batch_size,
                seed=FLAGS.seed,
            )
            for phase in phases
        ],
        strategy=strategy,
        settings=settings,
        metadata={
            "task": "pretraining",
            "do_lower_case": do_lower_case,
            "max_seq_length": max(lengths),
            **pretraining_kinds.papers_of(phases[0].records),
        },
        vocab_file=vocab_file,
        num_warmup_steps=FLAGS.num_warmup_steps,
        on_checkpoint=evaluate,
        **training_flags.training_keywords(FLAGS),
    )


def prepare(do_train, do_eval, model_dir):
    """Opens and checks all that the flags name, before anything is made.

    Returns:
      The BertConfig; the vocabulary's path and case; the phases of training;
      the held-out records and their sizes.
    """
    vocabulary = model_flags.find_vocabulary(FLAGS, model_dir)
    config = model_flags.find_config(
        FLAGS,
        pretraining_flags.vocabulary_size(FLAGS, vocabulary[0]),
        model_dir,
    )
    config = pretraining_flags.with_objective(FLAGS, config)
    sha256 = pretraining_flags.vocabulary_digest(FLAGS, vocabulary[0])
    phases, held_out, sizes = [], None, None
    if do_train:
        phases = pretraining_flags.open_phases(FLAGS, config, sha256)
    if do_eval:
        found = records.Records.open(FLAGS.eval_input_file)
        sizes = pretraining_flags.find_sizes(FLAGS, found)
        held_out = pretraining_flags.open_records(
            FLAGS.eval_input_file, sizes, config, sha256
        )
    opened = [phase.records for phase in phases]
    both = opened + [held_out] * bool(do_eval)
    for found in both:
        pretraining_kinds.features_of(found, config)  # Or says why not.
    pretraining_kinds.check_pairs(both)
    run_checks.refuse_bad(FLAGS, opened, config, vocabulary[0])
    return config, vocabulary, phases, held_out, sizes


def train_and_evaluate(
    strategy, model_dir, config, vocabulary, phases, held_out, sizes
) -> None:
    """Does what `prepare` found to do: without phases, evaluates alone."""
    is_chief = strategies.is_chief(strategy)
    if phases:
        # Before anything is written: the folder may hold another run.
        settings = run_settings(config, phases)
        run_folder.check(FLAGS.output_dir, settings, is_chief=is_chief)
        if is_chief:
            run_history.write_flag_values(
                FLAGS, "run_pretraining", FLAGS.output_dir
            )
    model = loop.build_model(
        pretraining.TASK,
        config,
        strategy,
        training_flags.find_config(FLAGS),
    )
    if model_dir:
        load_weights(model, model_dir, bool(phases), held_out)
    evaluate = None
    if held_out and is_chief:
        evaluate = make_evaluate(model, held_out, sizes)
    if phases:
        train(model, strategy, phases, settings, vocabulary, evaluate)
    step = FLAGS.num_train_steps if phases else checkpoints.step_of(model_dir)
    # A finished run may be given records, or others, to evaluate on afterwards.
    if evaluate and not (phases and is_evaluated(step, held_out)):
        evaluate(step)


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
    strategy = training_flags.make_strategy(FLAGS, bool(do_train))
    # From the first file to the last: a second run would cut this one's logs.
    with run_folder.open_run(FLAGS.output_dir, strategy):
        model_dir = strategies.chief_first(
            strategy, lambda: model_flags.find_init_checkpoint(FLAGS)
        )
        if not (do_train or model_dir):
            model_dir = checkpoints.find(FLAGS.output_dir)
        prepared = prepare(do_train, do_eval, model_dir)
        train_and_evaluate(strategy, model_dir, *prepared)


def run() -> None:
    """Runs `main` as a console command."""
    common_flags.run(main)


if __name__ == "__main__":
    run()

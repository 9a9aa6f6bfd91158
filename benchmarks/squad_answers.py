r"""SQuAD windows, logits -> seconds to choose answers, here and in BERT's code.

    python -m benchmarks.squad_answers \
      --data_file=squad/train-v1.1.json --vocab_file=vocab.txt \
      --original_dir=bert

Everything runs on one core, and seconds are CPU seconds, which other processes
do not affect. Ours is `squad_answers.choose`, which run_squad and exports use.
The original is write_predictions of run_squad.py (google-research/bert) in
--original_dir, on --original_questions questions; its time is also printed for
as many windows as ours. Neither writes the answers to a file. Logits are random
with a peak in each window, like those of a trained model.
"""

import contextlib
import os
import sys
import tempfile
import time
import types

import numpy as np
from absl import flags, logging

from run_scripts.flags import common_flags
from tfrecords.text.vocab import VocabularyOptions

FLAGS = flags.FlagValues()
common_flags.define(FLAGS, VocabularyOptions, do_lower_case=True)
flags.DEFINE_string("data_file", None, "SQuAD JSON.", flag_values=FLAGS)
flags.DEFINE_bool(
    "version_2_with_negative",
    False,
    "Whether the data is SQuAD 2.0.",
    flag_values=FLAGS,
)
flags.DEFINE_string(
    "original_dir",
    None,
    "Folder with run_squad.py and tokenization.py of the original, timed if "
    "given.",
    flag_values=FLAGS,
)
flags.DEFINE_integer(
    "num_windows", 10000, "Minimum number of windows.", flag_values=FLAGS
)
flags.DEFINE_integer(
    "original_questions", 1000, "Questions for the original.", flag_values=FLAGS
)
common_flags.require(FLAGS, "data_file", "vocab_file")

_LENGTH = 384


def make_logits(num_windows: int, seed: int) -> np.ndarray:
    """Returns [2, W, S] float32: noise with a peak in each window."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(2, num_windows, _LENGTH))
    peaks = rng.integers(20, 200, num_windows)
    distances = np.abs(np.arange(_LENGTH) - peaks[:, None])
    return (logits + np.maximum(0, 8 - 0.4 * distances)).astype(np.float32)


def time_ours(questions, tokenizer, settings) -> tuple[int, float, float]:
    """Returns the windows, the seconds to make them and to choose answers."""
    import tensorflow as tf

    from bert_tf.tasks import squad_answers
    from tfrecords.tasks import squad_examples

    choose = tf.function(
        lambda *arguments: squad_answers.choose(
            *arguments,
            version_2_with_negative=settings.version_2_with_negative,
        ),
        autograph=False,
        reduce_retracing=True,
    )
    make_chunks = squad_examples.chunk_maker(tokenizer, settings)
    for timed in (False, True):  # The first pass traces.
        windows, chosen = 0, 0.0
        begin = time.process_time()
        for number, chunk in enumerate(make_chunks(questions)):
            count = len(chunk.windows.question)
            logits = make_logits(count, number)
            started = time.process_time()
            answers = choose(
                tf.nest.map_structure(tf.constant, chunk.windows),
                *map(tf.constant, logits),
                tf.constant([q.passage for q in chunk.questions]),
            )
            answers.texts.numpy()
            chosen += time.process_time() - started
            windows += count
            if windows >= (FLAGS.num_windows if timed else 600):
                break
        rest = time.process_time() - begin - chosen
    return windows, rest, chosen


@contextlib.contextmanager
def original(folder: str):
    """Yields the original's module run_squad, with its default flags."""
    import tensorflow.compat.v1 as tf1

    values: dict = {}
    stub = types.ModuleType("tensorflow")
    for name in dir(tf1):
        with contextlib.suppress(Exception):
            setattr(stub, name, getattr(tf1, name))

    def define(name, default, *_, **__):
        values[name] = default

    kinds = ("string", "bool", "integer", "float")
    stub.flags = types.SimpleNamespace(
        FLAGS=types.SimpleNamespace(),
        **{f"DEFINE_{kind}": define for kind in kinds},
    )
    stub.logging = types.SimpleNamespace(
        info=lambda *_: None, warning=lambda *_: None
    )
    names = ("tensorflow", "modeling", "optimization")
    kept = {name: sys.modules.get(name) for name in names}
    sys.modules |= {name: types.ModuleType(name) for name in names}
    sys.modules["tensorflow"] = stub
    sys.path.insert(0, folder)
    try:
        import run_squad

        vars(run_squad.FLAGS).update(values)
        yield run_squad
    finally:
        sys.path.remove(folder)
        for name, module in kept.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module


def time_original(run_squad, path: str, do_lower_case: bool):
    """Returns the number of windows, and seconds to select answers."""
    run_squad.FLAGS.version_2_with_negative = FLAGS.version_2_with_negative
    tokenizer = run_squad.tokenization.FullTokenizer(
        vocab_file=FLAGS.vocab_file, do_lower_case=do_lower_case
    )
    examples = run_squad.read_squad_examples(path, is_training=False)
    features: list = []
    examples = examples[: FLAGS.original_questions]
    run_squad.convert_examples_to_features(
        examples, tokenizer, _LENGTH, 128, 64, False, features.append
    )
    start, end = make_logits(len(features), 0)
    results = [
        run_squad.RawResult(
            feature.unique_id, start[i].tolist(), end[i].tolist()
        )
        for i, feature in enumerate(features)
    ]
    # Three files of JSON that ours does not write either.
    run_squad.json = types.SimpleNamespace(dumps=lambda *_, **__: "")
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ("p", "n", "o")]
        begin = time.process_time()
        run_squad.write_predictions(
            examples, features, results, 20, 30, do_lower_case, *files
        )
        return len(features), time.process_time() - begin


def main(argv: list[str]) -> None:
    """Times both and logs the seconds for the same number of windows."""
    common_flags.parse(FLAGS, argv, __doc__)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import tensorflow as tf

    from tfrecords.tasks import squad_examples, squad_files
    from tfrecords.text import tokenizer as tokenizer_lib

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    is_version_2 = FLAGS.version_2_with_negative
    questions = squad_files.read_questions(
        FLAGS.data_file,
        version_2_with_negative=is_version_2,
        is_training=False,
    )
    while len(questions) < FLAGS.num_windows:
        questions = questions * 2
    tokenizer = tokenizer_lib.BertTokenizer(
        FLAGS.vocab_file, FLAGS.do_lower_case
    )
    windows, made, chosen = time_ours(
        questions,
        tokenizer,
        squad_examples.Settings(version_2_with_negative=is_version_2),
    )
    logging.info(
        "ours      windows %d  answers %.2f s  (plus making the windows and "
        "logits, %.2f s)",
        windows,
        chosen,
        made,
    )
    if FLAGS.original_dir:
        with original(FLAGS.original_dir) as run_squad:
            count, seconds = time_original(
                run_squad, FLAGS.data_file, FLAGS.do_lower_case
            )
        logging.info(
            "original  windows %d  answers %.2f s  (scaled: %.1f s for %d)",
            count,
            seconds,
            seconds / count * windows,
            windows,
        )


if __name__ == "__main__":
    common_flags.run(main)

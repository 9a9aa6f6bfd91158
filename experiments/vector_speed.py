"""Vectors of texts, ours and sentence-transformers' -> ratios of their times.

What is timed, in turns, each in its own process that waits while the other
runs: a training step of pairs with in-batch negatives (gradient clipping at 1,
AdamW), on random ids without padding, 12,96 for first texts of 12 and second
ones of 96 tokens; and the vectors of the lines of a file, from text on. Needs
`make parity`'s environment.

    python -m experiments.vector_speed --init_checkpoint=... \
      --lengths=64,64 --lengths=12,96 --texts=sentences.txt
"""

import os
import statistics
import subprocess
import sys
import time

import numpy as np
from absl import app, flags

_MODEL = flags.DEFINE_string("init_checkpoint", None, "Sentence model.")
_LENGTHS = flags.DEFINE_multi_string("lengths", [], "Of the texts of a row.")
_TEXTS = flags.DEFINE_multi_string("texts", [], "Files, a text in each line.")
_ROWS = flags.DEFINE_integer("rows", 32, "Of a batch of training.")
_ROUNDS = flags.DEFINE_integer("rounds", 15, "Turns of each.")
_WORKER = flags.DEFINE_string("worker", None, "ours or theirs, to be timed.")


def random_ids(lengths: list[int]) -> list[np.ndarray]:
    """Returns [B, S] int32 for each text, with [CLS] and [SEP]."""
    generator = np.random.default_rng(0)
    found = []
    for length in lengths:
        ids = generator.integers(1000, 30000, (_ROWS.value, length))
        ids[:, 0], ids[:, -1] = 101, 102
        found.append(ids)
    return found


def our_step(lengths: list[int]):
    """Returns a function that trains once, as run_embeddings does."""
    import tensorflow as tf

    from bert_tf.tasks.retrieval import embeddings, options
    from bert_tf.training import loop, optimizers, strategies
    from bert_tf.workflows import configs, fine_tuning, initial_model

    config = configs.FineTuningConfig(
        output_dir="unused",
        do_train=True,
        init_checkpoint=_MODEL.value,
        learning_rate=2e-5,
        train_batch_size=_ROWS.value,
        max_seq_length=max(lengths),
        precision="float32",
    ).with_defaults()
    data = options.EmbeddingData(
        train_file=sys.argv[0], text_column=("a", "b", "c")[: len(lengths)]
    )
    task = embeddings.Embeddings(data)
    task.first_lengths = lengths[0], None  # As its records say.
    strategy = strategies.make_strategy("one_device")
    source = initial_model.open_model(config, config.output_dir, True)
    task.use_source(source)
    of_model = fine_tuning.choose_config(task, config, 30522, source)
    model = loop.build_model(task, of_model, strategy, config)
    initial_model.load_initial_weights(source, model)
    schedule = optimizers.WarmupDecay(config.learning_rate, 10**9)
    step = loop.make_step(task, model, config, strategy, schedule)
    ids = np.zeros((_ROWS.value, len(lengths), max(lengths)), np.int32)
    for number, text in enumerate(random_ids(lengths)):
        ids[:, number, : lengths[number]] = text
    batch = {
        "input_word_ids": tf.constant(ids),
        "input_mask": tf.constant(np.int32(ids > 0)),
        "input_type_ids": tf.zeros_like(ids),
        "is_real_example": tf.ones([_ROWS.value]),
    }
    return lambda: float(step(batch)["loss"][0])


def their_step(lengths: list[int]):
    """Returns a function that trains once, on torch."""
    import sentence_transformers
    import torch
    from sentence_transformers import losses

    model = sentence_transformers.SentenceTransformer(
        _MODEL.value, device="cpu"
    ).train()
    loss = losses.MultipleNegativesRankingLoss(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
    texts = [torch.tensor(ids, dtype=torch.long) for ids in random_ids(lengths)]

    def run():
        features = [
            {
                "input_ids": ids,
                "attention_mask": torch.ones_like(ids),
                "token_type_ids": torch.zeros_like(ids),
            }
            for ids in texts
        ]
        value = loss(features, None)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return float(value)

    return run


def our_vectors(texts: list[str]):
    """Returns a function that computes the vectors, as bert-embed does."""
    from bert_tf.workflows.features import embedding

    options = embedding.VectorOptions(model_dir=_MODEL.value)
    _, embed = embedding.open_embedder(options)
    return lambda: float(np.abs(embed(texts)).sum())


def their_vectors(texts: list[str]):
    """Returns a function that computes the vectors, on torch."""
    import sentence_transformers

    model = sentence_transformers.SentenceTransformer(
        _MODEL.value, device="cpu"
    )
    return lambda: float(np.abs(model.encode(texts, batch_size=64)).sum())


def work(who: str) -> None:
    """Warms up, then runs once for each line of stdin; prints seconds."""
    if _LENGTHS.value:
        lengths = [int(x) for x in _LENGTHS.value[0].split(",")]
        make = {"ours": our_step, "theirs": their_step}[who]
        run = make(lengths)
    else:
        with open(_TEXTS.value[0]) as file:
            texts = file.read().splitlines()
        make = {"ours": our_vectors, "theirs": their_vectors}[who]
        run = make(texts)
    value = run()
    run()
    print("ready", value, flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter()
        run()
        print("time", time.perf_counter() - begin, flush=True)


def compare(word: str) -> None:
    """Prints the medians of both, and of the ratios of each round."""
    names = ("ours", "theirs")
    common = [f"--init_checkpoint={_MODEL.value}", f"--rows={_ROWS.value}"]
    workers = {
        name: subprocess.Popen(
            [sys.executable, "-m", "experiments.vector_speed", word]
            + [f"--worker={name}", *common],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
        )
        for name in names
    }

    def read(name: str, kind: str) -> float:
        for line in workers[name].stdout:
            if line.startswith(kind):
                return float(line.split()[1])
        raise RuntimeError(f"{name} ended")

    values = {name: read(name, "ready") for name in names}
    seconds = {name: [] for name in names}
    for number in range(_ROUNDS.value):
        for name in names if number % 2 else names[::-1]:
            time.sleep(0.1)  # Idle threads spin for some milliseconds.
            workers[name].stdin.write("\n")
            workers[name].stdin.flush()
            seconds[name].append(read(name, "time"))
    for worker in workers.values():
        worker.kill()
    ratios = np.divide(seconds["theirs"], seconds["ours"])
    print(
        word,
        *(f"{n} {statistics.median(seconds[n]):.3f} s" for n in names),
        f"ratio {np.median(ratios):.2f} ({ratios.min():.2f} to "
        f"{ratios.max():.2f}); loss or sum {values}",
        flush=True,
    )


def main(_):
    """Compares all, or is one of two processes that are compared."""
    if _WORKER.value:
        work(_WORKER.value)
        return
    for lengths in _LENGTHS.value:
        compare(f"--lengths={lengths}")
    for path in _TEXTS.value:
        compare(f"--texts={path}")


if __name__ == "__main__":
    app.run(main)

"""Small configs, vocabularies, folders -> fixtures for every test."""

import functools
import os
import pathlib
import random
import shutil
import signal

# pytest imports it where it handles errors of objects that are freed. More may
# be freed meanwhile: "partially initialized module 'tracemalloc'" at times.
import tracemalloc  # noqa: F401

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Scripts that run in the process of the tests must not set it for training.
os.environ["TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"] = "0"

import filelock
import numpy as np
import pytest

DATA = pathlib.Path(__file__).parent / "data"


def pytest_addoption(parser) -> None:
    parser.addoption(
        "--shuffle",
        type=int,
        metavar="SEED",
        help="run the files in an order shuffled by this seed",
    )


def pytest_report_header(config):
    seed = config.getoption("shuffle")
    return None if seed is None else f"order of files: --shuffle={seed}"


def pytest_collection_modifyitems(config, items) -> None:
    seed = config.getoption("shuffle")
    if seed is None:
        return
    files = sorted({item.path for item in items})
    random.Random(seed).shuffle(files)
    places = {path: place for place, path in enumerate(files)}
    items.sort(key=lambda item: places[item.path])


@pytest.fixture(autouse=True, scope="session")
def default_signals() -> None:
    """Tests send signals that `nohup` and shells in the background ignore."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def shared_data() -> pathlib.Path:
    """Folder of real data next to the checkout; skips the test without it."""
    folder = pathlib.Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data at ../shared/data beside {DATA.parents[1]}")
    return folder


@pytest.fixture(scope="session")
def tiny_vocab_file() -> str:
    """Path of a vocabulary with the words of tests/data."""
    return str(DATA / "vocab.txt")


@pytest.fixture(scope="session")
def tiny_config():
    """Config of a small BERT with two layers."""
    from bert_tf import config

    return config.BertConfig(
        vocab_size=len((DATA / "vocab.txt").read_text().splitlines()),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )


def random_batch(config, rows=4, tokens=12, predictions=3, seed=0):
    """Returns a random pre-training batch, in which some rows are padded."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(predictions + 1, tokens + 1, rows)
    lengths[0] = tokens
    mask = (np.arange(tokens) < lengths[:, None]).astype(np.int32)
    weights = rng.integers(0, 2, (rows, predictions))
    weights[0] = 1

    def ids(shape, high=config.vocab_size):
        return rng.integers(0, high, shape, np.int32)

    return {
        "input_word_ids": ids((rows, tokens)) * mask,
        "input_mask": mask,
        "input_type_ids": ids((rows, tokens), 2),
        "masked_lm_positions": ids((rows, predictions), lengths[:, None]),
        "masked_lm_ids": ids((rows, predictions)),
        "masked_lm_weights": weights.astype(np.float32),
        "next_sentence_labels": ids(rows, 2),
        "is_real_example": np.ones(rows, np.float32),
    }


@pytest.fixture(scope="session")
def make_batch():
    """`random_batch`, for tests that cannot import this file."""
    return random_batch


def batches_of(examples, batch_size):
    """Returns a `loop.Phase.batches` function that repeats a few examples."""
    import tensorflow as tf

    def make(start_batch, replicas=1, first_replica=0, local_replicas=1):
        dataset = tf.data.Dataset.from_tensor_slices(examples).repeat()
        dataset = dataset.batch(batch_size // replicas, drop_remainder=True)
        parts = dataset.skip(start_batch * replicas).enumerate()
        last = first_replica + local_replicas
        return parts.filter(
            lambda i, _: (i % replicas >= first_replica) & (i % replicas < last)
        ).map(lambda _, part: part)

    return make


@pytest.fixture(scope="session")
def make_batches():
    """`batches_of`, for tests that cannot import this file."""
    return batches_of


@pytest.fixture(scope="session")
def tiny_model_flags(tmp_path_factory, tiny_config, tiny_vocab_file):
    """Flags of a run from scratch with `tiny_config`, for every script."""
    path = tmp_path_factory.mktemp("config") / "bert_config.json"
    tiny_config.to_json_file(path)
    return [f"--vocab_file={tiny_vocab_file}", f"--bert_config_file={path}"]


@pytest.fixture(scope="session")
def squad_tokenizer(tmp_path_factory):
    """Tokenizer with the vocabulary of `planted_squad`."""
    import planted_squad

    from tfrecords.text import tokenizer

    folder = tmp_path_factory.mktemp("vocab")
    return tokenizer.BertTokenizer(planted_squad.write_vocab(folder))


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """(name, make) -> a folder that `make(folder)` fills once a session.

    All workers of pytest-xdist share it: a test that changes it copies it.
    """
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # Holds one base folder per worker.
    root = root / "shared"
    root.mkdir(exist_ok=True)

    def made(name, make):
        folder, done = root / name, root / f"{name}.done"
        with filelock.FileLock(root / f"{name}.lock"):
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return made


@pytest.fixture(scope="session")
def pretraining_records(made_once):
    """Folder of `train` and `held_out`, made of data/sentences.txt."""

    def make(folder):
        import run_processes

        from run_scripts import make_pretraining_records

        words = run_processes.record_arguments(folder, dupe_factor=3)
        make_pretraining_records.main(["make_pretraining_records", *words])

    return made_once("pretraining_records", make)


def _functions_run_eagerly():
    """Functions run eagerly: a few steps take less time than their graph.

    For tests of files, messages and restarts.
    """
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def eagerly():
    """Functions run eagerly in a test."""
    yield from _functions_run_eagerly()


@pytest.fixture(scope="module")
def eagerly_in_module():
    """Functions run eagerly in all tests of a module and what they share."""
    yield from _functions_run_eagerly()


@pytest.fixture(scope="session")
def c_program(made_once):
    """Path of the C program of c_loader, compiled once."""
    import c_loader

    return made_once("c", c_loader.compile_program) / c_loader.PROGRAM


@pytest.fixture(scope="session")
def exported(made_once):
    """Kind of export, more flags -> Export."""

    @functools.cache
    def export(kind: str, *words: str):
        import exports
        import tensorflow as tf

        path = str(exports.write_kind(made_once, kind, *words))
        model = exports.make_for(kind)
        return exports.Export(model, path, tf.saved_model.load(path))

    return export

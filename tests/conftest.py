"""Small configs, vocabularies, folders -> fixtures for every test."""

import functools
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import pytest

DATA = pathlib.Path(__file__).parent / "data"


@pytest.fixture
def shared_data() -> pathlib.Path:
    """Folder of real data beside the checkout; the test skips without it."""
    folder = pathlib.Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data at ../shared/data beside {DATA.parents[1]}")
    return folder


@pytest.fixture(scope="session")
def tiny_vocab_file() -> str:
    """A vocabulary that knows the words of tests/data."""
    return str(DATA / "vocab.txt")


@pytest.fixture(scope="session")
def tiny_config():
    """A BERT of two layers, quick on any machine."""
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


@pytest.fixture
def make_batch():
    """`random_batch`, for tests that cannot import this file."""
    return random_batch


def batches_of(examples, batch_size):
    """Returns what `loop.Phase.batches` is, over a few examples in turn."""
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


@pytest.fixture
def make_batches():
    """`batches_of`, for tests that cannot import this file."""
    return batches_of


@pytest.fixture(scope="session")
def tiny_model_flags(tmp_path_factory, tiny_config, tiny_vocab_file):
    """Flags of every runner that begins from scratch, with `tiny_config`."""
    path = tmp_path_factory.mktemp("config") / "bert_config.json"
    tiny_config.to_json_file(path)
    return [f"--vocab_file={tiny_vocab_file}", f"--bert_config_file={path}"]


@pytest.fixture(scope="session")
def c_program(tmp_path_factory):
    """The C program of c_loader, compiled once."""
    import c_loader

    return c_loader.compile_program(tmp_path_factory.mktemp("c"))


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """Kind of export, further flags -> Export."""
    root = tmp_path_factory.mktemp("exports")
    tasks = {
        "fill_mask": "pretraining",
        "encoder": "regression",
        "sentence_embedding": "pretraining",
        "question_answering": "spans",
    }
    # Nothing of these is said in model.json.
    settings = {
        "fill_mask": ("--top_k=3",),
        "question_answering": ("--max_query_length=12",),
    }

    @functools.cache
    def export(kind: str, *words: str):
        import exports
        import tensorflow as tf

        from run_scripts import export_savedmodel

        task = tasks.get(kind, kind)
        two_layers = kind in ("encoder", "sentence_embedding")
        model = exports.make_model(task, num_hidden_layers=1 + two_layers)
        # Biases that are not zero, as after training.
        rng = np.random.default_rng(2)
        for weight in model.trainable_variables:
            weight.assign_add(rng.normal(0.0, 0.1, weight.shape))
        name = "".join([kind, *words])
        exports.save_model(model, task, root / f"model_{name}")
        export_savedmodel.main(
            [
                "export_savedmodel",
                f"--model_dir={root / f'model_{name}'}",
                f"--export_dir={root / name}",
                f"--kind={kind if two_layers else 'auto'}",
                *settings.get(kind, ()),
                *words,
            ]
        )
        path = str(root / name)
        return exports.Export(model, path, tf.saved_model.load(path))

    return export

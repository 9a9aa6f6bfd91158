"""Installed peers run the same steps, with dropout; some only inference."""

import importlib.util

import pytest

from benchmarks import settings, turns, work

NEEDS = {
    "ours": "tensorflow",
    "model_garden": "official",
    "keras_hub": "keras_hub",
    "hugging_face": "transformers",
}
PEERS = ["model_garden", "keras_hub", "hugging_face"]


@pytest.fixture
def start():
    """Returns a function that starts a worker."""
    workers = []

    def starter(name, task, precision="float32", rate=1e-3, dropout=0.1):
        if importlib.util.find_spec(NEEDS[name]) is None:
            pytest.skip(f"{NEEDS[name]} is not installed")
        (found,) = settings.combinations(
            "tiny", [task], [32], [4], [precision], is_training=True
        )
        rates = ("hidden_dropout_prob", "attention_probs_dropout_prob")
        config = found.config | dict.fromkeys(rates, dropout)
        found = found._replace(config=config, learning_rate=rate)
        workers.append(turns.Worker(name, found))
        workers[-1].wait()
        workers[-1].ask(work.random_batch(found))
        return workers[-1]

    yield starter
    for worker in workers:
        worker.stop()


# Each starts a process that imports the peer: ten seconds.
@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("task", ["pretraining", "fine_tuning"])
@pytest.mark.parametrize("name", PEERS)
def test_the_loss_falls(start, name, task, precision):
    worker = start(name, task, precision)
    _, losses = worker.ask(20)
    first = 11.0 if task == "pretraining" else 0.7
    assert losses[0] == pytest.approx(first, abs=0.8)
    assert losses[-1] < 0.95 * losses[0]
    # Peers may have a second pooler or another bias.
    ours = {"pretraining": 4_433_468, "fine_tuning": 4_386_178}[task]
    assert ours <= worker.num_parameters <= ours + 50_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ours", *PEERS])
def test_dropout_is_active(start, name):
    _, losses = start(name, "fine_tuning", rate=0.0).ask(4)
    assert len(set(losses)) == 4
    _, losses = start(name, "fine_tuning", rate=0.0, dropout=0.0).ask(4)
    assert max(losses) - min(losses) < 1e-6

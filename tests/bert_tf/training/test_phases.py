import pytest

from bert_tf.training import phases, strategies


def parts(*steps):
    return [phases.Phase(num_steps=n, batches=None) for n in steps]


def test_calls_end_where_steps_per_loop_divides_and_at_phases_ends():
    found = list(phases.calls(0, 17, parts(10, 7), 4))
    assert found == [
        (0, 0, 4),
        (0, 4, 4),
        (0, 8, 2),
        (1, 10, 2),
        (1, 12, 4),
        (1, 16, 1),
    ]


@pytest.mark.parametrize("start", range(17))
def test_calls_cover_every_step_once_from_anywhere(start):
    found = list(phases.calls(start, 17, parts(10, 7), 4))
    steps = [b + i for _, b, n in found for i in range(n)]
    assert steps == list(range(start, 17))
    # The same calls as of a run that began at 0, once they have met.
    assert (
        found[1:]
        == list(phases.calls(0, 17, parts(10, 7), 4))[-len(found[1:]) or 17 :]
    )


def test_a_step_names_its_batch_by_the_phase():
    described = [
        phases.Phase(
            num_steps=n, batches=None, describe=f"batch {{}} of {n}".format
        )
        for n in (10, 7)
    ]
    steps = phases.Steps(None, None, described, False)
    assert steps.batch_of(1) == "step 1, batch 0 of 10"
    assert steps.batch_of(10) == "step 10, batch 9 of 10"
    assert steps.batch_of(11) == "step 11, batch 0 of 7"


def test_several_batches_of_a_call_are_stacked(
    tiny_config, make_batch, make_batches
):
    examples = make_batch(tiny_config, rows=12)
    phase = phases.Phase(num_steps=9, batches=make_batches(examples, 4))
    strategy = strategies.make_strategy("one_device")
    one = phases.distribute(strategy, phase, 2)
    both = next(phases.distribute(strategy, phase, 2, 2))
    for i in range(2):
        batch = next(one)
        for name, value in both.items():
            assert (value[i].numpy() == batch[name].numpy()).all(), name

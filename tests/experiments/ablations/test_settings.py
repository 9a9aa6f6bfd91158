import itertools

import pytest
from ablation_examples import make_settings

from experiments.ablations.tables import Model


def test_configs_have_the_sizes_of_their_models():
    settings = make_settings("runs")
    found = settings.config_of(Model(3, 768, 12)).to_dict()
    expected = {
        "num_hidden_layers": 3,
        "hidden_size": 768,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "norm_first": True,
        "hidden_dropout_prob": 0.0,
        "max_position_embeddings": 32,
    }
    assert found.items() >= expected.items() and "is_causal" not in found
    causal = Model(2, 192, 4, is_causal=True)
    assert settings.config_of(causal).is_causal
    path = settings.config_file(causal)
    assert path == "runs/configs/L-2_H-192_A-4_causal.json"


def test_narrow_models_start_with_larger_weights():
    settings = make_settings("runs")
    ranges = [settings.config_of(Model(2, width, 2)) for width in (40, 160)]
    # sqrt(2 / (5 H))
    assert [config.initializer_range for config in ranges] == [0.1, 0.05]


def test_a_fraction_of_the_steps_maps_to_a_checkpoint():
    settings = make_settings("runs", num_train_steps=10, num_checkpoints=3)
    assert settings.checkpoint_interval == 4
    steps = [settings.step_of(i / 3) for i in (1, 2, 3)]
    assert steps == [4, 8, 10]


def test_two_checkpoints_at_the_same_step_are_refused():
    def check(steps, points):
        settings = make_settings(
            "runs", num_train_steps=steps, num_checkpoints=points
        )
        taken = {settings.step_of(i / points) for i in range(1, points + 1)}
        assert len(taken) == points and max(taken) == steps

    with pytest.raises(ValueError, match="=10 and .*=7: with one every 2 ste"):
        check(10, 7)
    for steps, points in itertools.product(range(1, 31), repeat=2):
        interval = -(-steps // points)
        taken = {min(steps, i * interval) for i in range(1, points + 1)}
        if len(taken) == points:
            check(steps, points)
            continue
        with pytest.raises(ValueError) as refusal:
            check(steps, points)
        # The two ways out.
        words = str(refusal.value).rstrip(".").split("=")
        check(steps, int(words[-2].split()[0]))
        check(int(words[-1]), points)

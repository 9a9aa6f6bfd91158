"""Low-rank adapters against dense weights; their files."""

import keras
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

import bert_tf
from bert_tf.checkpoint import model_folders
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.config import LORA_TARGETS
from bert_tf.model import dropout, lora

RANK, ALPHA = 3, 6.0


def build(config, dtype="float32", seed=1):
    keras.utils.set_random_seed(seed)
    model = bert_tf.BertClassifier(config, num_classes=3, dtype=dtype)
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(rng.normal(0.0, 0.3, weight.shape))
    return model


def adapt(model, targets=lora.DEFAULT_TARGETS):
    """Adds adapters, with a B that is not 0."""
    model.encoder.enable_lora(RANK, ALPHA, targets)
    rng = np.random.default_rng(7)
    for part in lora.adapted(model):
        b = part.lora_kernel_b
        b.assign(rng.normal(0.0, 0.3, b.shape))
    return model


def dense_copy(model, config, dtype="float32"):
    """Returns a model without adapters and with W + alpha / rank * A B."""
    values = {w.path: w.numpy() for w in model.weights}
    copy = build(config, dtype, seed=2)
    own = f"{copy.name}/"
    for weight in copy.weights:
        path = weight.path
        if path.startswith(own):
            path = f"{model.name}/{path.removeprefix(own)}"
        prefix = path.removesuffix("kernel")
        value = values[path]
        if f"{prefix}lora_kernel_a" in values:
            a = values[f"{prefix}lora_kernel_a"].astype(np.float64)
            value = value + ALPHA / RANK * a @ values[f"{prefix}lora_kernel_b"]
        weight.assign(value)
    return copy


def gradients(model, batch):
    """Returns logits, and path -> gradient of the trained weights."""

    @tf.function(autograph=False)
    def run(batch):
        with tf.GradientTape() as tape:
            logits = model(
                batch, training=True, dropout_key=dropout.make_key(7, 3, 0)
            )["logits"]
            total = tf.reduce_sum(logits**2)
        weights = [weight.value for weight in model.trainable_weights]
        return logits, tape.gradient(total, weights)

    logits, values = run(batch)
    names = [w.path.split("/", 1)[1] for w in model.trainable_weights]
    arrays = [tf.convert_to_tensor(value).numpy() for value in values]
    return logits.numpy(), dict(zip(names, arrays, strict=True))


def test_new_adapters_do_not_change_outputs(tiny_config, batch):
    model = build(tiny_config)
    before = model(batch)["logits"]
    model.encoder.enable_lora(RANK, targets=LORA_TARGETS)
    np.testing.assert_array_equal(model(batch)["logits"], before)
    assert model.encoder.lora == lora.Adapters(RANK, float(RANK), LORA_TARGETS)


def test_products_without_an_adapter_and_paths_stay_the_same(tiny_config):
    encoder = build(tiny_config).encoder
    layer = encoder.encoder_layers[-1]
    paths = [weight.path for weight in encoder.weights]
    rows = tf.ones([3, tiny_config.hidden_size])
    before = layer.product(rows, [layer.intermediate])
    encoder.enable_lora(RANK, targets=("key", "output"))
    assert layer.product is layer.attention.product is lora.product
    after = layer.product(rows, [layer.intermediate])
    np.testing.assert_array_equal(after, before)
    own = [w.path for w in encoder.weights if not lora.is_factor(w)]
    assert own == paths


@pytest.mark.parametrize("remat", [False, True])
@pytest.mark.parametrize("targets", [lora.DEFAULT_TARGETS, LORA_TARGETS])
def test_outputs_and_gradients_are_those_of_dense_kernels(
    tiny_config, batch, targets, remat
):
    model = adapt(build(tiny_config), targets)
    dense = dense_copy(model, tiny_config)
    if remat:
        model.encoder.enable_remat()
    np.testing.assert_allclose(
        model(batch)["logits"], dense(batch)["logits"], rtol=1e-4, atol=1e-5
    )
    logits, found = gradients(model, batch)
    dense_logits, expected = gradients(dense, batch)
    np.testing.assert_allclose(logits, dense_logits, rtol=1e-4, atol=1e-5)
    factors = {w.path.split("/", 1)[1]: w.numpy() for w in model.weights}
    for name, value in found.items():
        prefix, _, last = name.rpartition("/")
        if last.startswith("lora"):
            dkernel = ALPHA / RANK * expected[f"{prefix}/kernel"]
            a, b = (factors[f"{prefix}/lora_kernel_{x}"] for x in "ab")
            dense_value = dkernel @ b.T if last.endswith("a") else a.T @ dkernel
        else:
            dense_value = expected[name]
        largest = np.abs(dense_value).max()
        assert largest > 0
        np.testing.assert_allclose(
            value, dense_value, rtol=0, atol=1e-4 * largest, err_msg=name
        )


def test_bfloat16_follows_the_dense_kernels(tiny_config, batch):
    model = adapt(build(tiny_config, "mixed_bfloat16"), LORA_TARGETS)
    dense = dense_copy(model, tiny_config, "mixed_bfloat16")
    assert {w.dtype for w in model.trainable_weights} == {"float32"}
    outputs = [x(batch)["logits"].numpy() for x in (model, dense)]
    np.testing.assert_allclose(*outputs, rtol=0, atol=0.05)
    # The adapters matter: without them outputs are others.
    lora.reset(model)
    assert np.abs(model(batch)["logits"] - outputs[1]).max() > 0.2


def test_adapters_pooler_and_head_are_trained(tiny_config):
    model = build(tiny_config)
    num_weights = model.count_params()
    model.encoder.enable_lora(RANK)
    names = {w.path.removeprefix("encoder/") for w in model.trainable_weights}
    expected = {
        f"layer_{i}/attention/{name}/lora_kernel_{x}"
        for i in range(tiny_config.num_hidden_layers)
        for name in ("query", "value")
        for x in "ab"
    }
    expected |= {"pooler/kernel", "pooler/bias"}
    expected |= {f"classification/dense/{x}" for x in ("kernel", "bias")}
    assert names == expected
    size = tiny_config.hidden_size
    adapters = tiny_config.num_hidden_layers * 2 * 2 * size * RANK
    trained = adapters + size * size + size + 3 * size + 3
    assert lora.counts(model) == (trained, num_weights + adapters)


def test_merging_keeps_the_outputs(tiny_config, batch):
    model = adapt(build(tiny_config), LORA_TARGETS)
    before = model(batch)["logits"]
    expected = model_folders.digest(model)
    model.encoder.merge_lora()
    assert all(not np.any(p.lora_kernel_b) for p in lora.adapted(model))
    np.testing.assert_allclose(model(batch)["logits"], before, atol=1e-5)
    assert model_folders.digest(model) == expected


def test_weights_of_a_folder_replace_adapters_of_keras_too(
    tiny_config, batch, tmp_path
):
    model, plain = build(tiny_config), build(tiny_config, seed=4)
    layer = model.encoder.encoder_layers[0]
    for part in (model.head.dense, layer.intermediate):
        part.enable_lora(RANK)
        part.lora_kernel_b.assign(np.ones(part.lora_kernel_b.shape))
    model_folders.save_model(str(tmp_path), plain, metadata={})
    model_folders.load_weights(model, str(tmp_path))
    expected = plain(batch)["logits"]
    np.testing.assert_allclose(model(batch)["logits"], expected, atol=1e-5)


def test_keras_files_have_merged_kernels(tiny_config, batch, tmp_path):
    model = adapt(build(tiny_config))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.encoder.lora is None
    np.testing.assert_allclose(
        loaded(batch)["logits"], model(batch)["logits"], atol=1e-5
    )


def test_a_file_restores_what_the_encoder_trained(tiny_config, batch, tmp_path):
    path = str(tmp_path / "a.safetensors")
    model = adapt(build(tiny_config))
    model.encoder.pooler.bias.assign(np.ones(tiny_config.hidden_size))
    model.encoder.save_lora_weights(path)
    # In a task model or alone, with adapters or without: names do not differ.
    folder = tmp_path / "base"
    folder.mkdir()
    base = build(tiny_config)
    model_folders.save_model(folder, base, metadata={"task": "classification"})
    encoder = Checkpoint.open(str(folder)).encoder()
    for _ in range(2):
        encoder.load_lora_weights(path)
        np.testing.assert_array_equal(
            encoder(batch).pooled_output, model.encoder(batch).pooled_output
        )
    assert encoder.lora == model.encoder.lora
    size = (tmp_path / "a.safetensors").stat().st_size
    assert size < (folder / "model.safetensors").stat().st_size


def test_a_file_of_other_weights_or_settings_is_rejected(tiny_config, tmp_path):
    path = str(tmp_path / "a.safetensors")
    adapt(build(tiny_config)).encoder.save_lora_weights(path)
    other = build(tiny_config, seed=3).encoder
    with pytest.raises(ValueError, match="belongs to an encoder with the wei"):
        other.load_lora_weights(path)
    assert other.lora is None
    other = build(tiny_config).encoder
    other.enable_lora(RANK + 1)
    with pytest.raises(ValueError, match="has adapters already"):
        other.enable_lora(RANK)
    with pytest.raises(ValueError, match=r"Adapters\(rank=3.*has.*\(rank=4"):
        other.load_lora_weights(path)
    frozen = build(tiny_config).encoder
    frozen.enable_lora(RANK, ALPHA)
    frozen.pooler.trainable = False
    with pytest.raises(ValueError, match="differ in pooler/bias"):
        frozen.load_lora_weights(path)


def test_a_file_that_has_no_adapters_is_rejected(tiny_config, tmp_path):
    encoder = build(tiny_config).encoder
    path = tmp_path / "a.safetensors"
    with pytest.raises(ValueError, match="is missing or damaged"):
        encoder.load_lora_weights(str(path))
    path.write_bytes(b"no safetensors")
    with pytest.raises(ValueError, match="is missing or damaged"):
        encoder.load_lora_weights(str(path))
    safetensors.numpy.save_file({"x": np.zeros(2)}, path)
    with pytest.raises(ValueError, match="has no adapters of bert_tf"):
        encoder.load_lora_weights(str(path))
    with pytest.raises(ValueError, match="Call enable_lora first"):
        encoder.save_lora_weights(str(path))


def test_weights_that_are_not_finite_are_rejected(tiny_config, tmp_path):
    path = str(tmp_path / "a.safetensors")
    model = adapt(build(tiny_config))
    b = model.encoder.encoder_layers[0].attention.query.lora_kernel_b
    b.assign(np.full(b.shape, np.nan))
    model.encoder.save_lora_weights(path)
    with pytest.raises(ValueError, match="query/lora_kernel_b has NaN"):
        build(tiny_config).encoder.load_lora_weights(path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 0}, "rank=0 should be at least 1 and at most 16"),
        ({"rank": 17}, "rank=17 should be at least 1 and at most 16"),
        ({"rank": 2, "alpha": 0.0}, "alpha=0.0 should be above 0"),
        ({"rank": 2, "alpha": np.nan}, "alpha=nan should be above 0"),
        ({"rank": 2, "targets": ()}, "should be one or more of query, key"),
        ({"rank": 2, "targets": ("pooler",)}, "'pooler'.*should be one or"),
    ],
)
def test_invalid_settings_change_nothing(tiny_config, settings, message):
    model = build(tiny_config)
    num_trained = len(model.trainable_weights)
    with pytest.raises(ValueError, match=message):
        model.encoder.enable_lora(**settings)
    assert model.encoder.lora is None
    assert len(model.trainable_weights) == num_trained


def test_fit_of_a_functional_model_changes_only_trained_weights(
    tiny_config, functional, inputs
):
    encoder = build(tiny_config).encoder
    encoder.enable_lora(RANK)
    model = functional(encoder)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(0.1), loss)
    before = [w.numpy() for w in encoder.weights]
    model.fit(inputs, np.arange(4) % 2, epochs=2, verbose=0)
    for weight, old in zip(encoder.weights, before, strict=True):
        assert np.array_equal(weight, old) != weight.trainable, weight.path

import collections
import dataclasses

import keras
import numpy as np
import oracle
import pytest
import reference_bert
import tensorflow as tf
from random_weights import randomised, weights_of
from tensorflow.python.eager import context
from tensorflow.python.util import _pywrap_util_port as util_port

import bert_tf
from bert_tf import config
from bert_tf.checkpoint import model_folders
from bert_tf.model import dropout, layers, models
from tfrecords import schema


@pytest.fixture
def encoder(tiny_config):
    keras.utils.set_random_seed(1)
    return randomised(bert_tf.BertEncoder(tiny_config))


def test_base_has_as_many_parameters_as_the_original():
    base = bert_tf.BertEncoder(bert_tf.BertConfig.from_name("base"))
    assert base.count_params() == 109_482_240


def test_every_layer_and_the_pooled_output_match_the_reference(
    encoder, tiny_config, batch
):
    outputs = encoder(batch)
    layers, pooled = oracle.encode(batch, weights_of(encoder), tiny_config)
    for ours, theirs in zip(outputs.encoder_outputs, layers, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    np.testing.assert_array_equal(
        outputs.sequence_output, outputs.encoder_outputs[-1]
    )
    np.testing.assert_allclose(outputs.pooled_output, pooled, atol=1e-5)


def test_distilbert_has_no_types_and_a_pooler_with_relu(
    tiny_config, batch, tmp_path
):
    sizes = dataclasses.replace(tiny_config, **config.DISTILBERT)
    encoder = randomised(bert_tf.BertEncoder(sizes))
    assert not any("type" in name for name in weights_of(encoder))
    _, pooled = oracle.encode(batch, weights_of(encoder), sizes)
    outputs = encoder(batch)
    np.testing.assert_allclose(outputs.pooled_output, pooled, atol=1e-5)
    encoder.save(tmp_path / "encoder.keras")
    loaded = keras.models.load_model(tmp_path / "encoder.keras")
    others = batch | {"input_type_ids": batch["input_type_ids"] + 7}
    for name in ("sequence_output", "pooled_output"):
        expected = getattr(outputs, name)
        np.testing.assert_array_equal(getattr(loaded(others), name), expected)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_attention_and_embeddings_match_the_reference(
    tiny_config, batch, is_causal, training
):
    config = dataclasses.replace(
        tiny_config,
        is_causal=is_causal,
        hidden_dropout_prob=0.0,
        # Probabilities are returned as they are before their dropout.
        attention_probs_dropout_prob=0.5 if training else 0.0,
        num_hidden_layers=1 if training else 2,
    )
    encoder = randomised(bert_tf.BertEncoder(config))
    outputs = encoder(batch, training=training, return_attention=True)
    embedded, attention = oracle.layer_attention(
        batch, weights_of(encoder), config
    )
    np.testing.assert_allclose(outputs.embedding_output, embedded, atol=1e-5)
    for ours, theirs in zip(outputs.attention, attention, strict=True):
        assert ours.dtype == tf.float32
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert len(outputs.hidden_states) == config.num_hidden_layers + 1
    assert outputs.hidden_states[0] is outputs.embedding_output
    assert outputs.hidden_states[-1] is outputs.sequence_output


def test_word_vectors_of_the_ids_change_no_output(encoder, batch):
    table = encoder.embeddings.word_embeddings.numpy()
    vectors = {"word_vectors": table[batch["input_word_ids"]]}
    for found, expected in zip(
        encoder(batch | vectors).encoder_outputs,
        encoder(batch).encoder_outputs,
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)


def test_asking_for_attention_changes_no_other_output(encoder, batch):
    key = dropout.make_key(7, 3, 0)
    for kwargs in ({}, {"training": True, "dropout_key": key}):
        plain = encoder(batch, **kwargs)
        assert plain.attention == ()
        asked = encoder(batch, return_attention=True, **kwargs)
        for a, b in zip(plain.hidden_states, asked.hidden_states, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("remat", [False, True])
def test_attention_has_a_gradient(encoder, batch, remat):
    encoder.remat = remat
    kernel = encoder.encoder_layers[-1].attention.query.kernel.value
    key = dropout.make_key(7, 3, 0)

    def loss():
        outputs = encoder(
            batch, training=True, dropout_key=key, return_attention=True
        )
        return tf.reduce_sum(outputs.attention[-1][..., 0])

    with tf.GradientTape() as tape:
        total = loss()
    slope = tf.reduce_sum(tape.gradient(total, kernel)).numpy()
    step = 1e-2
    kernel.assign_add(tf.fill(kernel.shape, step))
    after = loss()
    kernel.assign_sub(tf.fill(kernel.shape, 2 * step))
    difference = (after - loss()).numpy() / (2 * step)
    assert abs(slope) > 0.01
    np.testing.assert_allclose(slope, difference, rtol=0.05)


def test_a_functional_model_returns_attention(encoder, text, inputs, tmp_path):
    outputs = encoder(text, return_attention=True)
    model = keras.Model(text, [*outputs.attention, *outputs.hidden_states])
    model.save(tmp_path / "model.keras")
    found = keras.models.load_model(tmp_path / "model.keras")(inputs)
    expected = encoder(inputs, return_attention=True)
    for x, y in zip(
        found, [*expected.attention, *expected.hidden_states], strict=True
    ):
        np.testing.assert_allclose(x, y, atol=1e-6)


@pytest.mark.parametrize("act", ["gelu", "gelu_erf", "relu", "tanh"])
def test_activations_match_their_formulas(act):
    from scipy import special

    x = np.linspace(-5, 5, 101)
    expected = {
        "gelu": reference_bert.gelu(x),
        "gelu_erf": x * 0.5 * (1 + special.erf(x / np.sqrt(2))),
        "relu": np.maximum(x, 0),
        "tanh": np.tanh(x),
    }[act]
    np.testing.assert_allclose(
        layers.ACTIVATIONS[act](tf.constant(x)), expected, atol=1e-12
    )


def test_layer_norm_uses_its_epsilon():
    norm = layers.LayerNorm()
    norm.build((None, 2))
    assert norm.epsilon == 1e-12  # modeling.py: layer_norm.
    norm.epsilon = 3.0
    x = tf.constant([[-1.0, 1.0]])  # Variance 1, so the divisor is sqrt(4).
    np.testing.assert_allclose(norm(x), x / 2)


def test_padding_does_not_change_other_rows(encoder, inputs):
    short = {name: values[:1, :7] for name, values in inputs.items()}
    padded = {n: np.pad(v, ((0, 0), (0, 5))) for n, v in short.items()}
    padded["input_word_ids"][:, 7:] = 9  # Ids at padding must not matter.
    np.testing.assert_allclose(
        encoder(padded).sequence_output[:, :7],
        encoder(short).sequence_output,
        atol=1e-5,
    )


def test_initial_weights_are_independent_truncated_normals():
    encoder = bert_tf.BertEncoder(bert_tf.BertConfig.from_name("tiny"))
    weights = {
        name: weight.numpy()
        for name, weight in model_folders.weight_names(encoder).items()
    }
    table = weights["embeddings/word_embeddings"]
    # Truncation at two standard deviations scales the deviation by 0.88.
    assert abs(table.std() - 0.02 * 0.8796) < 2e-4
    assert np.abs(table).max() <= 0.0401
    assert np.abs(weights["pooler/bias"]).max() == 0
    query = weights["layer_0/attention/query/kernel"]
    assert (query != weights["layer_0/attention/key/kernel"]).all()
    assert (query != weights["layer_1/attention/query/kernel"]).all()


def test_bfloat16_keeps_weights_scores_and_norms_in_float32(tiny_config, batch):
    keras.utils.set_random_seed(1)
    exact = bert_tf.BertEncoder(tiny_config)
    mixed = bert_tf.BertEncoder(tiny_config, dtype="mixed_bfloat16")
    mixed.set_weights(exact.get_weights())
    assert {w.dtype for w in mixed.weights} == {"float32"}
    assert mixed.encoder_layers[0].attention_norm.compute_dtype == "float32"
    outputs = mixed(batch)
    assert outputs.sequence_output.dtype == tf.bfloat16
    np.testing.assert_allclose(
        tf.cast(outputs.sequence_output, tf.float32),
        exact(batch).sequence_output,
        atol=0.1,
    )


@pytest.mark.parametrize("task", ["classification", "pretraining"])
def test_weights_stored_in_bfloat16_give_the_same_outputs(
    tiny_config, batch, task
):
    mixed = models.for_task(task, tiny_config, 3, dtype="mixed_bfloat16")
    stored = models.for_task(task, tiny_config, 3, dtype="bfloat16")
    stored.set_weights(mixed.get_weights())
    layer = stored.encoder.encoder_layers[0]
    assert layer.attention.query.kernel.dtype == "bfloat16"
    assert layer.attention_norm.gamma.dtype == "float32"
    assert stored.encoder.embeddings.word_embeddings.dtype == "float32"
    expected = mixed(batch, training=False)
    for name, value in stored(batch, training=False).items():
        assert value.dtype == tf.float32
        np.testing.assert_array_equal(value, expected[name])


@pytest.mark.filterwarnings("ignore:.*triggered tf.function retracing")
@pytest.mark.slow
def test_omitted_types_are_those_of_segment_a(encoder, tiny_config, batch):
    batch["input_type_ids"] = np.zeros_like(batch["input_type_ids"])
    expected = encoder(batch).sequence_output
    del batch["input_type_ids"]
    np.testing.assert_array_equal(encoder(batch).sequence_output, expected)
    choices = bert_tf.BertMultipleChoice(tiny_config)
    rows = {n: batch[n][None] for n in ("input_word_ids", "input_mask")}
    num_rows = len(batch["input_mask"])
    assert choices(rows)["logits"].shape == (1, num_rows)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"input_word_ids": 0}, "The input has input_word_ids. Give a dict of"),
        ([0, 0, 0], "The input is a list. Give a dict of input_word_"),
        (
            {"input_ids": 0, "attention_mask": 0, "token_type_ids": 0},
            "input_ids is input_word_ids here. attention_mask is input_mask "
            "here. token_type_ids is input_type_ids here.",
        ),
        # They would be ignored.
        (
            {"input_word_ids": 0, "input_mask": 0, "token_type_ids": 0},
            "int32; .* token_type_ids is input_type_ids here.",
        ),
    ],
)
@pytest.mark.parametrize("name", ["BertEncoder", "BertRegressor"])
def test_other_inputs_are_refused_by_name(tiny_config, name, inputs, message):
    model = getattr(bert_tf, name)(tiny_config)
    with pytest.raises(ValueError, match=message):
        model(keras.tree.map_structure(lambda _: np.ones((1, 4)), inputs))


RAGGED = tf.ragged.constant([[2, 7, 8, 3], [2, 3]])
IDS = np.array([[2, 7, 8, 3], [2, 3, 0, 0]])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"input_word_ids": RAGGED}, "input_word_ids is a RaggedTensor.*pack"),
        ({"input_mask": tf.ones_like(RAGGED)}, "input_mask is a Ragged"),
        ({"input_word_ids": tf.sparse.from_dense(IDS)}, "is a SparseTensor"),
        ({"input_word_ids": IDS.tolist()}, "has type list; .*np.array"),
        ({"input_word_ids": IDS.astype(str)}, "has type <U"),
        ({"input_word_ids": IDS.astype(object)}, "has type object"),
        ({"input_word_ids": 5}, "has type int; .*np.array"),
        ({"masked_lm_positions": [[1]]}, "masked_lm_positions has type list"),
        ({"position_ids": RAGGED}, "position_ids is a RaggedTensor"),
        ({"position_ids": IDS[:1]}, r"position_ids has shape \[1, 4\]"),
        ({"input_word_ids": IDS[0]}, r"shape \[4\]; expected \[B, S\]"),
        # They were broadcast.
        ({"input_mask": np.ones(4)}, r"input_mask has shape \[4\]"),
        ({"input_type_ids": IDS[:1]}, r"input_type_ids has shape \[1, 4\]"),
        # They were rounded to 0.
        ({"input_mask": 0.5 * (IDS > 0)}, "input_mask .* has fractions"),
        ({"input_word_ids": np.where(IDS, IDS, np.nan)}, "is not finite"),
    ],
)
def test_inputs_of_another_form_are_refused(tiny_config, wrong, message):
    inputs = {"input_word_ids": IDS, "input_mask": 1 * (IDS > 0)} | wrong
    with pytest.raises(ValueError, match=message):
        bert_tf.BertEncoder(tiny_config)(inputs)


def test_forms_are_checked_by_models_and_in_graphs(tiny_config):
    mask = 1 * (IDS > 0)
    model = bert_tf.BertRegressor(tiny_config)
    expected = model({"input_word_ids": IDS, "input_mask": mask})
    small = {"input_word_ids": IDS.astype("uint8"), "input_mask": mask > 0}
    np.testing.assert_array_equal(*model(small).values(), *expected.values())
    model.compile("sgd")
    for ids, error, message in (
        (RAGGED, ValueError, "is a RaggedTensor"),
        (IDS + 0.5, tf.errors.InvalidArgumentError, "has fractions"),
    ):
        inputs = {"input_word_ids": ids, "input_mask": mask}
        with pytest.raises(error, match=message):
            model.fit(inputs, np.zeros(2), verbose=0)
    with pytest.raises(ValueError, match=r"expected \[B, choices, S\]"):
        bert_tf.BertMultipleChoice(tiny_config)(small)


@pytest.mark.parametrize(
    "dtype", ["float64", "int8_from_float32", "float8_from_mixed_bfloat16"]
)
@pytest.mark.parametrize("name", ["BertEncoder", "BertRegressor"])
def test_policies_that_layers_do_not_follow_are_refused(
    tiny_config, name, dtype
):
    for policy in (dtype, keras.dtype_policies.DTypePolicyMap("float32")):
        with pytest.raises(ValueError, match="one policy for all layers"):
            getattr(bert_tf, name)(tiny_config, dtype=policy)


def test_works_in_a_functional_model_and_fit(
    tiny_config, make_batch, functional, tmp_path, capsys
):
    keras.utils.set_random_seed(1)
    encoder = bert_tf.BertEncoder(tiny_config)
    model = functional(encoder)
    for part, text in (
        (model, "BertEncoder"),
        (encoder, f"{encoder.count_params():,}"),
    ):
        part.summary()
        assert text in capsys.readouterr().out
    batch = make_batch(tiny_config, rows=8)
    inputs = {name: batch[name] for name in schema.ENCODER_INPUTS}
    labels = np.arange(8) % 2
    model.compile(
        keras.optimizers.Adam(1e-2),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    history = model.fit(inputs, labels, epochs=30, batch_size=8, verbose=0)
    assert history.history["loss"][-1] < 0.7 * history.history["loss"][0]

    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(inputs), model(inputs))


@pytest.mark.parametrize(
    "make",
    [
        bert_tf.BertEncoder,
        bert_tf.BertPretrainer,
        lambda config: bert_tf.BertClassifier(config, num_classes=3),
        bert_tf.BertRegressor,
    ],
)
def test_keras_files_restore_encoder_and_models(
    tiny_config, batch, tmp_path, make
):
    model = make(tiny_config)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is type(model)
    assert loaded.config == tiny_config
    found, expected = (tf.nest.flatten(x(batch)) for x in (loaded, model))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("precision", "bound"), [("float32", 1e-5), ("mixed_bfloat16", 0.05)]
)
def test_remat_does_not_change_outputs_or_gradients(
    tiny_config, batch, precision, bound
):
    keras.utils.set_random_seed(1)
    encoder = randomised(bert_tf.BertEncoder(tiny_config, dtype=precision))
    variables = [weight.value for weight in encoder.trainable_weights]

    def gradients():
        @tf.function(autograph=False)
        def run(batch):
            with tf.GradientTape() as tape:
                outputs = encoder(
                    batch, training=True, dropout_key=dropout.make_key(7, 3, 0)
                )
                total = tf.reduce_sum(outputs.pooled_output)
            return outputs, tape.gradient(total, variables)

        return run(batch), run.get_concrete_function(batch).graph

    kept, kept_graph = gradients()
    encoder.enable_remat()
    recomputed, remat_graph = gradients()
    kept, recomputed = (
        [
            tf.cast(tf.convert_to_tensor(x), tf.float32).numpy()
            for x in tf.nest.flatten(values)
        ]
        for values in (kept, recomputed)
    )
    # Gradients that should be 0, as that of the key's bias, are rounding noise.
    largest = max(np.abs(x).max() for x in kept)
    for x, y in zip(kept, recomputed, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=bound * largest)

    def num_matmuls(graph):
        return sum(op.type == "MatMul" for op in graph.get_operations())

    layers = tiny_config.num_hidden_layers
    assert num_matmuls(remat_graph) == num_matmuls(kept_graph) + 4 * layers


def fusions(model, dtype):
    """Returns how often each fused operation is in the optimized graph."""
    spec = tf.TensorSpec([None, None], tf.int32)
    specs = {f"input_{name}": spec for name in ("word_ids", "mask", "type_ids")}
    run = tf.function(
        lambda inputs: model(inputs, training=False).pooled_output,
        input_signature=[specs],
        autograph=False,
    )
    context.enable_run_metadata()
    run({name: tf.ones([2, 8], tf.int32) for name in specs})
    graphs = context.export_run_metadata().function_graphs
    context.disable_run_metadata()
    return collections.Counter(
        b"+".join(node.attr["fused_ops"].list.s).decode()
        for graph in graphs
        for node in graph.post_optimization_graph.node
    )


@pytest.mark.skipif(
    not util_port.IsMklEnabled(), reason="TensorFlow without oneDNN"
)
def test_onednn_fuses_what_surrounds_products(tiny_config):
    """Each of these passes over memory would cost 2 to 5 % of inference."""
    config = dataclasses.replace(tiny_config, num_hidden_layers=3)
    found = fusions(bert_tf.BertEncoder(config), "float32")
    assert found["BiasAdd+GeluApproximate"] == 3
    assert found["BiasAdd+Add"] == 6  # The residual sums.
    assert found["Mul+Add"] == 3  # Scores, their scale and mask.

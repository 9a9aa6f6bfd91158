import dataclasses
import json

import checkpoint_folders
import numpy as np
import pytest
import safetensors.numpy

from bert_tf.checkpoint import convert, detection
from bert_tf.checkpoint.formats.hugging_face import (
    pretrained,
    sentence_transformers,
)
from bert_tf.workflows import conversion
from tfrecords.io import atomic_files

TEXTS = "config_sentence_transformers.json"
PROMPTS = {
    "prompts": {"query": "query: ", "document": ""},
    "default_prompt_name": "query",
}
MEAN = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}


def module(kind, path):
    return {
        "idx": 0,
        "name": "0",
        "path": path,
        "type": f"sentence_transformers.models.{kind}",
    }


BERT = module("Transformer", "")
POOLING = module("Pooling", "1_Pooling")


def put(folder, *modules, pooling=MEAN):
    folder.mkdir(exist_ok=True)
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return str(folder)


def put_dense(folder, num_inputs, num_outputs, **settings):
    """Writes a Dense module with random weights."""
    path = folder / "2_Dense"
    path.mkdir(exist_ok=True)
    values = {"in_features": num_inputs, "out_features": num_outputs}
    (path / "config.json").write_text(json.dumps(values | settings))
    rng = np.random.default_rng(0)
    tensors = {
        "linear.weight": rng.normal(size=(num_outputs, num_inputs)),
        "linear.bias": rng.normal(size=num_outputs),
    }
    tensors = {n: x.astype(np.float32) for n, x in tensors.items()}
    safetensors.numpy.save_file(tensors, path / "model.safetensors")
    return module("Dense", "2_Dense")


@pytest.mark.parametrize("subfolder", ["", "0_Transformer"])
def test_the_bert_inside_is_read_with_its_modules(
    tmp_path, make_checkpoint, subfolder
):
    # The config's class is a masked LM, but only the encoder is saved.
    lacking = ("masked_lm", "next_sentence")
    given = make_checkpoint("pretraining", lacking)
    with atomic_files.atomic_folder(
        str(tmp_path / "model" / subfolder)
    ) as aside:
        pretrained.write(given, aside)
    config = tmp_path / "model" / subfolder / "config.json"
    config.write_text(
        config.read_text().replace("BertModel", "BertForMaskedLM")
    )
    settings = config.with_name("sentence_bert_config.json")
    settings.write_text('{"max_seq_length": 7}')
    folder = put(
        tmp_path / "model",
        module("Transformer", subfolder),
        POOLING,
        module("Dropout", "2_Dropout"),
        module("Normalize", "3_Normalize"),
    )
    assert detection.is_hugging_face(folder)
    found = pretrained.read(folder)
    assert set(found.tensors) == set(given.tensors)
    assert str(found.sentence_embedding) == "mean, Normalize"
    length = {"max_seq_length": 7}
    # As in the library, unless its tokenizer is told otherwise.
    assert found.metadata == length | {"split_special_tokens": False}
    settings.with_name("tokenizer_config.json").write_text(
        '{"split_special_tokens": true}'
    )
    found = pretrained.read(folder)
    assert found.metadata == length


@pytest.mark.parametrize(
    ("pooling", "modes"),
    [
        ({"pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": ["max", "cls"]}, "max+cls"),
        # All false: the library's default.
        ({"pooling_mode_cls_token": False}, "mean"),
        (MEAN | {"pooling_mode_max_tokens": True}, "max+mean"),
    ],
)
def test_modes_of_pooling(tmp_path, pooling, modes):
    folder = put(tmp_path / "model", BERT, POOLING, pooling=pooling)
    found = sentence_transformers.read(folder)
    assert (found.folder, found.notes) == (folder, ())
    assert str(found.embedding) == modes


def test_a_folder_is_written_back_with_its_modules(tmp_path, make_checkpoint):
    lacking = ("masked_lm", "next_sentence")
    given = make_checkpoint("pretraining", lacking)
    dense = put_dense(tmp_path, 2 * given.config.hidden_size, 3)
    modules = BERT, POOLING, dense, module("Normalize", "3_Normalize")
    pooling = {"pooling_mode": ["mean", "cls"]}
    folder = put(tmp_path, *modules, pooling=pooling)
    embedding = sentence_transformers.read(folder).embedding
    metadata = {"max_seq_length": 9, "split_special_tokens": False} | PROMPTS
    given = dataclasses.replace(
        given, sentence_embedding=embedding, metadata=metadata
    )
    ours, theirs = str(tmp_path / "bert_tf"), str(tmp_path / "hugging_face")
    for target in (theirs, ours):
        name = target.rpartition("/")[2]
        with atomic_files.atomic_folder(target) as aside:
            convert.write(given, name, aside)
        again = detection.format_module(name).read(target)
        assert again.metadata == metadata
        assert again.sentence_embedding.settings() == embedding.settings()
        checkpoint_folders.assert_same_bits(
            again.sentence_embedding.tensors(), embedding.tensors()
        )
    # Replaced as a whole: no file of it is unknown.
    words = {"overwrite": True}
    conversion.convert(ours, "hugging_face", theirs, **words)
    report = conversion.convert(
        ours, "google", str(tmp_path / "google"), **words
    )
    lost = "not kept by this format: "
    for what in (
        *("sentence embedding: mean+cls, Dense, Norma", "prompts {'que"),
        "split_special_tokens False",
    ):
        assert [line for line in report if line.startswith(lost + what)]


def test_a_transformer_alone_has_no_vectors_of_its_own(tmp_path):
    folder = put(tmp_path, BERT)
    assert sentence_transformers.read(folder).embedding is None


# As version 6.2 writes it.
SETTINGS = {
    "transformer_task": "feature-extraction",
    "modality_config": {
        "text": {"method": "forward", "method_output_name": "last_hidden_state"}
    },
    "module_output_name": "token_embeddings",
}
SCORER = {
    "transformer_task": "sequence-classification",
    "modality_config": {
        "text": {"method": "forward", "method_output_name": "logits"}
    },
    "module_output_name": "scores",
}


def put_settings(folder, values):
    (folder / "sentence_bert_config.json").write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("more", "length"),
    [
        ({"unpad_inputs": False, "query_length": None}, None),
        ({"max_seq_length": 9, "tokenizer_args": {"use_fast": True}}, 9),
        (
            {"max_seq_length": 9, "tokenizer_args": {"model_max_length": 8}},
            8,
        ),
        (
            {
                "max_seq_length": 9,
                "processor_kwargs": {"model_max_length": 8},
                "processing_kwargs": {
                    "text": {"max_length": 7, "padding": "max_length"},
                    "image": {"do_resize": False},
                },
                "model_args": {"torch_dtype": "float16"},
            },
            7,
        ),
        (
            {
                "processing_kwargs": {
                    "text": {"max_length": 7, "truncation": True},
                    "common": {"max_length": 11},
                }
            },
            11,
        ),
    ],
)
@pytest.mark.parametrize("modules", [(BERT,), (BERT, POOLING)])
def test_settings_of_a_transformer_are_followed(
    tmp_path, more, length, modules
):
    folder = put(tmp_path, *modules)
    put_settings(tmp_path, (SCORER if len(modules) == 1 else SETTINGS) | more)
    assert sentence_transformers.read(folder).max_seq_length == length


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"modality_config": {"text": {"method_output_name": "pooler_out"}}},
            "text.method_output_name is 'pooler_out', expected 'last_hidden_s",
        ),
        ({"transformer_task": "fill-mask"}, "'fill-mask', expected 'feature-e"),
        (
            {"modality_config": {"message": {"method": "forward"}}},
            "modality_config.message.method is 'forward'; this is not supp",
        ),
        (
            {"processing_kwargs": {"text": {"add_special_tokens": False}}},
            "processing_kwargs.text.add_special_tokens is False, expected Tru",
        ),
        (
            {"processing_kwargs": {"common": {"truncation": False}}},
            "processing_kwargs.common.truncation is False, expected True; thi",
        ),
        ({"query_length": 4}, "query_length is 4; this is not supported"),
        (
            {"config_args": {"hidden_act": "relu"}},
            "config_kwargs.hidden_act is",
        ),
        (
            {"tokenizer_args": {"do_lower_case": True}},
            "processor_kwargs.do_low",
        ),
        ({"max_seq_length": 2}, "max_seq_length is 2; it should be an integer"),
        (
            {"processing_kwargs": {"text": {"max_length": 0}}},
            "processing_kwargs.text.max_length is 0; it should be an integer",
        ),
        ({"do_lower_case": 1}, "do_lower_case is 1; it should be true or fal"),
    ],
)
@pytest.mark.parametrize("modules", [(BERT,), (BERT, POOLING)])
def test_settings_that_change_vectors_are_refused(
    tmp_path, more, message, modules
):
    folder = put(tmp_path, *modules)
    put_settings(tmp_path, SETTINGS | more)
    with pytest.raises(ValueError) as raised:
        sentence_transformers.read(folder)
    assert message in str(raised.value)
    assert str(raised.value).startswith(f"{folder}/sentence_bert_config.json")


def test_a_cross_encoder_has_no_pooling(tmp_path):
    folder = put(tmp_path, BERT, POOLING)
    put_settings(tmp_path, SCORER)
    message = "transformer_task is 'sequence-classification', expected 'feat"
    with pytest.raises(ValueError, match=message):
        sentence_transformers.read(folder)


def test_a_refusal_says_how_to_read_the_bert_alone(tmp_path):
    config = '{"model_type": "bert"}'
    folder = put(
        tmp_path / "sparse", BERT, module("SpladePooling", "1_Pooling")
    )
    (tmp_path / "sparse" / "config.json").write_text(config)
    with pytest.raises(ValueError, match=r"copy its folder without modules.js"):
        sentence_transformers.read(folder)
    folder = put(tmp_path / "router", module("Router", ""))
    inside = tmp_path / "router" / "query_0_Transformer"
    inside.mkdir()
    (inside / "config.json").write_text(config)
    with pytest.raises(ValueError, match=f"give its folder: {inside}\\."):
        sentence_transformers.read(folder)


@pytest.mark.parametrize(
    ("values", "prompts", "note"),
    [
        (PROMPTS, PROMPTS, "query, document; by default each text has 'query'"),
        (
            {"prompts": {"query": "q: "}, "default_prompt_name": None},
            {"prompts": {"query": "q: "}},
            "it has the prompts query; no text has one by default",
        ),
        # As the library writes it for a model without prompts.
        ({"prompts": {"query": "", "document": ""}}, {}, None),
        ({"prompts": None}, {}, None),
        ({"similarity_fn_name": "cosine"}, {}, None),
        ({"similarity_fn_name": None}, {}, None),
        ({"similarity_fn_name": "dot"}, {"similarity_fn_name": "dot"}, None),
    ],
)
def test_prompts_are_read_and_named(tmp_path, values, prompts, note):
    folder = put(tmp_path, BERT, POOLING)
    (tmp_path / TEXTS).write_text(json.dumps(values))
    found = sentence_transformers.read(folder)
    assert found.texts == prompts
    assert len(found.notes) == bool(note)
    assert not note or note in found.notes[0]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "the content is []; it should be an object"),
        ({"similarity_fn_name": 1}, "similarity_fn_name is 1; it should be a"),
        ({"prompts": ["q: "]}, "prompts is ['q: ']; it should be an object"),
        ({"prompts": {"query": None}}, "prompts.query is missing or null"),
        ({"prompts": {"query": 3}}, "prompts.query is 3; it should be a str"),
        ({"prompts": {"query": "\udc80"}}, "prompts.query is '\\udc80', which"),
        ({"prompts": {"\udc80": "q"}}, "a name in prompts is '\\udc80', which"),
        (
            {"default_prompt_name": "query"},
            "default_prompt_name is 'query', and prompts has none",
        ),
        (
            PROMPTS | {"default_prompt_name": "passage"},
            "is 'passage', and prompts has query, document. Name one of them",
        ),
        (PROMPTS | {"default_prompt_name": 0}, "default_prompt_name is 0; it"),
        (PROMPTS | {"truncate_dim": 64}, "truncate_dim=64 is not supported: v"),
    ],
)
def test_wrong_settings_of_texts_are_refused(tmp_path, values, message):
    folder = put(tmp_path, BERT, POOLING)
    (tmp_path / TEXTS).write_text(json.dumps(values))
    with pytest.raises(ValueError) as raised:
        sentence_transformers.read(folder)
    assert message in str(raised.value)
    assert str(raised.value).startswith(str(tmp_path / TEXTS))


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ([module("WordEmbeddings", "0_W")], "lists WordEmbeddings; the first"),
        (
            [BERT, module("Normalize", "1_N")],
            "lists Transformer, Normalize; the first two should be",
        ),
        (  # A class of another library is not its namesake.
            [BERT, POOLING | {"type": "mine.Pooling"}],
            "lists Transformer, mine.Pooling; the first two should be",
        ),
        ([module("Transformer", "../other")], "'../other' is outside the"),
        ([module("Transformer", "/other")], "'/other' is outside the"),
        ([module("Transformer", 0)], r"\[0\].path is 0; it should be a"),
        ([{"idx": 0}], r"\[0\].type is missing or null; it should be a str"),
        ([], "lists nothing; the first two should be a Transformer"),
    ],
)
def test_wrong_module_lists_are_refused(tmp_path, modules, message):
    with pytest.raises(ValueError, match=message):
        sentence_transformers.read(put(tmp_path / "model", *modules))


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("LayerNorm", {}, "lists a module LayerNorm, which is not supported"),
        (
            "Dense",
            {"module_input_name": "token_embeddings"},
            "Dense, with module_input_name='token_embeddings', which is not",
        ),
        ("Dense", {"use_residual": True}, "use_residual=true is not supported"),
        (
            "Dense",
            {"activation_function": "mine.Act"},
            "activation_function 'mine.Act' is not supported; supported are",
        ),
        ("Dense", {"out_features": 4}, r"expected .*'linear.bias': \(4,\)"),
    ],
)
def test_modules_that_are_not_supported_are_refused(
    tmp_path, kind, settings, message
):
    dense = put_dense(tmp_path, 4, 3, **settings)
    dense |= {"type": f"sentence_transformers.models.{kind}"}
    folder = put(tmp_path, BERT, POOLING, dense)
    with pytest.raises(ValueError, match=message):
        sentence_transformers.read(folder)


def test_a_broken_link_is_not_a_folder_without_modules(tmp_path):
    (tmp_path / "modules.json").symlink_to("nowhere")
    with pytest.raises(OSError, match="modules.json"):
        sentence_transformers.read(str(tmp_path))


UNKNOWN = "expected .* one or more of cls, max"


@pytest.mark.parametrize(
    ("pooling", "message"),
    [
        ({}, UNKNOWN),
        ({"pooling_mode": "median"}, UNKNOWN),
        (
            {"pooling_mode_cls_token": False, "pooling_mode_attention": True},
            UNKNOWN,
        ),
        (MEAN | {"include_prompt": False}, "include_prompt=false is not supp"),
        (["mean"], "1_Pooling/config.json: the content"),
    ],
)
def test_unknown_pooling_is_refused(tmp_path, pooling, message):
    folder = put(tmp_path, BERT, POOLING, pooling=pooling)
    with pytest.raises(ValueError, match=message):
        sentence_transformers.read(folder)

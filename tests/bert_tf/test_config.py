import dataclasses
import json
import math

import pytest

from bert_tf import config


@pytest.mark.parametrize("name", ["base", "large"])
@pytest.mark.parametrize("case", ["uncased", "cased"])
def test_named_configs_equal_the_released_files(shared_data, name, case):
    released = shared_data / "config" / f"bert-{name}-{case}.json"
    read = config.BertConfig.from_json_file(released)
    assert read == config.BertConfig.from_name(f"{name}-{case}")


@pytest.mark.parametrize(
    ("name", "layers", "hidden", "vocab_size"),
    [
        ("tiny", 2, 128, 30522),
        ("mini", 4, 256, 30522),
        ("small", 4, 512, 30522),
        ("medium", 8, 512, 30522),
        ("base", 12, 768, 30522),
        ("L-10_H-256", 10, 256, 30522),
        ("large-cased", 24, 1024, 28996),
        ("multilingual", 12, 768, 119547),
        ("base-chinese", 12, 768, 21128),
    ],
)
def test_released_sizes_have_names(name, layers, hidden, vocab_size):
    named = config.BertConfig.from_name(name)
    assert named.num_hidden_layers == layers
    assert named.hidden_size == hidden
    assert named.num_attention_heads == hidden // 64
    assert named.intermediate_size == 4 * hidden
    assert named.vocab_size == vocab_size


def test_all_24_small_models_have_names():
    for layers in (2, 4, 6, 8, 10, 12):
        for hidden in (128, 256, 512, 768):
            config.BertConfig.from_name(f"L-{layers}_H-{hidden}")


def test_a_config_survives_writing_and_reading(tmp_path):
    path = tmp_path / "bert_config.json"
    written = config.BertConfig.from_name("mini", hidden_act="relu")
    written.to_json_file(path)
    assert config.BertConfig.from_json_file(path) == written
    assert [p.name for p in tmp_path.iterdir()] == ["bert_config.json"]


def test_unused_keys_of_released_files_are_ignored():
    values = {"vocab_size": 9, "directionality": "bidi", "pooler_type": "x"}
    assert config.BertConfig.from_dict(values).vocab_size == 9


NUMBERS = ("hidden_dropout_prob", "initializer_range")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hiden_size": 8}, "Unknown keys.*hiden_size"),
        (
            {"hidden_size": 10, "num_attention_heads": 4},
            "hidden_size=10 is not a multiple of num_attention_heads=4",
        ),
        ({"vocab_size": 0}, "vocab_size is 0; it should be an integer from 1"),
        ({"hidden_size": 7.5}, "hidden_size is 7.5; it should be"),
        ({"hidden_dropout_prob": 1.0}, r"=1.0 should be in \[0, 1\)"),
        *(
            ({name: value}, rf"{name}={value} should be")
            for name in NUMBERS
            for value in (math.nan, math.inf, -1)
        ),
        *(
            ({name: value}, f"{name} is .* should be a number")
            for name in NUMBERS
            for value in ("0.1", None, [0.1], True)
        ),
        *(
            ({name: value}, f"{name} is .* should be an int")
            for name in ("hidden_size", "vocab_size")
            for value in ("8", None, [8], True, math.nan, math.inf, 10**4000)
        ),
        ({"num_hidden_layers": 10**6}, "1000000 layers"),
        ({"vocab_size": 2**31 - 1}, r"1.6e\+12 weights"),
        ({"hidden_act": "swish"}, "hidden_act='swish'"),
        ({"is_causal": 1}, "is_causal is 1; it should be true"),
        ({"norm_first": 1}, "norm_first is 1; it should be true"),
        (
            {"bilstm_units": 8},
            "bilstm_units=8 in a BERT config: such a model is of "
            "experiments.bilstm.run_glue and run_squad alone",
        ),
        ({"classifier_pooling": "sum"}, "'sum' should be cls, max, mean"),
        ({"classifier_pooling": True}, "classifier_pooling is True"),
        ({"pooler_act": "gelu"}, "pooler_act='gelu' should be tanh or relu"),
        ({"type_vocab_size": -1}, "type_vocab_size is -1"),
    ],
)
def test_an_error_names_the_value_and_the_file(tmp_path, values, message):
    path = tmp_path / "bert_config.json"
    path.write_text(json.dumps({"vocab_size": 9} | values))
    with pytest.raises(ValueError, match=message) as raised:
        config.BertConfig.from_json_file(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", "it should be an object"),
        ('{"hidden_size": 8}', "needs vocab_size"),
    ],
)
def test_an_error_names_a_file_that_is_not_a_config(tmp_path, text, message):
    path = tmp_path / "bert_config.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as raised:
        config.BertConfig.from_json_file(path)
    assert str(path) in str(raised.value)


def test_an_unknown_name_raises_with_the_known_names():
    with pytest.raises(ValueError, match="'bass'; the names are tiny, mini"):
        config.BertConfig.from_name("bass")


def test_keys_only_bert_tf_knows_are_written_only_when_set():
    own = {"is_causal": True, "norm_first": True, "classifier_pooling": "max"}
    own |= {"pooler_act": "relu"}
    plain = config.BertConfig.from_name("tiny")
    assert not own.keys() & plain.to_dict().keys()
    other = config.BertConfig.from_name("tiny", **own)
    assert other.to_dict() == plain.to_dict() | own
    assert config.BertConfig.from_dict(other.to_dict()) == other
    assert (plain.keys_of_ours(), other.keys_of_ours()) == ({}, own)


def test_small_init_is_a_function_of_the_width(tmp_path):
    path = tmp_path / "bert_config.json"
    values = {"vocab_size": 9, "hidden_size": 128, "num_attention_heads": 2}
    path.write_text(json.dumps(values | {"initializer_range": "small_init"}))
    narrow = config.BertConfig.from_json_file(path)
    assert narrow.initializer_range == pytest.approx(math.sqrt(2 / 640))
    with pytest.raises(ValueError, match="is 'big'; it should be a number, or"):
        config.BertConfig.from_name("base", initializer_range="big")
    wide = config.BertConfig.from_name("base", initializer_range="small_init")
    assert wide.initializer_range == pytest.approx(0.0228, abs=1e-4)
    # Written as a number, which all other formats know.
    assert narrow.to_dict()["initializer_range"] == narrow.initializer_range
    with pytest.raises(ValueError, match="initializer_range is 'small'; it"):
        dataclasses.replace(wide, initializer_range="small")

import dataclasses
import json
import os

import numpy as np
import pytest
import tokenizer_cases
from checkpoint_folders import (
    VOCABULARY,
    assert_same_bits,
    contents_of,
    write,
)
from parity import outputs, transformers_outputs

import bert_tf
from bert_tf.checkpoint.formats.hugging_face import (
    pretrained,
    tokenizer_files,
)
from bert_tf.model import models
from tfrecords.text import tokenizer as our_tokenizer
from tfrecords.text import vocab

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

# Both are float32, but sum in a different order.
TOLERANCE = 2e-5
# Class -> (our task, prefixes of the weights that the class lacks).
CLASSES = {
    "BertModel": ("pretraining", ("masked_lm", "next_sentence")),
    "BertForPreTraining": ("pretraining", ()),
    "BertForMaskedLM": ("pretraining", ("encoder/pooler", "next_sentence")),
    "BertLMHeadModel": ("pretraining", ("encoder/pooler", "next_sentence")),
    "BertForNextSentencePrediction": ("pretraining", ("masked_lm",)),
    "BertForSequenceClassification": ("classification", ()),
    "BertForTokenClassification": ("tagging", ("encoder/pooler",)),
    "BertForQuestionAnswering": ("spans", ("encoder/pooler",)),
    "BertForMultipleChoice": ("multiple_choice", ()),
}


@pytest.fixture
def make_checkpoint(tiny_config):
    """Returns `contents_of` for the tiny config, not that of conftest.py."""

    def make(task, lacking=(), config=tiny_config, **settings):
        return contents_of(config, task, lacking, **settings)

    return make


def peer(name, config, seed=0, **settings):
    """Returns a transformers model with random weights, biases included."""
    torch.manual_seed(seed)
    values = config.to_dict() | {"hidden_act": "gelu"} | settings
    model = getattr(transformers, name)(transformers.BertConfig(**values))
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.1)
    return model.eval()


def save_bin(model, folder):
    """Saves a model as transformers did before it wrote safetensors."""
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    torch.save(model.state_dict(), os.path.join(folder, "pytorch_model.bin"))


def load(folder, **settings):
    """Returns a model of the class in config.json, and the loading report."""
    with open(os.path.join(folder, "config.json")) as file:
        name = json.load(file)["architectures"][0]
    return getattr(transformers, name).from_pretrained(
        folder, output_loading_info=True, **settings
    )


def assert_same_outputs(folder, wanted):
    """Checks that every output of our model equals that of transformers."""
    found = pretrained.read(folder)
    batch = outputs.batch(found.config, found.task)
    ours = outputs.outputs(found, batch)
    theirs = transformers_outputs.of_folder(folder, batch)
    assert set(theirs) == set(ours)
    assert set(wanted) <= set(theirs)
    for name, difference in outputs.differences(ours, theirs).items():
        assert difference < TOLERANCE, name


def assert_same_weights(*folders):
    found, expected = (pretrained.read(str(x)).tensors for x in folders)
    assert_same_bits(found, expected)


@pytest.mark.parametrize("name", CLASSES)
def test_a_transformers_model_has_the_same_outputs_here(
    tmp_path, tiny_config, name
):
    task, lacking = CLASSES[name]
    settings = (
        {"num_labels": 3} if task in ("classification", "tagging") else {}
    )
    peer(name, tiny_config, **settings).save_pretrained(tmp_path)
    found = pretrained.read(str(tmp_path))
    assert found.task == task
    assert not found.unused
    assert found.missing() == [
        weight for weight in found.shapes() if weight.startswith(lacking)
    ]
    heads = {
        "pretraining": (),
        "spans": ("start_logits", "end_logits"),
    }.get(task, ("logits",))
    if name in ("BertForPreTraining", "BertForMaskedLM", "BertLMHeadModel"):
        heads += ("masked_lm_logits",)
    if name in ("BertForPreTraining", "BertForNextSentencePrediction"):
        heads += ("next_sentence_logits",)
    assert_same_outputs(str(tmp_path), heads)


@pytest.mark.parametrize(
    "name, settings, wanted",
    [
        ("Model", {}, "sequence_output"),
        ("ForMaskedLM", {}, "masked_lm_logits"),
        ("ForSequenceClassification", {"num_labels": 3}, "logits"),
        ("ForSequenceClassification", {"num_labels": 1}, "predictions"),
        ("ForTokenClassification", {"activation": "relu"}, "logits"),
        ("ForQuestionAnswering", {"sinusoidal_pos_embds": True}, "end_logits"),
        ("ForMultipleChoice", {}, "logits"),
    ],
)
def test_a_distilbert_has_the_same_outputs_here_and_is_written_again(
    tmp_path, tiny_config, name, settings, wanted
):
    torch.manual_seed(0)
    config = transformers.DistilBertConfig(
        vocab_size=tiny_config.vocab_size,
        **{"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32},
        **settings,
    )
    model = getattr(transformers, f"DistilBert{name}")(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.1)
    model.save_pretrained(tmp_path / "theirs")
    assert_same_outputs(str(tmp_path / "theirs"), [wanted])
    given = dataclasses.replace(
        pretrained.read(str(tmp_path / "theirs")),
        vocabulary=VOCABULARY,
        do_lower_case=True,
    )
    folder = write(given, tmp_path / "ours", "hugging_face")
    assert_same_outputs(folder, [wanted])
    again, report = load(folder)
    assert not any(report.values()), report
    theirs, ours = model.config.to_dict(), again.config.to_dict()
    names = ("dim", "n_layers", "dropout", "activation", "seq_classif_dropout")
    assert [theirs[x] for x in names] == [ours[x] for x in names]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert set(tokenizer("the", "of")) == {"input_ids", "attention_mask"}


@pytest.mark.parametrize("act", ["gelu_new", "gelu_pytorch_tanh", "relu"])
def test_each_activation_is_the_same_function(tmp_path, tiny_config, act):
    model = peer("BertForMaskedLM", tiny_config, hidden_act=act)
    model.save_pretrained(tmp_path)
    assert_same_outputs(str(tmp_path), ["masked_lm_logits"])


def test_a_classifier_with_one_label_is_a_regression(tmp_path, tiny_config):
    model = peer("BertForSequenceClassification", tiny_config, num_labels=1)
    model.save_pretrained(tmp_path)
    assert pretrained.read(str(tmp_path)).task == "regression"
    assert_same_outputs(str(tmp_path), ["predictions"])


def test_a_bare_encoder_may_have_no_pooler(tmp_path, tiny_config):
    values = tiny_config.to_dict() | {"hidden_act": "gelu"}
    model = transformers.BertModel(
        transformers.BertConfig(**values), add_pooling_layer=False
    )
    model.save_pretrained(tmp_path)
    assert_same_outputs(str(tmp_path), ["sequence_output"])


@pytest.mark.parametrize("name", ["BertModel", "BertForPreTraining"])
def test_a_bin_file_is_read_as_the_same_model(tmp_path, tiny_config, name):
    model = peer(name, tiny_config)
    model.save_pretrained(tmp_path / "safetensors")
    (tmp_path / "bin").mkdir()
    save_bin(model, tmp_path / "bin")
    assert_same_weights(tmp_path / "bin", tmp_path / "safetensors")
    assert_same_outputs(str(tmp_path / "bin"), ["sequence_output"])


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
@pytest.mark.parametrize("is_bin", [False, True])
def test_half_precision_becomes_float32_with_the_same_values(
    tmp_path, tiny_config, kind, is_bin
):
    model = peer("BertModel", tiny_config).to(getattr(torch, kind))
    if is_bin:
        save_bin(model, tmp_path)
    else:
        model.save_pretrained(tmp_path)
    found = pretrained.read(str(tmp_path))
    assert any(f"39 tensors converted from {kind}" in x for x in found.notes)
    expected = model.state_dict()["pooler.dense.weight"].float().numpy().T
    kernel = found.tensors["encoder/pooler/kernel"]
    assert kernel.dtype == np.float32
    np.testing.assert_array_equal(kernel, expected)
    assert_same_outputs(str(tmp_path), ["pooled_output"])


def test_shards_of_a_bin_file_are_read(tmp_path, tiny_config):
    model = peer("BertModel", tiny_config)
    folder = tmp_path / "shards"
    for path in (tmp_path / "single", folder):
        path.mkdir()
        save_bin(model, path)
    content = list(model.state_dict().items())
    weight_map = {}
    for i, part in enumerate((content[:9], content[9:]), 1):
        shard = f"pytorch_model-{i:05}-of-00002.bin"
        torch.save(dict(part), folder / shard)
        weight_map |= dict.fromkeys(dict(part), shard)
    (folder / "pytorch_model.bin").unlink()
    index = folder / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    assert_same_weights(folder, tmp_path / "single")
    assert_same_outputs(str(folder), ["sequence_output"])


def test_shards_are_read(tmp_path, tiny_config):
    model = peer("BertForPreTraining", tiny_config)
    model.save_pretrained(tmp_path / "single")
    model.save_pretrained(tmp_path / "shards", max_shard_size="8KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 2
    assert_same_weights(tmp_path / "shards", tmp_path / "single")
    assert_same_outputs(str(tmp_path / "shards"), ["masked_lm_logits"])


@pytest.mark.parametrize("task", models.TASK_MODELS)
def test_transformers_loads_our_folder_without_missing_or_unexpected_keys(
    tmp_path, make_checkpoint, task
):
    given = make_checkpoint(task)
    folder = write(given, tmp_path / "model", "hugging_face")
    model, report = load(folder)
    assert not any(report.values()), report
    # The table has every weight of theirs except the two tied ones.
    tied = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    rows = {row.theirs for row in pretrained.table(given.config, task)}
    pooler = {x for x in rows if x.startswith("bert.pooler")}
    assert rows - set(model.state_dict()) <= pooler
    assert set(model.state_dict()) - rows <= tied
    head = {
        "pretraining": "masked_lm_logits",
        "regression": "predictions",
        "spans": "start_logits",
    }
    found = pretrained.read(folder)
    batch = outputs.batch(found.config, task)
    theirs = transformers_outputs.of_folder(folder, batch)
    assert head.get(task, "logits") in theirs
    differences = outputs.differences(outputs.outputs(found, batch), theirs)
    assert max(differences.values()) < TOLERANCE


@pytest.mark.parametrize(
    ("lacking", "settings"),
    [
        (("masked_lm", "next_sentence"), {}),
        (("encoder/pooler", "next_sentence"), {}),
        (("next_sentence",), {}),
        (("masked_lm",), {}),
        (
            ("encoder/pooler", "masked_lm", "next_sentence"),
            {"add_pooling_layer": False},
        ),
    ],
)
def test_transformers_loads_a_folder_without_some_parts(
    tmp_path, make_checkpoint, lacking, settings
):
    given = make_checkpoint("pretraining", lacking)
    folder = write(given, tmp_path / "model", "hugging_face")
    _, report = load(folder, **settings)
    assert not any(report.values()), report
    assert set(pretrained.read(folder).tensors) == set(given.tensors)


@pytest.mark.parametrize("rules", tokenizer_cases.RULES, ids=str)
def test_the_written_tokenizer_gives_the_same_ids(
    tmp_path, make_checkpoint, rules
):
    given = make_checkpoint(
        "pretraining",
        vocabulary=vocab.to_bytes(tokenizer_cases.ENTRIES),
        do_lower_case=rules["do_lower_case"],
        metadata={n: x for n, x in rules.items() if n != "do_lower_case"},
    )
    folder = write(given, tmp_path / "ours", "hugging_face")
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ours = our_tokenizer.BertTokenizer(tokenizer_cases.ENTRIES, **rules)
    text = "Able TION, İ éß e\u0301 漢漢a can't. ş \xa0字漢"
    assert theirs.model_max_length == 64
    assert theirs(text)["input_ids"][1:-1] == ours([text]).to_list()[0]


@pytest.mark.parametrize("length", [64, 12])
def test_special_tokens_in_texts_are_those_of_transformers(tmp_path, length):
    """Alone and in pairs; with 12 tokens, one stands where a text is cut."""
    content = "".join(f"{entry}\n" for entry in tokenizer_cases.ENTRIES)
    rules = {"do_lower_case": True, "split_special_tokens": False}
    tokenizer_files.write(content.encode(), rules, 64, str(tmp_path))
    theirs = transformers.BertTokenizerFast.from_pretrained(tmp_path)
    preprocess = bert_tf.TextPreprocessor(
        tokenizer_cases.ENTRIES, max_seq_length=length, **rules
    )
    texts = [
        *("[SEP]", "the[SEP][SEP]THE [sep]", "[PAD] [UNK]s [[MASK]] [ SEP ]"),
        *("é[SEP]\u0301 a\u200b[SEP]\x00b", "a a a a a [CLS] a a a [SEP] a"),
    ]
    for others in (None, ["in", "[SEP]in", "[CLS] the", "a [SEP]", "[SEP]"]):
        wanted = theirs(
            *([texts] if others is None else [texts, others]),
            truncation=True,
            padding="max_length",
            max_length=length,
        )
        ours = preprocess(texts, others)
        for name, own in (
            ("input_ids", "input_word_ids"),
            ("attention_mask", "input_mask"),
            ("token_type_ids", "input_type_ids"),
        ):
            assert ours[own].numpy().tolist() == wanted[name]


def test_a_tokenizer_saved_by_transformers_is_read(
    tmp_path, tiny_config, tiny_vocab_file
):
    peer("BertModel", tiny_config).save_pretrained(tmp_path)
    transformers.BertTokenizerFast.from_pretrained(
        os.path.dirname(tiny_vocab_file),
        do_lower_case=False,
        strip_accents=True,
    ).save_pretrained(tmp_path)
    # transformers 4 writes both files, 5 only tokenizer.json.
    (tmp_path / "vocab.txt").unlink(missing_ok=True)
    found = pretrained.read(str(tmp_path))
    with open(tiny_vocab_file, "rb") as file:
        assert found.vocabulary == file.read()
    assert found.rules() == {"do_lower_case": False, "strip_accents": True}
    assert not found.tokenizer_differences


GENERIC = {"tokenizer_class": "PreTrainedTokenizerFast"}
LEFT = {
    "direction": "Left",
    "max_length": 9,
    "strategy": "LongestFirst",
    "stride": 0,
}


@pytest.mark.parametrize(
    ("settings", "tokenizer", "is_different"),
    [
        ({}, {}, False),
        ({"pad_token": "[MASK]"}, {}, False),
        ({"truncation_side": "left"}, {}, True),
        ({"cls_token": "[MASK]"}, {}, True),
        ({"additional_special_tokens": ["able"]}, {}, True),
        ({"model_input_names": ["input_ids"]}, {}, True),
        # Version 5 makes the tokenizer of BERT's classes anew.
        (GENERIC, {"model": {"unk_token": "[MASK]"}}, True),
        (GENERIC, {"model": {"max_input_chars_per_word": 3}}, True),
        (GENERIC, {"post_processor": None}, True),
        (GENERIC, {"truncation": LEFT}, True),
    ],
)
def test_settings_that_change_ids_are_differences(
    tmp_path, make_checkpoint, settings, tokenizer, is_different
):
    entries = [*vocab.SPECIAL_TOKENS, "able", "##t", "a", "##b"]
    # Of the tasks that read pairs.
    given = make_checkpoint(
        "classification",
        vocabulary=vocab.to_bytes(entries),
        do_lower_case=True,
    )
    folder = write(given, tmp_path / "ours", "hugging_face")

    def ids():
        theirs = transformers.AutoTokenizer.from_pretrained(folder)
        found = theirs(
            "a ablet zz a a", "a able", truncation=True, max_length=9
        )
        return found["input_ids"], found.get("token_type_ids")

    assert not pretrained.read(folder).tokenizer_differences
    inputs = {"model_input_names": ["input_ids", "token_type_ids"]}
    files = {
        "tokenizer_config.json": inputs | settings,
        "tokenizer.json": tokenizer,
    }
    wanted = ids()
    for name, changes in files.items():
        with open(os.path.join(folder, name)) as file:
            values = json.load(file)
        for key, value in changes.items():
            is_part = isinstance(values.get(key), dict) and value is not None
            values[key] = values[key] | value if is_part else value
        with open(os.path.join(folder, name), "w") as file:
            json.dump(values, file)
    assert (ids() != wanted) == is_different
    found = pretrained.read(folder).tokenizer_differences
    assert bool(found) == is_different, found

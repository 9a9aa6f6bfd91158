import dataclasses
import json
import os

import numpy as np
import pytest
from checkpoint_folders import assert_same_bits, moments, write
from safetensors import numpy as safetensors_numpy

from bert_tf.checkpoint import detection
from bert_tf.checkpoint.formats.hugging_face import pretrained

VOCABULARY = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n"
HEADLESS = ("encoder/pooler", "masked_lm")
PAIRS = "next_sentence/dense/kernel, next_sentence/dense/bias"


@pytest.fixture
def folder(tmp_path, make_checkpoint):
    """A pre-training model as saved by transformers."""
    return write(
        make_checkpoint("pretraining"), tmp_path / "model", "hugging_face"
    )


def change_tensors(folder, change):
    """Applies a function `change` to the dict of a folder's weights."""
    path = os.path.join(folder, "model.safetensors")
    tensors = change(safetensors_numpy.load_file(path))
    # Tensors that were opened before are still those of the old file.
    safetensors_numpy.save_file(tensors, f"{path}.new", {"format": "pt"})
    os.replace(f"{path}.new", path)


def change_config(folder, **values):
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        content = json.load(file) | values
    with open(path, "w") as file:
        json.dump(content, file)


def with_tensor(name, shape):
    """Returns a change that adds or replaces a tensor by one of zeros."""
    return lambda tensors: tensors | {name: np.zeros(shape, np.float32)}


def refusal(folder):
    with pytest.raises(ValueError) as raised:
        pretrained.read(folder)
    assert folder in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("lacking", "architecture"),
    [
        ((), "BertForPreTraining"),
        (("encoder/pooler", "next_sentence"), "BertForMaskedLM"),
        (("masked_lm",), "BertForNextSentencePrediction"),
        (("masked_lm", "next_sentence"), "BertModel"),
        (("encoder/pooler", "masked_lm", "next_sentence"), "BertModel"),
        # BertForMaskedLM has no pooler, which goes to the sidecar.
        (("next_sentence",), "BertForMaskedLM"),
    ],
)
def test_missing_parts_determine_the_class_and_stay_missing(
    tmp_path, make_checkpoint, lacking, architecture
):
    given = make_checkpoint("pretraining", lacking)
    folder = write(given, tmp_path / "model", "hugging_face")
    with open(os.path.join(folder, "config.json")) as file:
        assert json.load(file)["architectures"] == [architecture]
    found = pretrained.read(folder)
    assert_same_bits(found.tensors, given.tensors)
    assert found.missing() == given.missing()
    names = safetensors_numpy.load_file(f"{folder}/model.safetensors")
    has_prefix = architecture != "BertModel"
    assert has_prefix == ("bert.embeddings.LayerNorm.bias" in names)


def test_the_sidecar_of_other_weights_is_ignored(tmp_path, make_checkpoint):
    slots = {"m/spans/dense/bias": np.ones(2, np.float32)}
    given = make_checkpoint("spans", slots=slots, step=3)
    folder = write(given, tmp_path / "model", "hugging_face")
    change_tensors(folder, with_tensor("qa_outputs.bias", (2,)))
    found = pretrained.read(folder)
    assert set(given.tensors) - set(found.tensors) == {
        "encoder/pooler/kernel",
        "encoder/pooler/bias",
    }
    assert found.notes[-1] == (
        "bert_tf.json is ignored: its checksums do not match model.safetensors"
    )
    assert (found.slots, found.step) == ({}, 0)


def old_names(tensors):
    return {
        name.removeprefix("bert.")
        .replace("LayerNorm.weight", "LayerNorm.gamma")
        .replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in tensors.items()
    }


def with_tied_weights_and_buffers(tensors):
    words = tensors["bert.embeddings.word_embeddings.weight"]
    return tensors | {
        "cls.predictions.decoder.weight": words,
        "cls.predictions.decoder.bias": tensors["cls.predictions.bias"],
        "bert.embeddings.position_ids": np.arange(64)[None],
    }


def only_the_tied_name(tensors):
    bias = tensors.pop("cls.predictions.bias")
    return tensors | {"cls.predictions.decoder.bias": bias}


@pytest.mark.parametrize(
    "change", [old_names, with_tied_weights_and_buffers, only_the_tied_name]
)
def test_other_names_of_the_same_tensors_are_read(folder, change):
    before = pretrained.read(folder)
    change_tensors(folder, change)
    found = pretrained.read(folder)
    assert_same_bits(found.tensors, before.tensors)
    assert not found.unused


def untied(tensors):
    words = tensors["bert.embeddings.word_embeddings.weight"].copy()
    words[-1, -1] = np.nextafter(words[-1, -1], np.float32(9))
    return tensors | {"cls.predictions.decoder.weight": words}


def without(*parts):
    return lambda tensors: {
        n: x for n, x in tensors.items() if not n.startswith(parts)
    }


def quantised(tensors):
    name = "bert.pooler.dense.weight"
    return tensors | {name: tensors[name].astype(np.int8)}


@pytest.mark.parametrize(
    ("change", "architecture", "message"),
    [
        (
            untied,
            "BertForPreTraining",
            "cls.predictions.decoder.weight (203, 16) differs from "
            "encoder/embeddings/word_embeddings (203, 16)",
        ),
        (
            without("cls."),
            "BertForMaskedLM",
            "missing:      cls.predictions.bias (203,)",
        ),
        (
            without("bert.pooler.dense.bias"),
            "BertModel",
            "missing:      bert.pooler.dense.bias (16,)",
        ),
        (
            quantised,
            "BertForPreTraining",
            "these are not: encoder/pooler/kernel int8",
        ),
    ],
)
def test_tensors_that_make_no_such_model_are_refused(
    folder, change, architecture, message
):
    change_tensors(folder, change)
    change_config(folder, architectures=[architecture])
    assert message in refusal(folder)


def test_parts_that_the_class_lacks_are_read_too(folder):
    # Like bert-base-uncased on the hub: the class is a masked LM, but the file
    # has the pooler and both heads.
    before = pretrained.read(folder)
    change_config(folder, architectures=["BertForMaskedLM"])
    assert_same_bits(pretrained.read(folder).tensors, before.tensors)


@pytest.mark.parametrize("prefix", ["module.", "model."])
@pytest.mark.parametrize("own", ["bert.", ""])
def test_a_prefix_of_all_names_is_ignored_with_a_note(folder, prefix, own):
    expected = pretrained.read(folder).tensors
    change_tensors(
        folder,
        lambda tensors: {
            prefix + n.replace("bert.", own): t for n, t in tensors.items()
        },
    )
    found = pretrained.read(folder)
    assert found.notes[-1] == (
        f"all names have the prefix {prefix!r}, which is ignored"
    )
    assert_same_bits(found.tensors, expected)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "_orig_mod.module."),
        ("bert.", "bert._orig_mod."),
        (
            "encoder.",
            "encoder._fsdp_wrapped_module._checkpoint_wrapped_module.",
        ),
    ],
)
def test_wrappers_inside_names_are_ignored_with_notes(folder, before, after):
    expected = pretrained.read(folder).tensors
    change_tensors(
        folder,
        lambda tensors: {
            n.replace(before, after, 1): t for n, t in tensors.items()
        },
    )
    found = pretrained.read(folder)
    wrapper = after.split(".")[-2 if before else 0]
    assert f"names have the part {wrapper!r} of a module" in str(found.notes)
    assert_same_bits(found.tensors, expected)


# Names of transformers 5.24 -> shapes, for H = 8, I = 12 and one layer.
_LAYER = "distilbert.transformer.layer.0."
DISTILBERT = {
    "distilbert.embeddings.word_embeddings.weight": (6, 8),
    "distilbert.embeddings.position_embeddings.weight": (7, 8),
    "distilbert.embeddings.LayerNorm.weight": (8,),
    "distilbert.embeddings.LayerNorm.bias": (8,),
    **{
        f"{_LAYER}attention.{name}_lin.{part}": (8, 8)[: 1 + (part != "bias")]
        for name in ("q", "k", "v", "out")
        for part in ("weight", "bias")
    },
    f"{_LAYER}sa_layer_norm.weight": (8,),
    f"{_LAYER}sa_layer_norm.bias": (8,),
    f"{_LAYER}ffn.lin1.weight": (12, 8),
    f"{_LAYER}ffn.lin1.bias": (12,),
    f"{_LAYER}ffn.lin2.weight": (8, 12),
    f"{_LAYER}ffn.lin2.bias": (8,),
    f"{_LAYER}output_layer_norm.weight": (8,),
    f"{_LAYER}output_layer_norm.bias": (8,),
}
_POOLER = {"pre_classifier.weight": (8, 8), "pre_classifier.bias": (8,)}
DISTILBERT_HEADS = {
    "DistilBertModel": {},
    "DistilBertForMaskedLM": {
        "vocab_transform.weight": (8, 8),
        "vocab_transform.bias": (8,),
        "vocab_layer_norm.weight": (8,),
        "vocab_layer_norm.bias": (8,),
        "vocab_projector.bias": (6,),
    },
    "DistilBertForSequenceClassification": _POOLER
    | {"classifier.weight": (2, 8), "classifier.bias": (2,)},
    "DistilBertForMultipleChoice": _POOLER
    | {"classifier.weight": (1, 8), "classifier.bias": (1,)},
    "DistilBertForTokenClassification": {
        "classifier.weight": (2, 8),
        "classifier.bias": (2,),
    },
    "DistilBertForQuestionAnswering": {
        "qa_outputs.weight": (2, 8),
        "qa_outputs.bias": (2,),
    },
}


@pytest.mark.parametrize("architecture", DISTILBERT_HEADS)
def test_a_distilbert_is_read_and_written_again(tmp_path, architecture):
    values = {
        "architectures": [architecture],
        "model_type": "distilbert",
        **{"vocab_size": 6, "dim": 8, "n_layers": 1, "n_heads": 2},
        **{"hidden_dim": 12, "max_position_embeddings": 7},
        **{"activation": "gelu", "dropout": 0.2, "attention_dropout": 0.3},
        **{"seq_classif_dropout": 0.4, "sinusoidal_pos_embds": False},
        "tie_weights_": True,
    }
    source = tmp_path / "source"
    source.mkdir()
    (source / "config.json").write_text(json.dumps(values))
    (source / "vocab.txt").write_bytes(VOCABULARY)
    rng = np.random.default_rng(0)
    is_bare = architecture == "DistilBertModel"
    tensors = {
        name.removeprefix("distilbert." * is_bare): rng.random(shape, "f")
        for name, shape in (DISTILBERT | DISTILBERT_HEADS[architecture]).items()
    }
    path = source / "model.safetensors"
    safetensors_numpy.save_file(tensors, path, {"format": "pt"})
    given = pretrained.read(str(source))
    assert given.config.is_distilbert and not given.unused
    assert not given.tokenizer_differences
    folder = write(given, tmp_path / "again", "hugging_face")
    found = safetensors_numpy.load_file(f"{folder}/model.safetensors")
    assert_same_bits(found, tensors)
    with open(f"{folder}/config.json") as file:
        written = json.load(file)
    assert written.items() >= values.items()
    assert not {"hidden_size", "pooler_act", "layer_norm_eps"} & written.keys()
    with open(f"{folder}/tokenizer_config.json") as file:
        assert json.load(file)["tokenizer_class"] == "DistilBertTokenizer"
    words = tensors[("distilbert." * (not is_bare)) + pretrained._WORDS]
    tied = with_tensor("vocab_projector.weight", words.shape)
    if "ForMaskedLM" in architecture:
        change_tensors(folder, tied)
        assert "vocab_projector.weight (6, 8) differs from" in refusal(folder)


@pytest.mark.parametrize(
    ("task", "is_different"), [("classification", True), ("tagging", False)]
)
def test_missing_type_ids_count_for_models_of_pairs(
    tmp_path, make_checkpoint, task, is_different
):
    given = dataclasses.replace(
        make_checkpoint(task), vocabulary=VOCABULARY, do_lower_case=True
    )
    folder = write(given, tmp_path / "model", "hugging_face")
    path = tmp_path / "model/tokenizer_config.json"
    values = json.loads(path.read_text())
    names = {"model_input_names": ["input_ids", "attention_mask"]}
    path.write_text(json.dumps(values | names))
    found = pretrained.read(folder).tokenizer_differences
    assert bool(found) == is_different


def test_weights_with_and_without_a_wrapper_are_refused(folder):
    name = "encoder.layer.0.output.dense.bias"
    change_tensors(
        folder,
        lambda tensors: (
            tensors
            | {
                n.replace(name, f"_orig_mod.{name}"): t
                for n, t in tensors.items()
                if name in n
            }
        ),
    )
    with pytest.raises(ValueError, match="there twice, .* _orig_mod of a mod"):
        pretrained.read(folder)


@pytest.mark.parametrize(
    "name", ["query.base_layer.weight", "query.lora_A.default.weight"]
)
def test_an_adapter_that_is_not_merged_is_refused(folder, name):
    name = f"bert.encoder.layer.0.attention.self.{name}"
    change_tensors(folder, lambda x: x | {name: np.ones(2, np.float32)})
    assert f"{name} is of an adapter of PEFT" in refusal(folder)
    assert "merge_and_unload()" in refusal(folder)


def test_a_prefix_that_not_all_names_have_is_named(folder):
    num_names = len(pretrained.read(folder).tensors)

    def change(tensors):
        wrapped = {f"model.{n}": t for n, t in tensors.items()}
        return wrapped | {"loss": np.ones(2, np.float32)}

    change_tensors(folder, change)
    message = refusal(folder)
    total = 2 * num_names + 1
    assert (
        f"{total} tensors do not match (hugging_face {folder}; names have the "
        "prefix 'model.', which is not ignored since others lack it: loss)."
    ) in message
    # Ten of each kind, and how many more.
    assert message.count("  - missing: ") == 10
    assert message.count("  + unexpected: ") == 10
    assert f"  and {num_names + 1 - 10} more\n" in message


def test_a_head_of_another_task_is_unused(folder):
    change_tensors(folder, with_tensor("classifier.weight", (2, 16)))
    assert pretrained.read(folder).unused == ("classifier.weight",)


def test_float16_keeps_its_values_and_float64_is_rounded(folder):
    before = pretrained.read(folder)
    change_tensors(
        folder,
        lambda tensors: {
            name: tensor.astype(np.float16 if "cls" in name else np.float64)
            for name, tensor in tensors.items()
        },
    )
    found = pretrained.read(folder)
    assert (
        "7 tensors converted from float16 to float32, with the same values"
        in found.notes
    )
    assert (
        "39 tensors converted from float64 to float32, rounded" in found.notes
    )
    for name, tensor in before.tensors.items():
        if not name.startswith("encoder"):
            tensor = tensor.astype(np.float16).astype(np.float32)
        np.testing.assert_array_equal(found.tensors[name], tensor)


@pytest.mark.parametrize(
    ("task", "lacking", "missing"),
    [
        ("spans", "spans", "spans/dense/kernel"),
        ("pretraining", "encoder/layer_1", "encoder/layer_1/attention/query"),
        ("classification", "encoder/pooler", "encoder/pooler/kernel"),
    ],
)
def test_incomplete_models_are_not_written(
    tmp_path, make_checkpoint, task, lacking, missing
):
    given = make_checkpoint(task, [lacking])
    with pytest.raises(ValueError, match=f"test has no {missing}"):
        write(given, tmp_path / "model", "hugging_face")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("lacking", "step", "has_slots", "named"),
    [
        ((), 3, False, "BertForPreTraining cannot hold step 3"),
        (HEADLESS, 0, False, f"BertModel cannot hold {PAIRS}"),
        (
            *(HEADLESS, 7, True),
            f"BertModel cannot hold {PAIRS}, 78 optimizer slots, step 7",
        ),
    ],
)
def test_the_rest_goes_to_the_sidecar_with_a_warning(
    tmp_path, make_checkpoint, caplog, lacking, step, has_slots, named
):
    given = make_checkpoint("pretraining", lacking, step=step)
    slots = moments(given) if has_slots else {}
    given = dataclasses.replace(given, slots=slots)
    write(given, tmp_path / "model", "hugging_face")
    assert (
        f"{named}; this is written to bert_tf.safetensors and bert_tf.json, "
        "which transformers does not read"
    ) in caplog.text
    assert ("add_pooling_layer=False" in caplog.text) == bool(lacking)
    assert "no tokenizer is written" in caplog.text
    files = {"bert_tf.json", "config.json", "model.safetensors"}
    files |= {"bert_tf.safetensors"} if lacking else set()
    assert {path.name for path in (tmp_path / "model").iterdir()} == files


def test_an_unknown_case_is_warned_about(tmp_path, make_checkpoint, caplog):
    given = make_checkpoint("regression", vocabulary=VOCABULARY)
    folder = write(given, tmp_path / "model", "hugging_face")
    assert "does not specify do_lower_case" in caplog.text
    assert pretrained.read(folder).do_lower_case is None
    assert not os.path.exists(f"{folder}/bert_tf.safetensors")


def test_hugging_face_folders_are_detected(tmp_path, make_checkpoint):
    given = make_checkpoint("regression")
    theirs = write(given, tmp_path / "theirs", "hugging_face")
    assert not detection.is_hugging_face(str(tmp_path))
    assert not detection.is_hugging_face(str(tmp_path / "nothing"))
    change_config(theirs, registered_name="keras_hub>BertBackbone")
    assert not detection.is_hugging_face(theirs)
    os.remove(f"{theirs}/config.json")
    assert detection.is_hugging_face(theirs)
    assert "config.json is missing" in refusal(theirs)


def test_safetensors_need_neither_torch_nor_transformers(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    assert not pretrained.read(folder).missing()

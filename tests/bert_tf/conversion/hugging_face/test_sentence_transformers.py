import json

import pytest

from bert_tf.conversion import formats
from bert_tf.conversion.hugging_face import pretrained, sentence_transformers
from tfrecords.io import atomic_files

MEAN = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}


def module(kind, path):
    return {
        "idx": 0,
        "name": "0",
        "path": path,
        "type": f"sentence_transformers.models.{kind}",
    }


def put(folder, *modules, pooling=MEAN):
    folder.mkdir(exist_ok=True)
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return str(folder)


@pytest.mark.parametrize("subfolder", ["", "0_Transformer"])
def test_the_bert_inside_is_read(tmp_path, make_checkpoint, subfolder):
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
    folder = put(
        tmp_path / "model",
        module("Transformer", subfolder),
        module("Pooling", "1_Pooling"),
        module("Normalize", "2_Normalize"),
    )
    assert formats.is_hugging_face(folder)
    found = pretrained.read(folder)
    assert set(found.tensors) == set(given.tensors)
    assert found.notes[0] == (
        "sentence-transformers computes its embeddings from sequence_output by "
        "pooling mean_tokens, then Normalize; only the BERT is read, and "
        "pooled_output is not such an embedding"
    )


@pytest.mark.parametrize(
    ("pooling", "name"),
    [
        ({"pooling_mode": "cls"}, "pooling cls;"),
        ({}, "pooling of an unknown mode;"),
        (
            {"pooling_mode_max_tokens": True} | MEAN,
            "pooling max_tokens and mean_tokens;",
        ),
    ],
)
def test_pooling_is_named(tmp_path, pooling, name):
    folder = put(
        tmp_path / "model",
        module("Transformer", ""),
        module("Pooling", "1_Pooling"),
        pooling=pooling,
    )
    inside, (note,) = sentence_transformers.find(folder)
    assert inside == folder
    assert name in note


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ([module("WordEmbeddings", "0_W")], "lists WordEmbeddings; the first"),
        ([module("Transformer", "../other")], "'../other' is outside the"),
        ([module("Transformer", "/other")], "'/other' is outside the"),
        ([{"idx": 0}], r"\[0\].type is missing or null; it should be a str"),
        ([], "should be a Transformer"),
    ],
)
def test_wrong_module_lists_are_refused(tmp_path, modules, message):
    with pytest.raises(ValueError, match=message):
        sentence_transformers.find(put(tmp_path / "model", *modules))


def test_a_pooling_config_without_an_object_is_named(tmp_path):
    modules = module("Transformer", ""), module("Pooling", "1_Pooling")
    folder = put(tmp_path, *modules, pooling=["mean"])
    with pytest.raises(ValueError, match="1_Pooling/config.json: the content"):
        sentence_transformers.find(folder)


def test_a_path_that_is_not_a_string_is_refused(tmp_path):
    folder = put(tmp_path, module("Transformer", 0))
    with pytest.raises(ValueError, match=r"\[0\].path is 0; it should be a"):
        sentence_transformers.find(folder)

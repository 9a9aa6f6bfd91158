import json

import pytest

from bert_tf.checkpoint.formats import renaming
from bert_tf.checkpoint.formats.hugging_face import config_json

SIZES = {
    "model_type": "bert",
    "vocab_size": 30,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
}


def parse(names=(), **values):
    return config_json.parse(SIZES | values, names, "bert/config.json")


def of(architecture, **values):
    return parse(architectures=[architecture], **values)


@pytest.mark.parametrize(
    "model_type",
    [
        "roberta",
        "distilbert",
        "albert",
        "electra",
        "xlm-roberta",
        "modernbert",
        "deberta-v2",
        "gpt2",
    ],
)
def test_a_model_that_is_not_bert_is_named(tmp_path, model_type):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(SIZES | {"model_type": model_type}))
    message = (
        f"{tmp_path} is not a BERT: config.json has model_type '{model_type}'"
    )
    with pytest.raises(ValueError, match=message):
        config_json.read_values(str(tmp_path))


def test_an_old_file_is_recognized_by_its_class(tmp_path):
    path = tmp_path / "config.json"
    old = {k: v for k, v in SIZES.items() if k != "model_type"}
    path.write_text(json.dumps(old))
    assert config_json.read_values(str(tmp_path)) == old
    path.write_text(json.dumps(old | {"architectures": ["BertModel"]}))
    config_json.read_values(str(tmp_path))
    path.write_text(json.dumps(old | {"architectures": ["RobertaModel"]}))
    with pytest.raises(ValueError, match="has model_type 'RobertaModel'"):
        config_json.read_values(str(tmp_path))


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_a_file_without_a_json_object_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"config\.json(: the| is not JSON)"):
        config_json.read_values(str(tmp_path))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("is_decoder", True, "is_decoder=True; bert_tf supports only False"),
        ("add_cross_attention", True, "add_cross_attention=True"),
        ("position_embedding_type", "relative_key", "supports only 'absolute'"),
        (
            "layer_norm_eps",
            1e-5,
            "layer_norm_eps=1e-05; bert_tf supports only 1e-12",
        ),
        ("pruned_heads", {"0": [1]}, "pruned_heads="),
        ("quantization_config", {"bits": 8}, "quantization_config="),
        (
            "hidden_act",
            "silu",
            "hidden_act='silu' is not one of gelu, gelu_python",
        ),
        ("hidden_size", 9, "hidden_size=9 is not a multiple of"),
        ("vocab_size", "30", "vocab_size is '30'; it should be an integer"),
        ("hidden_dropout_prob", "0.1", "'0.1'; it should be a number"),
        (
            "architectures",
            ["BertCrf"],
            r"architectures=\['BertCrf'\]; expected",
        ),
    ],
)
def test_unsupported_settings_are_refused(key, value, message):
    with pytest.raises(ValueError, match=f"^bert/config.json: .*{message}"):
        parse(**{key: value})


@pytest.mark.parametrize(("theirs", "ours"), config_json.ACTIVATIONS.items())
def test_activations_are_renamed_and_gelu_is_noted(theirs, ours):
    found = parse(hidden_act=theirs)
    assert found.config.hidden_act == ours
    if "gelu" in ours:
        form = "erf" if ours == "gelu_erf" else "tanh"
        assert found.notes == (
            f"hidden_act '{theirs}' of transformers is GELU by {form}, called "
            f"'{ours}' here",
        )


def test_missing_settings_have_the_defaults_of_transformers():
    found = config_json.parse({"model_type": "bert"}, (), "config.json").config
    assert (found.vocab_size, found.hidden_size) == (30522, 768)
    assert (found.hidden_act, found.type_vocab_size) == ("gelu_erf", 2)


def test_null_settings_are_ignored():
    parse(is_decoder=None, position_embedding_type=None, pruned_heads=None)
    assert not parse(norm_first=False).config.norm_first


def test_the_class_determines_task_parts_and_labels():
    assert of("BertModel").task == "pretraining"
    assert of("BertModel").parts == ()
    assert of("BertForPreTraining").parts == renaming.PARTS
    assert of("BertForMaskedLM").parts == (renaming.MASKED_LM,)
    assert of("BertForQuestionAnswering").task == "spans"
    assert of("BertForMultipleChoice").task == "multiple_choice"
    found = of(
        "BertForTokenClassification", id2label={"1": "B", "0": "O", "2": 3}
    )
    assert (found.task, found.labels) == ("tagging", ("O", "B", "3"))
    found = of("BertForSequenceClassification")
    assert (found.task, found.labels) == (
        "classification",
        ("LABEL_0", "LABEL_1"),
    )
    assert len(of("BertForSequenceClassification", num_labels=4).labels) == 4


def test_one_label_is_a_regression():
    one = {"id2label": {"0": "LABEL_0"}}
    found = of("BertForSequenceClassification", **one)
    assert (found.task, found.labels) == ("regression", ())
    found = of(
        "BertForSequenceClassification", problem_type="regression", **one
    )
    assert found.task == "regression"
    found = of(
        "BertForSequenceClassification",
        problem_type="multi_label_classification",
        **one,
    )
    assert "one logit, with problem_type 'multi_label" in found.notes[-1]


def test_classes_that_are_not_exclusive_are_noted():
    found = of(
        "BertForSequenceClassification",
        problem_type="multi_label_classification",
    )
    assert "apply the sigmoid" in found.notes[-1]


@pytest.mark.parametrize(
    ("architecture", "values", "message"),
    [
        (
            "BertForSequenceClassification",
            {"problem_type": "regression"},
            "problem_type='regression' with 2 labels",
        ),
        (
            "BertForTokenClassification",
            {"num_labels": 1},
            "one class, 'LABEL_0'",
        ),
        (
            "BertForTokenClassification",
            {"id2label": {}},
            "should name every class",
        ),
        (
            "BertForTokenClassification",
            {"id2label": {"0": "a", "2": "b"}},
            "every class once",
        ),
    ],
)
def test_unsupported_labels_are_refused(architecture, values, message):
    with pytest.raises(ValueError, match=f"^bert/config.json: .*{message}"):
        of(architecture, **values)


def test_without_a_class_the_tensors_determine_the_task():
    assert parse(["cls.predictions.bias"]).task == "pretraining"
    assert parse(["qa_outputs.weight"]).task == "spans"
    with pytest.raises(ValueError, match='Add the class, such as "architect'):
        parse(["classifier.weight"])


def test_settings_that_are_not_kept_are_noted():
    found = of("BertForSequenceClassification", classifier_dropout=0.5)
    assert "classifier_dropout=0.5 is not kept" in found.notes[1]
    assert len(of("BertModel", classifier_dropout=0.5).notes) == 1
    found = of("BertModel", auto_map={"AutoModel": "own.Model"})
    assert "which is not run" in found.notes[1]


def test_the_class_may_be_a_string_instead_of_a_list(tmp_path):
    assert parse(architectures="BertForQuestionAnswering").task == "spans"
    with pytest.raises(ValueError, match=r"architectures=\['BertForX'\]; exp"):
        parse(architectures="BertForX")
    old = {k: v for k, v in SIZES.items() if k != "model_type"}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(old | {"architectures": "RobertaModel"}))
    with pytest.raises(ValueError, match="has model_type 'RobertaModel'"):
        config_json.read_values(str(tmp_path))


@pytest.mark.parametrize("given", [{"BertModel": 1}, 3, [["BertModel"]]])
def test_architectures_of_another_type_are_refused(given):
    with pytest.raises(ValueError, match="config.json: architectures=.*should"):
        parse(architectures=given)


def test_labels_of_another_type_are_refused():
    with pytest.raises(ValueError, match="id2label is 3; it should be an obj"):
        of("BertForTokenClassification", id2label=3)


def test_keys_that_are_not_read_may_have_any_type():
    others = {"labels": {"0": "neg"}, "task": ["sts"], "precision": 16}
    parse(**others, step="1000", max_seq_length="512")

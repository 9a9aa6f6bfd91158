import json

import numpy as np
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
MULTI_LABEL = "multi_label_classification"


def parse(names=(), **values):
    tensors = dict.fromkeys(names)
    return config_json.parse(SIZES | values, tensors, "bert/config.json")


def of(architecture, **values):
    return parse(architectures=[architecture], **values)


def classifier(**values):
    return of("BertForSequenceClassification", **values)


@pytest.fixture
def read(tmp_path):
    """Content of config.json -> its values."""

    def read(content):
        (tmp_path / "config.json").write_text(json.dumps(content))
        return config_json.read_values(str(tmp_path))

    return read


@pytest.mark.parametrize("model_type", ["roberta", "xlm-roberta", "gpt2"])
def test_a_model_that_is_not_bert_is_named(read, tmp_path, model_type):
    message = (
        f"{tmp_path} is not a BERT: config.json has model_type '{model_type}'"
    )
    with pytest.raises(ValueError, match=message):
        read(SIZES | {"model_type": model_type})


def test_an_old_file_is_recognized_by_its_class(read):
    old = {k: v for k, v in SIZES.items() if k != "model_type"}
    assert read(old) == old
    read(old | {"architectures": ["BertModel"]})
    distil = read(old | {"architectures": ["DistilBertModel"], "dim": 16})
    assert (distil["hidden_size"], distil["type_vocab_size"]) == (16, 0)
    for other in (["RobertaModel"], "RobertaModel"):
        with pytest.raises(ValueError, match="has model_type 'RobertaModel'"):
            read(old | {"architectures": other})


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
        ("quantization_config", {"bits": 8}, r"of \{'bits': 8\}; quantized"),
        (
            "quantization_config",
            {"quant_method": "gptq"},
            r"quantization_config is of 'gptq'.* its dequantize\(\)",
        ),
        (
            "hidden_act",
            "silu",
            "hidden_act='silu' is not one of gelu, gelu_python",
        ),
        ("hidden_size", 9, "hidden_size=9 is not a multiple of"),
        ("vocab_size", "30", "vocab_size is '30'; it should be an integer"),
        ("hidden_dropout_prob", "0.1", "'0.1'; it should be a number"),
        ("architectures", ["BertCrf"], r"=\['BertCrf'\]; expected"),
        ("architectures", "BertX", r"architectures=\['BertX'\]; expected"),
        *(
            ("architectures", value, "architectures=.*should")
            for value in ({"BertModel": 1}, 3, [["BertModel"]])
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
    found = config_json.parse({"model_type": "bert"}, {}, "config.json").config
    assert (found.vocab_size, found.hidden_size) == (30522, 768)
    assert (found.hidden_act, found.type_vocab_size) == ("gelu_erf", 2)


def test_null_settings_are_ignored():
    parse(is_decoder=None, position_embedding_type=None, pruned_heads=None)
    assert not parse(norm_first=False).config.norm_first


@pytest.mark.parametrize(
    ("architecture", "task", "parts"),
    [
        ("BertModel", "pretraining", ()),
        ("BertForPreTraining", "pretraining", renaming.PARTS),
        ("BertForMaskedLM", "pretraining", (renaming.MASKED_LM,)),
        ("BertForQuestionAnswering", "spans", ()),
        ("BertForMultipleChoice", "multiple_choice", (renaming.POOLER,)),
    ],
)
def test_the_class_determines_task_and_parts(architecture, task, parts):
    for name in ([architecture], architecture):  # Or a string.
        found = parse(architectures=name)
        assert (found.task, found.parts) == (task, parts)


def test_a_distilbert_has_its_own_keys_defaults_and_classes(read):
    given = {"model_type": "distilbert", "dim": 24, "activation": "relu"}
    given |= {"dropout": 0.3, "hidden_dropout_prob": 0.2, "type_vocab_size": 4}
    found = config_json.parse(read(given), {}, "config.json")
    sizes = found.config
    assert (sizes.hidden_size, sizes.num_hidden_layers) == (24, 6)
    assert (sizes.hidden_act, sizes.hidden_dropout_prob) == ("relu", 0.3)
    assert sizes.is_distilbert and found.task == "pretraining"
    assert "seq_classif_dropout and qa_dropout are not used" in found.notes[0]
    with pytest.raises(ValueError, match="expected one of DistilBertForMasked"):
        values = read(given | {"architectures": ["BertModel"]})
        config_json.parse(values, {}, "config.json")


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ({"id2label": {"1": "B", "0": "O", "2": 3}}, ("O", "B", "3")),
        ({}, ("LABEL_0", "LABEL_1")),
        ({"num_labels": 3}, ("LABEL_0", "LABEL_1", "LABEL_2")),
    ],
)
def test_labels_are_in_the_order_of_their_ids(values, labels):
    found = of("BertForTokenClassification", **values)
    assert (found.task, found.labels) == ("tagging", labels)
    found = of("BertForSequenceClassification", **values)
    assert (found.task, found.labels) == ("classification", labels)


def test_one_label_is_a_regression():
    one = {"id2label": {"0": "LABEL_0"}}
    for problem_type in (None, "regression", MULTI_LABEL):
        found = classifier(problem_type=problem_type, **one)
        assert (found.task, found.labels) == ("regression", ())
    assert "one logit, with problem_type 'multi_label" in found.notes[-1]


def test_classes_that_are_not_exclusive_are_several_labels():
    found = classifier(problem_type=MULTI_LABEL)
    assert (found.task, len(found.labels)) == ("multi_label", 2)


@pytest.mark.parametrize(
    ("count", "task", "labels"),
    [
        (3, "classification", ("LABEL_0", "LABEL_1", "LABEL_2")),
        (1, "regression", ()),
    ],
)
def test_labels_that_the_config_lacks_are_counted_by_the_weights(
    count, task, labels
):
    values = SIZES | {"architectures": ["BertForSequenceClassification"]}
    weights = {"classifier.weight": np.zeros((count, 4), np.float32)}
    found = config_json.parse(values, weights, "config.json")
    assert (found.task, found.labels) == (task, labels)
    assert f"neither id2label nor num_labels: {count} l" in found.notes[-1]
    # What the file says counts, and is compared with the weights later.
    values["num_labels"] = 4
    found = config_json.parse(values, weights, "config.json")
    assert len(found.labels) == 4 and "id2label" not in str(found.notes)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_labels": 1}, "one class, 'LABEL_0'"),
        ({"id2label": {}}, "should name every class"),
        ({"id2label": {"0": "a", "2": "b"}}, "every class once"),
        ({"id2label": 3}, "id2label is 3; it should be an obj"),
    ],
)
def test_unsupported_labels_are_refused(values, message):
    with pytest.raises(ValueError, match=f"^bert/config.json: .*{message}"):
        of("BertForTokenClassification", **values)


def test_a_regression_with_classes_is_refused():
    message = "^bert/config.json: .*problem_type='regression' with 2 labels"
    with pytest.raises(ValueError, match=message):
        classifier(problem_type="regression")


def test_without_a_class_the_tensors_determine_the_task():
    assert parse(["cls.predictions.bias"]).task == "pretraining"
    assert parse(["qa_outputs.weight"]).task == "spans"
    with pytest.raises(ValueError, match='Add the class, such as "architect'):
        parse(["classifier.weight"])


def test_settings_that_are_not_used_are_noted():
    found = classifier(classifier_dropout=0.5)
    assert "classifier_dropout=0.5 is not used" in found.notes[1]
    assert len(of("BertModel", classifier_dropout=0.5).notes) == 1
    found = of("BertModel", auto_map={"AutoModel": "own.Model"})
    assert "which is not run" in found.notes[1]


def test_keys_that_are_not_read_may_have_any_type():
    others = {"labels": {"0": "neg"}, "task": ["sts"], "precision": 16}
    parse(**others, step="1000", max_seq_length="512")

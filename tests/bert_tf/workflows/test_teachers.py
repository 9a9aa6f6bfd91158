"""Teachers of every format, their labels and layers; misfits are refused."""

import dataclasses

import checkpoint_folders
import exports
import keras
import numpy as np
import planted_tasks
import pytest

from bert_tf.checkpoint import keras_models, model_folders
from bert_tf.config import BertConfig
from bert_tf.tasks import pretraining, swag
from bert_tf.training import strategies
from bert_tf.workflows import configs, teachers
from tfrecords.text import vocab

LABELS = ["bad", "good", "so so"]


def student_of(**changes):
    config = exports.make_model("classification").config
    return dataclasses.replace(config, **changes)


def task_of(labels, name="x"):
    return planted_tasks.classification(name, len(labels), labels=labels)


def config_of(path, **changes):
    return configs.FineTuningConfig(
        output_dir="x", do_train=True, teacher=str(path), **changes
    )


def load(path, task=None, student=None, max_seq_length=16, **changes):
    vocab_file = changes.pop("vocab_file", exports.VOCAB_FILE)
    lower = changes.pop("do_lower_case", True)
    return teachers.load(
        task or task_of(LABELS),
        config_of(path, **changes),
        student or student_of(),
        strategies.make_strategy("one_device"),
        max_seq_length=max_seq_length,
        vocabulary=vocab.Vocabulary.open(vocab_file),
        rules={"do_lower_case": lower},
    )


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """Folder of a classifier of two layers with the labels of `exports`."""
    folder = tmp_path_factory.mktemp("teachers") / "classifier"
    model = exports.make_model("classification", num_hidden_layers=2)
    exports.save_model(model, "classification", folder)
    return folder


@pytest.fixture
def save_pretrained(tmp_path):
    """Saves a model of pre-training; returns its folder and its config."""

    def save(**more):
        model = exports.make_model("pretraining")
        folder = tmp_path / "pretrained"
        exports.save_model(model, "pretraining", folder, labels=None, **more)
        return folder, model.config

    return save


def weights_of(model):
    weights = model_folders.weight_names(model)
    return {name: weight.numpy() for name, weight in weights.items()}


@pytest.mark.parametrize(
    "name", ["bert_tf", "google", "hugging_face", "keras_hub"]
)
def test_a_teacher_of_any_format_is_the_same(tmp_path, classifier, name):
    given = model_folders.read(str(classifier))
    folder = checkpoint_folders.write(given, tmp_path / "other", name)
    task = task_of(given.labels)
    if name == "google":  # That format has no names of labels.
        task = task_of(keras_models.load(folder)[0].metadata["labels"])
    teacher = load(folder, task)
    model = teacher.model
    checkpoint_folders.assert_same_bits(weights_of(model), given.tensors)
    assert not model.trainable_weights
    digest = model_folders.digest(model)
    assert teacher.settings() == {
        "teacher_sha256": digest,
        "distillation_losses": ["soft_targets"],
    }


def test_classes_are_brought_into_the_order_of_the_task(classifier, make_batch):
    order = ["so so", "bad", "good"]
    model = load(classifier, task_of(order)).model
    plain = load(classifier).model
    batch = make_batch(model.config)
    found, expected = (m(batch)["logits"].numpy() for m in (model, plain))
    np.testing.assert_allclose(
        found, expected[:, [LABELS.index(x) for x in order]], atol=1e-6
    )


def test_without_a_teacher_nothing_changes():
    config = configs.FineTuningConfig(output_dir="x")
    assert not {"temperature", "teacher_sha256"} & set(
        config.decisive_settings()
    )
    assert "temperature" in config_of("y").decisive_settings()


def test_relations_alone_need_no_head_of_the_task(tmp_path, save_pretrained):
    given = model_folders.read(str(save_pretrained()[0]))
    # A BERT without heads, as of many Hugging Face folders.
    checkpoint_folders.write(
        checkpoint_folders.pretraining(given), tmp_path / "x", "hugging_face"
    )
    with pytest.raises(ValueError, match="is a model for pretraining"):
        load(tmp_path / "x")
    losses = ("hidden_relations",)
    teacher = load(tmp_path / "x", distillation_losses=losses)
    task = teacher.with_losses(task_of(LABELS))
    assert (task.relation_heads, task.relation_layer) == (2, 0)
    # Its new heads are random, and not a part of what a run must repeat.
    keras.utils.set_random_seed(7)
    again = load(
        tmp_path / "x", student=teacher.model.config, distillation_losses=losses
    )
    kernel = "next_sentence/dense/kernel"
    found, other = (weights_of(x.model)[kernel] for x in (teacher, again))
    assert not np.array_equal(found, other)
    assert teacher.settings() == again.settings()


def test_layers_are_copied(classifier):
    teacher = load(classifier, init_from_teacher_layers=("1",))
    student = exports.make_model("classification")
    keras.utils.set_random_seed(9)
    for weight in student.weights:
        weight.assign(np.random.default_rng(3).normal(size=weight.shape))
    teacher.copy_layers(student)
    expected = {
        name.replace("layer_1", "layer_0"): value
        for name, value in weights_of(teacher.model).items()
        if "layer_0" not in name
    }
    checkpoint_folders.assert_same_bits(weights_of(student), expected)


@pytest.mark.parametrize(
    ("layers", "changes", "message"),
    [
        (("0", "1"), {}, "0,1 should be 1 numbers, one for each layer"),
        (("2",), {}, "from 0 to 1, the last layer of the teacher"),
        (("0",), {"norm_first": True}, "the teacher has norm_first=False in"),
        (("0",), {"hidden_size": 32}, r"16\) in the teacher and \(\d+, 32\)"),
    ],
)
def test_layers_that_do_not_fit_are_refused(
    classifier, layers, changes, message
):
    student = task_of(LABELS).build_model(student_of(**changes))
    teacher = load(classifier, init_from_teacher_layers=layers)
    with pytest.raises(ValueError, match=message):
        teacher.copy_layers(student)


def test_relation_heads_divide_both_hidden_sizes():
    base = BertConfig.from_name("base")  # 12 heads, 768 wide.
    found = [
        teachers.relation_heads(base, dataclasses.replace(base, **student))
        for student in (
            {},
            {"hidden_size": 312},
            {"hidden_size": 128, "num_attention_heads": 2},
        )
    ]
    assert found == [12, 12, 8]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"task": task_of(["a", "b"])}, "bad, good, so so; the student's are"),
        (
            {"task": planted_tasks.regression("y")},
            "classification, the student learns regression",
        ),
        ({"max_seq_length": 65}, "max_position_embeddings=64; examples have"),
        ({"do_lower_case": False}, "do_lower_case=True, the student has False"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused(classifier, case, message):
    with pytest.raises(ValueError, match=message) as error:
        load(classifier, **case)
    assert "\n" not in str(error.value)


def test_another_vocabulary_or_kind_of_model_is_refused(classifier, tmp_path):
    other = tmp_path / "vocab.txt"
    other.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n")
    with pytest.raises(ValueError, match="another vocabulary than .*vocab.txt"):
        load(classifier, vocab_file=str(other))
    with pytest.raises(ValueError, match="is_causal=False, the student True"):
        load(classifier, student=student_of(is_causal=True))


def test_a_folder_that_is_not_there_is_named_with_the_flag(tmp_path):
    with pytest.raises(ValueError, match="--teacher: .*none does not exist"):
        load(tmp_path / "none")


def test_heads_that_were_never_trained_do_not_teach(save_pretrained):
    untrained = ["next_sentence/dense/kernel", "next_sentence/dense/bias"]
    folder, _ = save_pretrained(untrained=untrained)
    assert load(folder, pretraining.PretrainingTask("none"))
    with pytest.raises(ValueError, match="never trained: next_sentence/dense"):
        load(folder, pretraining.TASK)


def test_a_teacher_that_predicts_other_ids_does_not_teach(save_pretrained):
    folder, config = save_pretrained()
    size = config.vocab_size
    student = dataclasses.replace(config, vocab_size=size - 8)
    with pytest.raises(ValueError, match=f"vocab_size={size}, the student"):
        load(folder, pretraining.TASK, student)


def test_choices_have_no_relations(tmp_path):
    model = exports.make_model("multiple_choice")
    exports.save_model(model, "multiple_choice", tmp_path / "x", labels=None)
    assert load(tmp_path / "x", swag.Swag())
    losses = ("soft_targets", "hidden_relations")
    with pytest.raises(ValueError, match="learn only soft_targets"):
        load(tmp_path / "x", swag.Swag(), distillation_losses=losses)


@pytest.mark.parametrize(
    ("more", "taught", "asked"),
    [
        ({"pairs": "sentence_order"}, "sentence_order", "next_sentence"),
        ({}, "next_sentence", "sentence_order"),
    ],
)
def test_pairs_of_another_kind_do_not_teach(
    save_pretrained, more, taught, asked
):
    folder, _ = save_pretrained(**more)
    message = f"pairs={taught}, the records have pairs={asked}"
    with pytest.raises(ValueError, match=message):
        load(folder, pretraining.PretrainingTask(asked))


TEACHER = {"teacher": "t"}
RELATIONS = TEACHER | {"distillation_losses": ("hidden_relations",)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 3.0}, "--temperature=3.0 needs --teacher"),
        (TEACHER | {"temperature": 0.0}, "temperature=0.0 should be abov"),
        (
            RELATIONS | {"temperature": 4.0},
            "--temperature=4.0 has no effect with --distillation_losses=hidden",
        ),
        (TEACHER | {"distillation_weight": 1.5}, "be at most 1.0"),
        (TEACHER | {"distillation_weight": 0.0}, "should be above 0"),
        (
            TEACHER | {"distillation_losses": ("logits",)},
            "distillation_losses=logits should be one or more of soft_targets,",
        ),
        (
            RELATIONS | {"distillation_weight": 1.0},
            "without soft_targets .* trains no head",
        ),
        (
            TEACHER | {"init_from_teacher_layers": ("first",)},
            "layers=first should be numbers of layers",
        ),
        (
            TEACHER
            | {"init_from_teacher_layers": ("1",), "init_checkpoint": "m"},
            "--init_from_teacher_layers=1 is given instead of "
            "--init_checkpoint, which is m",
        ),
    ],
)
def test_invalid_flags_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        configs.FineTuningConfig(output_dir="x", **options)

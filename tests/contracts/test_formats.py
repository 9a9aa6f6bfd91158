"""What every checkpoint format must do; a new one is a row of `ROWS`.

A model is opened as it was written, by us or by others, and says what was
decided; it is loaded, saved and converted without a loss; what a format cannot
hold is refused; a damaged one is an error that names it. Nothing is then
written or changed. pytorch_model.bin needs torch:
parity/test_transformers_files.py.
"""

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import shutil
from collections.abc import Callable

import numpy as np
import pytest
from checkpoint_folders import (
    assert_same_bits,
    contents_of,
    moments,
    to_h5,
    write,
)

import bert_tf
from bert_tf.checkpoint import (
    contents,
    detection,
    model_card,
    model_folders,
    options,
)
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.model import models
from bert_tf.workflows import conversion

TASKS = tuple(models.TASK_MODELS)
POOLED = (
    *("pretraining", "classification", "multi_label", "regression"),
    "multiple_choice",
)
RULES = {"strip_accents": False, "tokenize_chinese_chars": False}
RULES["split_special_tokens"] = False


@dataclasses.dataclass(frozen=True)
class Row:
    """A format.

    Attributes:
      name: one of `options.FORMATS`.
      tasks: those whose head it can hold.
      files: those without which there is no model.
      words: its name of the word embeddings.
      config: its file of sizes.
      vocabulary: its files with the vocabulary.
      has_text: whether it holds class names, the length and the tokenizer's
        rules.
      has_rest: whether it holds Adam's moments and the step.
      activations: those that it can hold.
      sizes: our names of sizes -> its own, where they differ.
      rewrite: changes a folder that we wrote to one as others write it.
    """

    name: str
    tasks: tuple[str, ...]
    files: tuple[str, ...]
    words: str
    config: str = "bert_config.json"
    vocabulary: tuple[str, ...] = ("vocab.txt",)
    has_text: bool = True
    has_rest: bool = True
    activations: tuple[str, ...] = ("gelu", "gelu_erf", "relu")
    sizes: dict[str, str] = dataclasses.field(default_factory=dict)
    rewrite: Callable[[pathlib.Path], None] | None = None


_HUGGING_FACE = Row(
    "hugging_face",
    TASKS,
    ("model.safetensors", "config.json"),
    "bert.embeddings.word_embeddings.weight",
    config="config.json",
    vocabulary=("vocab.txt", "tokenizer.json"),
)
_TF = ("bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001")
ROWS = {
    "bert_tf": Row(
        "bert_tf",
        TASKS,
        ("model.safetensors", "bert_config.json", "model.json"),
        "encoder/embeddings/word_embeddings",
    ),
    "google": Row(
        "google",
        ("pretraining", "classification", "regression", "spans"),
        (*_TF, "bert_config.json"),
        "bert/embeddings/word_embeddings",
        has_text=False,
        activations=("gelu", "relu"),
    ),
    "hugging_face": _HUGGING_FACE,
    "hugging_face_h5": dataclasses.replace(
        _HUGGING_FACE,
        files=("tf_model.h5", "config.json"),
        has_rest=False,
        rewrite=to_h5,
    ),
    "model_garden": Row(
        "model_garden",
        ("pretraining",),
        _TF,
        "encoder/_embedding_layer/embeddings",
        has_text=False,
        activations=("gelu", "relu"),
    ),
    "keras_hub": Row(
        "keras_hub",
        ("pretraining", "classification", "multi_label", "regression"),
        ("model.weights.h5", "task.weights.h5", "config.json"),
        "model.weights.h5/layers/reversible_embedding/vars/0",
        config="config.json",
        vocabulary=("assets/tokenizer/vocabulary.txt",),
        activations=("gelu",),
        sizes={
            "vocab_size": "vocabulary_size",
            "num_hidden_layers": "num_layers",
            "type_vocab_size": "num_segments",
        },
    ),
}
WRITTEN = [name for name, row in ROWS.items() if not row.rewrite]
FOREIGN = [name for name in WRITTEN if name != "bert_tf"]
every_format = pytest.mark.parametrize("form", ROWS)
every_written_format = pytest.mark.parametrize("form", WRITTEN)
every_written_task = pytest.mark.parametrize(
    "form, task", [(name, x) for name in WRITTEN for x in ROWS[name].tasks]
)
every_task = pytest.mark.parametrize(
    "form, task", [(name, x) for name, row in ROWS.items() for x in row.tasks]
)


@pytest.fixture(scope="session")
def stored(made_once, tiny_config, tiny_vocab_file):
    """Format, task -> Contents, and the folder that holds them, made once."""
    vocabulary = pathlib.Path(tiny_vocab_file).read_bytes()

    @functools.cache
    def get(form, task="pretraining"):
        row = ROWS[form]
        # transformers has no pooler in the other classes.
        lacking = () if row.has_rest or task in POOLED else ("encoder/pooler",)
        given = contents_of(
            tiny_config,
            task,
            lacking,
            vocabulary=vocabulary,
            do_lower_case=not row.has_text,  # True is inferred.
            metadata={"max_seq_length": 16} if row.has_text else {},
        )
        if row.has_rest:
            given = dataclasses.replace(given, slots=moments(given), step=7)

        def make(folder):
            write(given, folder / "model", row.name)
            if row.rewrite:
                row.rewrite(folder / "model")

        return given, made_once(f"format_{form}_{task}", make) / "model"

    return get


@pytest.fixture
def model(stored, tmp_path, request):
    """A copy of a format's folder, for tests to change; of a classifier."""
    form = request.node.callspec.params["form"]
    given = stored(form, ROWS[form].tasks[:2][-1])
    return pathlib.Path(shutil.copytree(given[1], tmp_path / "model"))


def digests(folder):
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def refused(model, *parts):
    """Checks that a model is refused in words with `parts`, and kept."""
    before = digests(model.parent)
    target = str(model.parent / "out")
    with pytest.raises(ValueError) as raised:
        conversion.convert(str(model), "bert_tf", target)
    for part in (str(model), *parts):
        assert part in str(raised.value)
    assert digests(model.parent) == before and not os.path.exists(target)


def change_config(model, row, **values):
    path = model / row.config
    content = json.loads(path.read_text())
    sizes = content["config"] if row.sizes else content
    sizes.update({row.sizes.get(n, n): x for n, x in values.items()})
    path.write_text(json.dumps(content))
    (model / "state.json").unlink(missing_ok=True)  # Our checksums.


def test_every_format_has_a_row():
    assert {row.name for row in ROWS.values()} == set(options.FORMATS)


# Open.


def expected_notes(row, given):
    """Returns what the notes on a model begin with."""
    notes = []
    if row.name == "keras_hub" and given.task == "pretraining":
        notes += ["KerasHub's masked-LM head uses GELU by erf and LayerN"]
    if row.name == "keras_hub" and given.do_lower_case:
        notes += ["lowercase=true of KerasHub folds case"]
    if row.name == "hugging_face":
        notes += ["hidden_act 'gelu_new' of transformers is GELU by tanh"]
        if given.task == "regression":
            notes += ["the score is torch.nn.modules.linear.Identity of the"]
    if row.name == "google" and given.labels:
        notes += ["a TF1 checkpoint does not name its classes; they are call"]
    if row.name == "google" and given.task == "regression":
        notes += ["output_weights has one row, so the task is regression"]
    if not row.has_text:
        notes += ["do_lower_case=True is inferred: the vocabulary has almost"]
    return notes


@every_task
def test_a_model_is_opened_as_it_was(stored, form, task):
    row, (given, folder) = ROWS[form], stored(form, task)
    assert detection.detect_all(str(folder)) == [row.name]
    found = Checkpoint.open(folder, with_slots=True)
    assert found.source == f"{row.name} {folder}"
    assert_same_bits(found.tensors, given.tensors)
    assert_same_bits(found.slots, given.slots)
    if form != "bert_tf":  # Whose file is sorted.
        assert list(found.tensors) == list(given.tensors)
    for name in ("config", "task", "step", "vocabulary", "do_lower_case"):
        assert getattr(found, name) == getattr(given, name), name
    numbers = tuple(str(i) for i, _ in enumerate(given.labels))
    assert found.labels == (given.labels if row.has_text else numbers)
    assert found.is_case_inferred is not row.has_text
    assert found.metadata == given.metadata
    assert found.missing() == given.missing() and not found.unused
    assert not found.tokenizer_differences
    expected = expected_notes(row, given)
    for note, start in zip(found.notes, expected, strict=True):
        assert note.startswith(start)
    assert found.tokenizer().rules == {"do_lower_case": given.do_lower_case}


@pytest.mark.parametrize(
    "form, task", [(name, x) for name in FOREIGN for x in ROWS[name].tasks]
)
def test_a_rename_table_has_each_name_once(tiny_config, form, task):
    rows = detection.format_module(form).table(tiny_config, task)
    shapes = contents.shapes(tiny_config, task, 3)
    assert sorted(row.ours for row in rows) == sorted(shapes)
    assert len({row.theirs for row in rows}) == len(rows)
    for row in rows:
        theirs = row.their_shape(shapes[row.ours])
        assert np.prod(theirs) == np.prod(shapes[row.ours])


@every_written_format
@pytest.mark.parametrize(
    "lacking",
    [
        ("next_sentence",),
        ("masked_lm", "next_sentence"),
        ("encoder/pooler", "next_sentence"),
    ],
)
def test_missing_weights_and_moments_stay_missing(
    tmp_path, tiny_config, form, lacking
):
    given = contents_of(tiny_config, "pretraining", lacking, step=3)
    slots = {n: x for n, x in moments(given).items() if "/layer_1/" not in n}
    given = dataclasses.replace(given, slots=slots)
    folder = write(given, tmp_path / "model", form)
    found = Checkpoint.open(folder, with_slots=True)
    assert_same_bits(found.tensors, given.tensors)
    assert_same_bits(found.slots, slots)
    assert found.missing() == given.missing()


@every_format
def test_without_a_vocabulary_there_is_no_tokenizer(model, form):
    for name in ROWS[form].vocabulary:
        (model / name).unlink()
    (model / "state.json").unlink(missing_ok=True)
    found = Checkpoint.open(model)
    assert found.vocabulary is None and found.tokenizer() is None
    if not ROWS[form].has_text:
        assert found.do_lower_case is None
        assert "no vocab.txt, so do_lower_case is unknown" in found.notes


@every_format
def test_a_last_line_of_a_vocabulary_may_have_no_newline(
    stored, model, tmp_path, form
):
    vocabulary, name = stored(form)[0].vocabulary, ROWS[form].vocabulary[0]
    (model / name).write_bytes(vocabulary.removesuffix(b"\n"))
    (model / "state.json").unlink(missing_ok=True)
    found = Checkpoint.open(model)
    found.save(tmp_path / "saved", ROWS[form].name)
    assert (tmp_path / "saved" / name).read_bytes() == vocabulary


# Load, save, convert.


@every_written_task
def test_a_model_is_loaded_and_saved(stored, tmp_path, form, task):
    given, folder = stored(form, task)
    found = Checkpoint.open(folder)
    for name, path in (("first", folder), ("again", tmp_path / "saved")):
        model, tokenizer = bert_tf.load(path)
        assert type(model) is models.TASK_MODELS[task], name
        weights = model_folders.weight_names(model)
        weights = {n: x.numpy() for n, x in weights.items()}
        assert_same_bits(weights, given.tensors)
        assert model.metadata.get("labels", []) == list(found.labels)
        assert model.metadata["do_lower_case"] is given.do_lower_case
        assert tokenizer.do_lower_case is given.do_lower_case
        assert model.vocabulary == given.vocabulary
        assert not model.untrained
        if ROWS[form].has_text:
            assert model.metadata["max_seq_length"] == 16
        if name == "first":
            bert_tf.save(model, tmp_path / "saved", format=form)


@every_written_task
def test_a_conversion_there_and_back_loses_nothing(
    stored, tmp_path, form, task
):
    given = stored("bert_tf", task)[0]
    # Moments of other optimizers are left out.
    averages = {f"average/{n}": x for n, x in given.tensors.items()}
    folder = write(
        dataclasses.replace(
            given, slots=given.slots | averages, do_lower_case=True
        ),
        tmp_path / "ours",
    )
    line = f"read back: {3 * len(given.tensors)} tensors equal bit for bit"
    words = {"license": "mit"}
    there, back = str(tmp_path / "there"), str(tmp_path / "back")
    for source, name, target in (
        (folder, form, there),
        (there, "bert_tf", back),
    ):
        assert line in conversion.convert(source, name, target, **words)
        card = pathlib.Path(target, model_card.FILE).read_text("utf-8")
        assert f"in files of the format {name}." in card
        assert "license: mit" in card
    found = Checkpoint.open(back, with_slots=True)
    assert (found.task, found.step) == (task, given.step)
    assert_same_bits(found.tensors, given.tensors)
    assert_same_bits(found.slots, given.slots)
    # The format's own files do not keep a folder from being replaced.
    conversion.convert(back, "bert_tf", there, overwrite=True, **words)
    assert detection.detect(there) == "bert_tf"


# Format -> file -> keys that nothing here reads.
MORE_KEYS = {
    "bert_tf": {"model.json": {"of_a_user": [1]}},
    "google": {"bert_config.json": {"directionality": "bidi"}},
    "model_garden": {"bert_config.json": {"embedding_size": None}},
    "keras_hub": {"preprocessor.json": {"mask_selection_length": 3}},
    "hugging_face": {
        "config.json": {
            "classifier_dropout": 0.5,
            "finetuning_task": "sst2",
            "of_a_user": {"a": 1},
            "pad_token_id": 2,
            "use_cache": True,
        },
        "tokenizer_config.json": {
            "additional_special_tokens": [],
            "clean_up_tokenization_spaces": True,
            "of_a_user": 1,
        },
    },
}


@pytest.mark.parametrize("form", MORE_KEYS)
def test_keys_that_nothing_here_reads_are_kept(stored, tmp_path, form):
    model = tmp_path / "model"
    shutil.copytree(stored(form, "pretraining")[1], model)
    is_inside = form == "keras_hub"

    def keys(folder, file):
        values = json.loads((folder / file).read_text())
        return values["config"] if is_inside else values

    for file, more in MORE_KEYS[form].items():
        values = keys(model, file) | more
        values = {"config": values} if is_inside else values
        (model / file).write_text(json.dumps(values))
    (model / "state.json").unlink(missing_ok=True)  # Our checksums.
    source = model
    for name in (form, "bert_tf", form):
        target = tmp_path / f"{source.name}_{name}"
        report = conversion.convert(str(source), name, str(target))
        if name == "bert_tf" != form:
            lost = [x for x in report if "not kept by this format" in x]
            assert not [x for x in lost if "_config" in x], lost
        source = target
        if name == form:
            for file, more in MORE_KEYS[form].items():
                found = keys(target, file)
                assert {n: found.get(n) for n in more} == more, name


def test_keys_that_are_true_of_the_source_alone_are_not_kept(stored, tmp_path):
    model, target = tmp_path / "model", tmp_path / "target"
    shutil.copytree(stored("hugging_face", "classification")[1], model)
    more = {
        "config.json": {
            "_name_or_path": "/home/me/bert",
            "auto_map": {"AutoModel": "code.Model"},
            "dtype": "float16",
            "transformers_version": "5.24.0",
        },
        "tokenizer_config.json": {"name_or_path": "/home/me/bert"},
    }
    for file, keys in more.items():
        values = json.loads((model / file).read_text())
        (model / file).write_text(json.dumps(values | keys))
    conversion.convert(str(model), "hugging_face", str(target))
    for file, keys in more.items():
        assert not keys.keys() & json.loads((target / file).read_text()).keys()


@every_written_format
def test_rules_of_the_tokenizer_are_kept_or_refused(stored, tmp_path, form):
    given = dataclasses.replace(
        stored(form)[0], do_lower_case=True, metadata=RULES
    )
    given, target = Checkpoint.of(given), tmp_path / "model"
    if ROWS[form].has_text:
        given.save(target, form)
        rules = {"do_lower_case": True} | RULES
        assert Checkpoint.open(target).tokenizer().rules == rules
        return
    message = f"strip_accents=False, .* no file of the format {form} .*Pass --a"
    with pytest.raises(ValueError, match=message):
        given.save(target, form)
    assert not os.listdir(tmp_path)
    given.save(target, form, accept_tokenizer_differences=True)


# What a format cannot hold.


@pytest.mark.parametrize(
    "form, task",
    [(x, task) for x in FOREIGN for task in TASKS if task not in ROWS[x].tasks],
)
def test_a_head_that_a_format_lacks_is_refused(
    tmp_path, tiny_config, form, task
):
    given = Checkpoint.of(contents_of(tiny_config, task))
    with pytest.raises(ValueError, match=f"(no|a) head for {task}"):
        given.save(tmp_path / "model", form)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("form", FOREIGN)
@pytest.mark.parametrize(
    "name, value",
    [
        ("is_causal", True),
        ("norm_first", True),
        ("classifier_pooling", "mean"),
        ("pooler_act", "relu"),
        ("type_vocab_size", 0),
    ],
)
def test_settings_that_a_format_lacks_are_refused(
    tmp_path, tiny_config, form, name, value
):
    config = dataclasses.replace(tiny_config, **{name: value})
    is_of_head = name == "classifier_pooling"
    task = "classification" if is_of_head else "pretraining"
    given = Checkpoint.of(contents_of(config, task))
    target = tmp_path / "model"
    message = f"{name}={value}.*{form} does not support"
    with pytest.raises(ValueError, match=message):
        given.save(target, form)
    assert not os.listdir(tmp_path)
    given.save(target)
    assert Checkpoint.open(target).config == config


@every_written_format
@pytest.mark.parametrize("hidden_act", ["gelu_erf", "relu"])
def test_an_activation_is_kept_or_refused(
    tmp_path, tiny_config, form, hidden_act
):
    config = dataclasses.replace(tiny_config, hidden_act=hidden_act)
    given = Checkpoint.of(contents_of(config, "pretraining"))
    target = tmp_path / "model"
    if hidden_act in ROWS[form].activations:
        given.save(target, form)
        assert Checkpoint.open(target).config == config
        return
    message = f"hidden_act={hidden_act}.* open it with hidden_act=gelu"
    with pytest.raises(ValueError, match=message):
        given.save(target, form)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("form", FOREIGN)
def test_a_head_without_training_is_refused(tmp_path, tiny_config, form):
    given = contents_of(tiny_config, "classification", ["classification/"])
    with pytest.raises(ValueError, match=f"newly initialized.* not {form}"):
        Checkpoint.of(given).save(tmp_path / "model", form)
    assert not os.listdir(tmp_path)


# Damage.

# What else a message says of a file that is missing.
MISSING = {
    "tf_model.h5": "has neither model.safetensors nor pytorch_model.bin, nor",
    "model.weights.h5": "model.weights.h5 is missing",
    "task.weights.h5": "task.weights.h5 is missing; it contains the weights",
    "bert_model.ckpt.data-00000-of-00001": "files are missing: ",
    "bert_config.json": "bert_config.json is missing",
}


@pytest.mark.parametrize(
    "form, file", [(name, file) for name in ROWS for file in ROWS[name].files]
)
def test_a_truncated_or_missing_file_is_named(model, form, file):
    path = model / file
    content = path.read_bytes()
    shown = file.partition(".data-")[0].removesuffix(".index")
    for kept in (0, 1, 100, len(content) // 2, len(content) - 2):
        path.write_bytes(content[:kept])
        refused(model, shown)
    path.unlink()
    refused(model, MISSING.get(file, shown))


@pytest.mark.parametrize("form", ["google", "hugging_face", "model_garden"])
def test_a_config_of_layer_norm_first_is_refused(model, form):
    change_config(model, ROWS[form], norm_first=True)
    refused(model, f"{ROWS[form].config} has norm_first=true")


@every_format
def test_every_other_shape_than_in_the_config_is_listed(model, form):
    row = ROWS[form]
    change_config(model, row, vocab_size=999, type_vocab_size=3)
    refused(model, row.words, "(203, 16)", "(999, 16)", "(2, 16)", "(3, 16)")


@every_format
def test_layers_beyond_the_config_are_refused(model, form):
    change_config(model, ROWS[form], num_hidden_layers=1)
    parts = ["in the checkpoint only: encoder/layer_1/attention/key/bias"]
    if form != "bert_tf":
        parts = ["16 tensors of the encoder are not in a BERT with the config"]
        parts += [f"{ROWS[form].config} belongs to these weights"]
    refused(model, *parts)


@every_written_format
def test_nan_weights_need_the_flag(tmp_path, tiny_config, form):
    given = contents_of(tiny_config, "pretraining")
    names = list(given.tensors)[:5]
    for i, name in enumerate(names):
        given.tensors[name].flat[0] = (np.nan, np.inf)[i % 2]
    model = pathlib.Path(write(given, tmp_path / "model", form))
    refused(model, "5 of 46 tensors have NaN or", "and 2 more", "damaged")
    target = str(tmp_path / "out")
    conversion.convert(str(model), form, target, allow_nan_weights=True)
    found = Checkpoint.open(target, allow_nan_weights=True)
    with pytest.raises(ValueError, match=f"{target}.*: 5 of 46 tensors have N"):
        found.build()


@every_format
def test_a_vocabulary_with_more_entries_than_the_model_is_refused(model, form):
    for name in ROWS[form].vocabulary[1:]:
        (model / name).unlink()
    with open(model / ROWS[form].vocabulary[0], "a") as file:
        file.write("oneentrymore\n")
    (model / "state.json").unlink(missing_ok=True)
    with pytest.raises(
        ValueError, match="has 204 entries, but .*=203"
    ) as error:
        Checkpoint.open(model).tokenizer()
    assert str(model) in str(error.value)

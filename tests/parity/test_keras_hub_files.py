"""keras_hub loads presets written here, and presets it saves are read."""

import json

import numpy as np
import pytest
from checkpoint_folders import write
from parity import keras_hub_outputs, outputs

from bert_tf.contrib.formats.keras_hub import preset
from tfrecords.text import tokenizer as our_tokenizer

TOLERANCE = 2e-5
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat sat cafe ##s , . ! a".split()
WORDS += [f"word{i}" for i in range(30 - len(WORDS))]
VOCABULARY = "\n".join([*WORDS, ""]).encode()

CASES = {
    "masked LM": ("pretraining", (), ()),
    "masked LM without pooler": (
        "pretraining",
        (),
        ("encoder/pooler", "next_sentence"),
    ),
    "backbone": ("pretraining", (), ("masked_lm", "next_sentence")),
    "classifier": ("classification", ("a", "b", "c"), ()),
    "several labels": ("multi_label", ("a", "b", "c"), ()),
    "regression": ("regression", (), ()),
}


@pytest.fixture(autouse=True)
def _keras_hub(need):
    need("keras_hub")


@pytest.mark.parametrize("vocabulary", [VOCABULARY, None])
@pytest.mark.parametrize("case", CASES)
def test_every_head_is_loaded_and_saved_by_keras_hub(
    tmp_path, make_checkpoint, case, vocabulary
):
    import keras_hub

    task, labels, lacking = CASES[case]
    given = make_checkpoint(task, labels, lacking, vocabulary=vocabulary)
    folder = write(given, tmp_path / "ours", "keras_hub")
    name = {
        "masked LM": "BertMaskedLM",
        "masked LM without pooler": "BertMaskedLM",
        "backbone": "BertBackbone",
    }.get(case, "BertTextClassifier")
    theirs = getattr(keras_hub.models, name).from_preset(folder)
    theirs.save_to_preset(str(tmp_path / "theirs"))
    found = preset.read(str(tmp_path / "theirs"))
    assert not found.unused
    for weight, tensor in found.tensors.items():
        expected = given.tensors.get(weight, np.zeros_like(tensor))
        np.testing.assert_array_equal(tensor, expected, err_msg=weight)
    kept = {n for n in given.tensors if not n.startswith("next_sentence")}
    assert kept <= set(found.tensors)

    inputs = outputs.batch(given.config, task)
    ours = outputs.outputs(preset.read(folder), inputs)
    each = outputs.differences(
        ours, keras_hub_outputs.of_preset(folder, inputs)
    )
    # KerasHub's masked-LM head has another GELU and epsilon.
    by_design = {"masked_lm_logits"} & set(each)
    assert set(ours) - set(each) <= {"next_sentence_logits"}
    assert all(1e-6 < each[name] < 0.1 for name in by_design)
    rest = [x for n, x in each.items() if n not in by_design]
    assert np.max(rest) <= TOLERANCE


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_tokenizers_give_the_same_ids(tmp_path, make_checkpoint, do_lower_case):
    import keras_hub

    given = make_checkpoint(
        "pretraining", vocabulary=VOCABULARY, do_lower_case=do_lower_case
    )
    folder = write(given, tmp_path / "ours", "keras_hub")
    theirs = keras_hub.models.BertTokenizer.from_preset(folder)
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_bytes(VOCABULARY)
    ours = our_tokenizer.BertTokenizer(str(vocab_file), do_lower_case)
    texts = ["The cats, sat. CAFÉS!", "the caf\u00e9 [MASK] the", "word1 a b"]
    for text in texts:
        mine = ours([text])[0].numpy()
        assert list(np.asarray(theirs(text))) == list(mine)


def test_special_tokens_in_texts_are_kept_in_both(tmp_path, make_checkpoint):
    import keras_hub

    rules = {"do_lower_case": True, "split_special_tokens": False}
    given = make_checkpoint(
        "pretraining",
        vocabulary=VOCABULARY,
        do_lower_case=True,
        metadata={"split_special_tokens": False},
    )
    folder = write(given, tmp_path / "ours", "keras_hub")
    assert preset.read(folder).rules() == rules
    theirs = keras_hub.models.BertTokenizer.from_preset(folder)
    ours = our_tokenizer.BertTokenizer(WORDS, **rules)
    texts = ["[SEP]", "The[SEP][CLS]cat [sep] [PAD]", "[[MASK]]s sat"]
    for text in texts:
        assert list(np.asarray(theirs(text))) == ours([text]).to_list()[0]
    # It splits [UNK].
    text = "[UNK] cat"
    assert len(theirs(text)) > len(ours([text])[0])


@pytest.mark.parametrize(
    ("settings", "text", "is_refused"),
    [
        ({"split": False}, "a cat", True),
        ({"suffix_indicator": "@@"}, "cats", True),
        ({"oov_token": "[PAD]"}, "unknown", True),
        ({"sequence_length": 4}, "the cat", True),
        ({"lowercase": True}, "\u00df", False),
        ({"lowercase": True}, "\u03c3\u03a3", False),
        ({"lowercase": True}, "\ud55c", False),
        ({}, "the cat sat!", False),
    ],
)
def test_settings_that_change_ids_are_refused_or_noted(
    tmp_path, make_checkpoint, settings, text, is_refused
):
    import keras_hub

    words = [*WORDS, "ss", *map(chr, (0xDF, 0x3C3, 0xD55C)), "##\u03c3"]
    words += ["##\u03c2", "\u1112", "##\u1161", "##\u11ab"]
    vocabulary = "\n".join([*words, ""]).encode()
    given = make_checkpoint("pretraining", vocabulary=VOCABULARY)
    folder = write(given, tmp_path / "ours", "keras_hub")
    theirs = keras_hub.models.BertTokenizer(
        vocabulary=words, strip_accents=True, **settings
    )
    path = tmp_path / "ours/tokenizer.json"
    values = json.loads(path.read_text())
    values["config"] |= theirs.get_config() | {"dtype": "int32"}
    path.write_text(json.dumps(values))
    found = preset.read(folder)
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_bytes(vocabulary)
    ours = our_tokenizer.BertTokenizer(
        str(vocab_file), **{"do_lower_case": False} | found.rules()
    )
    is_equal = list(map(int, theirs(text))) == ours([text])[0].numpy().tolist()
    assert is_equal == (not settings)
    assert bool(found.tokenizer_differences) == is_refused
    is_noted = any("folds case" in note for note in found.notes)
    assert is_noted == ("lowercase" in settings)


def test_keras_hub_loads_preprocessors(tmp_path, make_checkpoint):
    import keras_hub

    given = make_checkpoint("pretraining", vocabulary=VOCABULARY)
    folder = write(given, tmp_path / "ours", "keras_hub")
    model = keras_hub.models.BertMaskedLM.from_preset(folder)
    inputs, *_ = model.preprocessor(["the cat sat"])
    assert inputs["token_ids"].shape == (1, 16)
    found = keras_hub.models.BertTextClassifierPreprocessor.from_preset(folder)
    assert list(np.asarray(found("the cat")["token_ids"])[:4]) == [2, 5, 6, 3]


def test_bfloat16_is_kept(tmp_path, make_checkpoint):
    import keras_hub
    import ml_dtypes

    config = make_checkpoint("pretraining").config
    theirs = keras_hub.models.BertBackbone(
        config.vocab_size, 2, 2, 8, 16, dtype="bfloat16"
    )
    theirs.save_to_preset(str(tmp_path / "theirs"))
    found = preset.read(str(tmp_path / "theirs")).tensors
    kernel = found["encoder/pooler/kernel"]
    assert kernel.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(kernel, theirs.pooled_dense.kernel.numpy())


def test_a_model_that_is_not_bert_is_named(tmp_path):
    import keras_hub

    theirs = keras_hub.models.RobertaBackbone(30, 2, 2, 8, 16)
    theirs.save_to_preset(str(tmp_path / "theirs"))
    with pytest.raises(ValueError, match="RobertaBackbone, which is not BERT"):
        preset.read(str(tmp_path / "theirs"))

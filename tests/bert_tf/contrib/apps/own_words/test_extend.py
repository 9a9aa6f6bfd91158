"""Own words: chosen by cost, placed, begun as means; what stays bit for bit."""

import dataclasses
import logging
import pathlib

import exports
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.contrib.apps.own_words import extend
from run_scripts import extend_vocab
from tfrecords.text import tokenizer as tokenizer_lib
from tfrecords.text import vocab

WORDS = "encoder/embeddings/word_embeddings"
BIAS = "masked_lm/bias"
TEXT = """The hepatocyte, the Hepatocyte and the hepatocytes.

Serotonin! serotonin, serotonin; once: electroencephalogram. The cat sat.
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    """Models whose vocabulary has two [unused] entries, and rows beyond it."""
    folder = tmp_path_factory.mktemp("models")
    entries = vocab.read(exports.VOCAB_FILE)
    entries[5], entries[7] = "[unused0]", "[unused1]"  # ! and '
    vocab.write(entries, str(folder / "vocab.txt"))
    for task in ("classification", "pretraining"):
        model = exports.make_for("fill_mask" if task == "pretraining" else task)
        exports.save_model(
            model, task, folder / task, str(folder / "vocab.txt")
        )
    (folder / "text.txt").write_text(TEXT, "utf-8")
    return folder


def run(folder, output_dir, *words, checkpoint="pretraining"):
    extend_vocab.main(
        [
            "extend_vocab",
            f"--init_checkpoint={folder / checkpoint}",
            f"--output_dir={output_dir}",
            *words,
        ]
    )
    return Checkpoint.open(output_dir)


def test_the_most_costly_words_are_added_and_reported(folder, tmp_path, capsys):
    given = Checkpoint.open(folder / "pretraining")
    found = run(
        *(folder, tmp_path / "out", f"--input_file={folder}/text.txt"),
        "--num_words=2",
    )
    # 3 x 7 and 2 x 8 pieces beyond the first; the longest occurs once.
    entries = found.vocabulary_file().entries()
    assert (entries[5], entries[7]) == ("serotonin", "hepatocyte")
    assert found.config == given.config
    report = capsys.readouterr().out
    assert "entries: 203 -> 203\n" in report
    assert "other words with a new beginning: hepatocytes\n" in report
    assert "serotonin (3): s ##er ##o ##t ##o ##n ##i ##n\n" in report
    tokenizer = found.tokenizer()
    assert tokenizer(["Hepatocytes: serotonin"]).to_list() == [
        [7, *(entries.index(x) for x in ("##s", ":")), 5]
    ]


def test_without_unused_entries_rows_are_added_that_are_means(folder):
    given = Checkpoint.open(folder / "pretraining")
    # The first row beyond the vocabulary is there already.
    wide = given.config.vocab_size + 1
    given = dataclasses.replace(
        given,
        config=dataclasses.replace(given.config, vocab_size=wide),
        tensors=dict(given.tensors)
        | {
            name: np.concatenate([given.tensors[name], given.tensors[name][:1]])
            for name in (WORDS, BIAS)
        },
    )
    words = ["serotonin", "cyte", "hepa", "qxz"]
    found = extend.add_words(given, words)
    entries = found.vocabulary_file().entries()
    assert [entries.index(word) for word in words] == [5, 7, 203, 204]
    assert found.config.vocab_size == 205
    for name in (WORDS, BIAS):
        old, new = given.tensors[name], found.tensors[name]
        pieces = [entries.index(x) for x in ("q", "##x", "##z")]
        np.testing.assert_allclose(new[204], old[pieces].mean(0), rtol=1e-6)
        kept = [i for i in range(203) if i not in (5, 7)]
        np.testing.assert_array_equal(new[kept], old[kept])
        assert len(new) == 205
    others = set(given.tensors) - {WORDS, BIAS}
    assert all(found.tensors[x] is given.tensors[x] for x in others)


def test_other_texts_keep_their_outputs_to_the_bit(folder):
    """With rows at the end, too; the masked LM's softmax has more entries."""
    added = ["serotonin", "cyte", "hepa", "qxz"]
    for task in ("classification", "pretraining"):
        given = Checkpoint.open(folder / task)
        found = extend.add_words(given, added)
        ids = [
            x.tokenizer()(["the cat, naïve; sat on toy 12 qx stones"])
            for x in (given, found)
        ]
        assert ids[0].to_list() == ids[1].to_list()
        ids = ids[0].to_tensor()
        batch = {
            "input_word_ids": ids,
            "input_mask": tf.ones_like(ids),
            "input_type_ids": tf.zeros_like(ids),
            "masked_lm_positions": tf.constant([[1, 3]]),
        }
        before, after = (x.build() for x in (given, found))
        for one, other in zip(
            tf.nest.flatten(before.encoder(batch)),
            tf.nest.flatten(after.encoder(batch)),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)
        before, after = before(batch), after(batch)
        for name in {*before} - {"masked_lm_logits"}:
            np.testing.assert_array_equal(before[name], after[name])
    old, new = (x["masked_lm_logits"].numpy() for x in (before, after))
    kept = [i for i in range(203) if i not in (5, 7)]
    # A wider product may add in another order.
    np.testing.assert_allclose(new[..., kept], old[..., kept], rtol=1e-5)
    pieces = given.tokenizer()(["qxz"])[0].numpy()
    np.testing.assert_allclose(
        new[..., 204], old[..., pieces].mean(-1), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("to", ["google", "hugging_face", "keras_hub"])
def test_any_format_goes_in_and_comes_out(folder, tmp_path, to):
    (tmp_path / "words.txt").write_text("serotonin\ncyte\nhepa\n")
    more = f"--words_file={tmp_path}/words.txt"
    run(folder, tmp_path / to, f"--to={to}", more)
    (tmp_path / "words.txt").write_text("qxz\n")
    found = run(tmp_path, tmp_path / "ours", more, checkpoint=to)
    given = Checkpoint.open(folder / "pretraining")
    expected = extend.add_words(given, ["serotonin", "cyte", "hepa", "qxz"])
    assert found.vocabulary == expected.vocabulary
    for name in (WORDS, BIAS):
        np.testing.assert_array_equal(
            found.tensors[name], expected.tensors[name]
        )


def test_weights_of_16_bits_stay_so(folder):
    given = Checkpoint.open(folder / "classification")
    half = {
        name: np.asarray(x).astype(ml_dtypes.bfloat16)
        for name, x in given.tensors.items()
    }
    found = extend.add_words(
        dataclasses.replace(given, tensors=half), ["serotonin"]
    )
    assert found.tensors[WORDS].dtype == ml_dtypes.bfloat16
    assert BIAS not in found.tensors


def test_words_that_no_text_gives_are_named(folder, tmp_path, caplog):
    caplog.set_level(logging.WARNING, logger="absl")
    lines = ["Qxz", "covid-19", "naïve", "中文", "two words", "cat", "[drug]"]
    lines += ["a" * 201, "##qxz", "", "qxz", "qxz", "[unused0]"]
    path = tmp_path / "words.txt"
    path.write_text("\n".join(lines), "utf-8")
    found = run(folder, tmp_path / "out", f"--words_file={path}")
    assert found.vocabulary_file().entries()[5:8] == ["qxz", '"', "[unused1]"]
    for part in (
        "'Qxz' is not added: a text has it as 'qxz'",
        "'covid-19' is not added: a text has it as 'covid', '-', '19'",
        "'naïve' is not added: a text has it as 'naive'",
        "'中文' is not added: a text has it as '中', '文'",
        "'two words' is not added: a text has it as 'two', 'words'",
        "'cat' is not added: the vocabulary has it",
        "'[drug]' is not added: a text has it as '[', 'drug', ']'",
        "it has 201 characters, and words of more than 200 are [UNK]",
        "'##qxz' is not added",
        "'[unused0]' is not added: the vocabulary has it",
    ):
        assert part in caplog.text
    with pytest.raises(ValueError, match="'Qxz' cannot be added: a text has"):
        extend.add_words(Checkpoint.open(folder / "pretraining"), ["Qxz"])


def test_a_cased_vocabulary_takes_capitals_and_accents(folder):
    entries = vocab.read(f"{folder}/vocab.txt")
    cased = tokenizer_lib.BertTokenizer(entries, do_lower_case=False)
    assert not extend.refusals(["Qxz", "naïve"], cased)
    chinese = tokenizer_lib.BertTokenizer(entries, tokenize_chinese_chars=False)
    assert not extend.refusals(["中文"], chinese)


def test_the_choice_depends_on_neither_order_nor_rare_or_unknown_words(folder):
    entries = vocab.read(f"{folder}/vocab.txt")
    tokenizer = tokenizer_lib.BertTokenizer(entries)
    counts = {"qxz": 4, "cyte": 4, "hepatocytes": 1, "cat": 99, "ж": 99}
    for words in (counts, dict(reversed(counts.items()))):
        # 4 x 3, 4 x 2.
        found = extend.costly_words(words, tokenizer, 9)
        assert found == ["cyte", "qxz"]


@pytest.mark.parametrize(
    "words, message",
    [
        ((), "No words are given: --input_file finds .* --words_file lists"),
        (("--words_file=a", "--input_file=b"), "instead of --words_file"),
        (("--words_file=words.txt",), "words.txt has no word to add"),
        (
            ("--words_file=words.txt", "--num_words=9"),
            "num_words=9 needs --input_file",
        ),
        (("--words_file=no.txt",), "No input file at no.txt"),
        (("--input_file=words.txt",), "words.txt has no word to add"),
        (
            ("--words_file=words.txt", "--output_dir=."),
            "already exists. Choose a new folder",
        ),
    ],
)
def test_wrong_settings_leave_nothing(
    folder, tmp_path, monkeypatch, words, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_text("cat\n")
    with pytest.raises(ValueError, match=message):
        run(folder, tmp_path / "out", *words)
    assert [x.name for x in tmp_path.iterdir()] == ["words.txt"]


def test_a_model_without_a_vocabulary_is_named(folder, tmp_path):
    model = exports.make_model("classification")
    exports.save_model(model, "classification", tmp_path / "bare", None)
    with pytest.raises(ValueError, match="bare has no vocabulary"):
        run(
            *(tmp_path, tmp_path / "out", f"--input_file={folder}/text.txt"),
            checkpoint="bare",
        )


def test_own_special_tokens_are_never_split(folder, tmp_path, caplog):
    path = tmp_path / "words.txt"
    path.write_text("[DRUG]\nqxz\n")
    found = run(
        *(folder, tmp_path / "out", f"--words_file={path}"),
        checkpoint="classification",
    )
    assert "texts are no longer split at [DRUG]: nor at [SEP]" in caplog.text
    assert found.rules() == {
        "do_lower_case": True,
        "split_special_tokens": False,
    }
    assert found.tokenizer()(["x[DRUG]qxz"])[0, 1:].numpy().tolist() == [5, 7]
    for to in ("google", "keras_hub"):
        with pytest.raises(ValueError, match=r"keeps \[DRUG\] in a text, and"):
            found.save(tmp_path / to, to)
    words = f"--words_file={path}", "--to=google"
    words += ("--accept_tokenizer_differences",)  # As the message says.
    run(folder, tmp_path / "google", *words, checkpoint="classification")
    found.save(tmp_path / "hf", "hugging_face")
    assert Checkpoint.open(tmp_path / "hf").rules() == found.rules()
    answers = bert_tf.Predictor(str(tmp_path / "out"))(
        ["the [DRUG]", "the cat"]
    )
    assert len(answers) == 2

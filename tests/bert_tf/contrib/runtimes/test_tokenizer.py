"""The shipped tokenizer against ours and the original's golden outputs."""

import ast
import gzip
import json
import pathlib
import random
import sys

import pytest
import tensorflow as tf
import tokenizer_cases
from tokenizer_cases import ENTRIES, MARKS, TRICKY

from bert_tf.contrib.runtimes import tokenizer as plain_tokenizer
from tfrecords.tasks import question_windows
from tfrecords.text import raw_words, segments, vocab, word_windows
from tfrecords.text.tokenizer import BertTokenizer

TEXTS = [
    *(text for text in TRICKY + MARKS),
    "The cat sat on the warm stone.",
    "the old bread, (told) by U.N. ships!",
    "un able in\u3000漢字 can't",
]


@pytest.fixture(scope="module", params=tokenizer_cases.RULES, ids=str)
def both(request, tmp_path_factory):
    """Ours and the plain one, with the same vocabulary."""
    path = str(tmp_path_factory.mktemp("vocab") / "vocab.txt")
    vocab.write(ENTRIES, path)
    return (
        BertTokenizer(path, **request.param),
        plain_tokenizer.Tokenizer(path, **request.param),
    )


def test_a_line_that_no_text_can_match_has_its_id(tmp_path):
    """As the line separators in the released Chinese vocabulary."""
    path = tmp_path / "vocab.txt"
    lines = [
        *vocab.SPECIAL_TOKENS,
        "\u2028",
        "##\u2028",
        "",
        "the",
        "##\0",
        "a",
    ]
    path.write_bytes("\r\n".join([*lines, ""]).encode())
    plain = plain_tokenizer.Tokenizer(str(path))
    assert plain.entries == lines
    assert plain.tokenize("the\u2028a, ") == [8, 10, 1]
    assert BertTokenizer(str(path))(["the\u2028a, "]).to_list() == [[8, 10, 1]]


def test_own_special_tokens_are_kept_as_by_ours(tmp_path):
    path = str(tmp_path / "vocab.txt")
    vocab.write([*ENTRIES, "[DRUG]", "[/E1]"], path)
    for rule in ({}, {"split_special_tokens": False}):
        ours = BertTokenizer(path, **rule)
        plain = plain_tokenizer.Tokenizer(path, **rule)
        for text in ("the[DRUG] [/E1]x", "[drug] [SEP]"):
            assert plain.tokenize(text) == ours([text]).to_list()[0]


def test_it_imports_only_the_standard_library():
    source = pathlib.Path(plain_tokenizer.__file__).read_text(encoding="utf-8")
    modules = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(source))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert modules and modules <= set(sys.stdlib_module_names)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["uncased", "cased"])
def test_all_of_unicode_has_the_ids_of_the_original(shared_data, case):
    plain = plain_tokenizer.Tokenizer(
        str(shared_data / "vocab" / f"bert-base-{case}-vocab.txt"),
        do_lower_case=case == "uncased",
    )
    name = f"google_tokenizer_all_unicode_{case}.jsonl.gz"
    with gzip.open(shared_data / "golden" / name, "rt", encoding="utf-8") as f:
        for row in map(json.loads, f):
            assert plain.tokenize(row["text"]) == row["ids"]


def test_the_cases_of_the_original_tests_pass(shared_data, tmp_path):
    path = shared_data / "golden" / "google_tokenization_cases.json"
    cases = json.loads(path.read_text(encoding="utf-8"))
    vocab.write(
        [*cases["toy_vocab"], "[PAD]", "[MASK]"], str(tmp_path / "vocab.txt")
    )
    plain = plain_tokenizer.Tokenizer(str(tmp_path / "vocab.txt"))
    for case in cases["full"]:
        assert plain.tokenize(case["text"]) == case["ids"]


def test_tokens_and_offsets_equal_ours(both):
    ours, plain = both
    rng = random.Random(0)
    letters = tokenizer_cases.LETTERS + " .,'\u0301"
    texts = TEXTS + ["".join(rng.choices(letters, k=30)) for _ in range(200)]
    found = [plain.tokenize_with_offsets(text) for text in texts]
    ids, starts, ends = ours.tokenize_with_offsets(texts)
    assert [[t.id for t in row] for row in found] == ids.to_list()
    assert [[t.start for t in row] for row in found] == starts.to_list()
    assert [[t.end for t in row] for row in found] == ends.to_list()
    assert [plain.tokenize(text) for text in texts] == ids.to_list()


def test_kept_tokens_are_not_split(tiny_vocab_file):
    ours = BertTokenizer(tiny_vocab_file, kept_tokens=["[MASK]"])
    plain = plain_tokenizer.Tokenizer(tiny_vocab_file, kept_tokens=("[MASK]",))
    texts = ["the [MASK] sat", "[MASK]the[MASK].", "[mask] [SEP]", ""]
    assert [plain.tokenize(text) for text in texts] == ours(texts).to_list()
    row = plain.encode(texts[1], max_seq_length=8)
    assert plain.mask_positions(row) == [1, 3]


def test_special_tokens_are_split_or_not_as_ours(tiny_vocab_file):
    rule = {"split_special_tokens": False}
    ours = BertTokenizer(tiny_vocab_file, **rule)
    plain = plain_tokenizer.Tokenizer(tiny_vocab_file, **rule)
    texts = ["[SEP]", "the[SEP][SEP]THE [sep] [CLS]", "[PAD] [UNK]s [[MASK]]"]
    assert [plain.tokenize(text) for text in texts] == ours(texts).to_list()
    ids, starts, ends = ours.tokenize_with_offsets(texts)
    tokens = zip(ids[1], starts[1], ends[1], strict=True)
    assert plain.tokenize_with_offsets(texts[1]) == [
        tuple(map(int, token)) for token in tokens
    ]


@pytest.mark.parametrize("max_seq_length", [5, 6, 11, 64])
def test_pairs_are_packed_and_cut_as_ours(both, max_seq_length):
    ours, plain = both
    text_a = ["in", "the un able " * 9, "", "in the in the", "able " * 20]
    text_b = ["", "in the", "the", "un able in " * 9, "in " * 20]
    packed = segments.pack(
        ours(text_a), ours(text_b), max_seq_length, ours.cls_id, ours.sep_id
    )
    rows = [
        plain.encode(a, b, max_seq_length=max_seq_length)
        for a, b in zip(text_a, text_b, strict=True)
    ]
    length = max(len(row["input_mask"]) for row in rows)
    for name, values in plain_tokenizer.pad(rows).items():
        assert values == packed[name].numpy()[:, :length].tolist(), name


def test_a_model_of_single_texts_reads_no_second_one(both):
    _, plain = both
    fields = {"text_a": "in the", "text_b": "able"}
    settings = {"kind": "classification", "max_seq_length": 9}
    rows = {
        count: plain_tokenizer.encode_fields(plain, fields, settings | given)
        for count, given in enumerate([{}, {"num_texts": 1}, {"num_texts": 2}])
    }
    assert (
        rows[0] == rows[2] == [plain.encode("in the", "able", max_seq_length=9)]
    )
    assert rows[1] == [plain.encode("in the", max_seq_length=9)]


@pytest.mark.parametrize("stride", [1, 3, 100])
@pytest.mark.parametrize("words", [0, 1, 6, 7, 40])
def test_windows_of_questions_equal_ours(both, stride, words):
    ours, plain = both
    questions = ["", "the in", "un able " * 9]
    passage = " ".join(
        ["Un", "able", ",", "in", "caf\u00e9"][i % 5] for i in range(words)
    )
    tokens = question_windows.tokenize(
        ours, tf.constant(questions), tf.constant([passage] * 3)
    )
    windows = question_windows.make_windows(
        *tokens,
        max_seq_length=12,
        doc_stride=stride,
        max_query_length=4,
        cls_id=ours.cls_id,
        sep_id=ours.sep_id,
    )
    found = [
        (number, window)
        for number, question in enumerate(questions)
        for window in plain.question_windows(
            question,
            passage,
            max_seq_length=12,
            doc_stride=stride,
            max_query_length=4,
        )
    ]
    assert [n for n, _ in found] == windows.question.numpy().tolist()
    for i, (_, window) in enumerate(found):
        used = len(window.row["input_mask"])
        for name, values in window.row.items():
            expected = windows.inputs[name][i].numpy().tolist()
            assert values + [0] * (12 - used) == expected, name
        part = slice(window.offset, window.offset + len(window.tokens))
        assert window.offset == windows.offset[i]
        assert int(tf.reduce_sum(tf.cast(windows.in_passage[i], tf.int32))) == (
            len(window.tokens)
        )
        assert [t.start for t in window.tokens] == (
            windows.starts[i, part].numpy().tolist()
        )
        assert [t.end for t in window.tokens] == (
            windows.ends[i, part].numpy().tolist()
        )
        assert window.has_max_context == (
            windows.has_max_context[i, part].numpy().tolist()
        )


def test_words_of_texts_equal_ours():
    rng = random.Random(1)
    letters = "ab.,-()\u00b7 \u00a0\u3000\n漢\u0301\u200b$"
    texts = TEXTS + ["".join(rng.choices(letters, k=12)) for _ in range(300)]
    expected = raw_words.split(tf.constant(texts))
    found = [plain_tokenizer.split_words(text) for text in texts]
    for i, name in enumerate(("words", "starts", "ends")):
        wanted = getattr(expected, name).to_list()
        if name == "words":
            wanted = [[word.decode() for word in row] for row in wanted]
        assert [[word[i] for word in row] for row in found] == wanted, name


@pytest.mark.parametrize("stride", [None, 1, 4])
def test_windows_of_words_equal_ours(both, stride):
    ours, plain = both
    rng = random.Random(2)
    choices = ["in", "unable", "\u200b", "the,", "a" * 300, "tionsion"]
    for count in (0, 1, 5, 30):
        words = rng.choices(choices, k=count)
        windows = word_windows.make(
            tf.ragged.constant([words], tf.string, ragged_rank=1),
            ours,
            8,
            stride,
        )
        rows, positions = plain.word_windows(
            words, max_seq_length=8, doc_stride=stride
        )
        assert [
            list(p) for p in positions
        ] == windows.positions.numpy().tolist()
        ids = windows.inputs["input_word_ids"].numpy().tolist()
        assert [
            row["input_word_ids"] + [0] * (8 - len(row["input_mask"]))
            for row in rows
        ] == ids


def test_a_vocabulary_without_a_special_token_is_refused(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\nthe\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"vocab.txt has no entry \[SEP\]"):
        plain_tokenizer.Tokenizer(str(path))


def test_no_words_have_no_rows(both):
    settings = {"kind": "tagging", "max_seq_length": 8, "doc_stride": None}
    fields = {"words": []}
    assert plain_tokenizer.encode_fields(both[1], fields, settings) == []

import gzip
import json
import subprocess
import sys

import hypothesis
import pytest
import tensorflow as tf
import tokenizer_cases
from hypothesis import strategies
from tokenizer_cases import ENTRIES, INVALID, MARKS, TRICKY, reference

from tfrecords.io import atomic_files
from tfrecords.text import tokenizer, vocab
from tfrecords.text import words as words_lib


@pytest.fixture(scope="module", params=tokenizer_cases.RULES, ids=str)
def ours(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    vocab.write(ENTRIES, str(path))
    found = tokenizer.BertTokenizer(str(path), **request.param)
    # Many random examples run faster in the graph.
    found.graph = tf.function(
        found, [tf.TensorSpec([None], tf.string)], autograph=False
    )
    return found


def tokens(ours, texts, tokenize=None):
    ids = (tokenize or ours)(tf.constant(texts)).to_list()
    return [[ours.vocab[i] for i in row] for row in ids]


def expected(ours, texts):
    entries = set(ours.vocab)
    return [reference.tokenize(text, entries, **ours.rules) for text in texts]


def test_entries_are_as_good_as_their_file(ours, tmp_path):
    path = str(tmp_path / "vocab.txt")
    vocab.write(ENTRIES, path)
    made = tokenizer.BertTokenizer(ENTRIES, **ours.rules)
    assert list(made.vocab) == list(ours.vocab)
    assert made.sha256 == atomic_files.digest(path)
    assert made(TRICKY).to_list() == ours(TRICKY).to_list()
    with pytest.raises(ValueError, match="the vocabulary has 2 entries but no"):
        tokenizer.BertTokenizer(ENTRIES[:2])


def test_tricky_and_invalid_strings_are_split_as_by_the_original(ours):
    assert tokens(ours, TRICKY) == expected(ours, TRICKY)
    assert tokens(ours, INVALID) == expected(ours, INVALID)
    assert tokens(ours, ["[MASK]"])[0][0] == "["


def test_a_kept_mask_is_one_id(tiny_vocab_file):
    kept = tokenizer.BertTokenizer(tiny_vocab_file, kept_tokens=["[MASK]"])
    plain = tokenizer.BertTokenizer(tiny_vocab_file)
    assert kept.kept_tokens == ("[MASK]",)
    the = plain(["the"]).to_list()[0]
    assert kept(["the[MASK]THE [MASK]", "[mask]", "[SEP]", ""]).to_list() == [
        [*the, kept.mask_id, *the, kept.mask_id],
        *plain(["[mask]", "[SEP]", ""]).to_list(),
    ]


def test_special_tokens_that_are_not_split_are_ids(tiny_vocab_file):
    texts = ["[SEP]", "the[SEP][SEP]THE [sep] [CLS]", "[PAD] [UNK] [ SEP ]"]
    kept = tokenizer.BertTokenizer(tiny_vocab_file, split_special_tokens=False)
    plain = tokenizer.BertTokenizer(tiny_vocab_file)
    assert kept.rules == plain.rules | {"split_special_tokens": False}
    assert kept.kept_tokens == vocab.SPECIAL_TOKENS
    the, sep, others = plain(["the", "[sep]", "[ SEP ]"]).to_list()
    assert kept(texts).to_list() == [
        [kept.sep_id],
        [*the, kept.sep_id, kept.sep_id, *the, *sep, kept.cls_id],
        [kept.pad_id, kept.unk_id, *others],
    ]
    again = tokenizer.BertTokenizer(
        plain.vocab, kept_tokens=["[MASK]", "the"], **kept.rules
    )
    assert set(again.kept_tokens) == {"the", *vocab.SPECIAL_TOKENS}


def test_own_special_tokens_are_kept_or_split_like_the_others():
    entries = [*vocab.SPECIAL_TOKENS, "a", "[", "]", "drug", "/", "e", "1"]
    entries += ["[DRUG]", "[/E1]", "[unused1]", "[drug]"]
    texts = ["a[DRUG]a [/E1]", "[drug] [Drug]", "[unused1]"]
    plain = tokenizer.BertTokenizer(entries)
    assert plain(texts[:1]).to_list() == [[5, 6, 8, 7, 5, 6, 9, 1, 7]]
    kept = tokenizer.BertTokenizer(entries, split_special_tokens=False)
    drug = [6, 8, 7]
    assert kept(texts).to_list() == [[5, 12, 5, 13], drug + drug, [6, 1, 7]]


def test_a_kept_token_must_be_an_entry(tiny_vocab_file):
    with pytest.raises(ValueError, match=r"'\[E\]', not found in .*vocab.txt"):
        tokenizer.BertTokenizer(tiny_vocab_file, kept_tokens=("[SEP]", "[E]"))
    with pytest.raises(ValueError, match=r"string '\[SEP\]'; pass a tuple"):
        tokenizer.BertTokenizer(tiny_vocab_file, kept_tokens="[SEP]")


def test_order_of_plain_and_other_strings_is_kept(ours):
    texts = ["in", "é", "", "the é", "un", "漢", "able"] * 50
    assert tokens(ours, texts) == expected(ours, texts)


@hypothesis.settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
@hypothesis.given(
    strategies.lists(tokenizer_cases.TEXT, min_size=1, max_size=30)
)
def test_random_unicode_is_split_as_by_the_original(ours, texts):
    assert tokens(ours, texts, ours.graph) == expected(ours, texts)
    words = words_lib.split_words(texts, **ours.rules).to_list()
    wanted = [reference.split_words(text, **ours.rules) for text in texts]
    assert [[word.decode() for word in row] for row in words] == wanted


def to_rows(pieces):
    """[(ids, starts, ends), ...] of each string."""
    return list(zip(*(ragged.to_list() for ragged in pieces), strict=True))


@pytest.mark.slow
def test_graph_dataset_and_other_batches_give_the_same(tiny_vocab_file):
    ours = tokenizer.BertTokenizer(
        tiny_vocab_file, kept_tokens=vocab.SPECIAL_TOKENS
    )
    texts = TRICKY + MARKS
    eager = to_rows(ours.tokenize_with_offsets(texts))
    assert [ids for ids, _, _ in eager] == ours(texts).to_list()
    graph = tf.function(ours.tokenize_with_offsets, autograph=False)
    assert to_rows(graph(tf.constant(texts))) == eager
    graph = tf.function(ours, autograph=False)
    assert graph(tf.constant(texts)).to_list() == [ids for ids, _, _ in eager]
    rows = tf.data.Dataset.from_tensor_slices(texts).batch(3)
    rows = rows.map(ours.tokenize_with_offsets).unbatch()
    assert [
        tuple(part.numpy().tolist() for part in row) for row in rows
    ] == eager


LOAD = """
import sys
import tensorflow as tf
import tensorflow_text
texts = open(sys.argv[2], "rb").read().split(b"|end|")
pieces = tf.saved_model.load(sys.argv[1]).locate(tf.constant(texts))
print([ragged.to_list() for ragged in pieces])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("locale", "rules"),
    [
        ("tr_TR", {}),
        ("tr_TR", {"strip_accents": False}),
        ("lt_LT", {"strip_accents": False}),
    ],
)
def test_saved_model_needs_only_tensorflow_and_text(
    locale, rules, tiny_vocab_file, tmp_path
):
    entries = [*vocab.read(tiny_vocab_file), "ì", "í", "ĩ", "į", "i\u0307"]
    ours = tokenizer.BertTokenizer(
        entries, kept_tokens=vocab.SPECIAL_TOKENS, **rules
    )
    module = tf.Module()
    module.tokenizer = ours
    module.locate = tf.function(
        lambda texts: ours.tokenize_with_offsets(texts),
        [tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    texts = [*TRICKY, *MARKS, "Ì", "Í", "Ĩ", "Į", "İ"]
    tf.saved_model.save(module, str(tmp_path / "model"))
    (tmp_path / "texts").write_bytes(
        b"|end|".join(text.encode() for text in texts)
    )
    # In Turkish the lower case of I differs, in Lithuanian that of I with an
    # accent; the locale must not matter.
    loaded = subprocess.run(
        [sys.executable, "-c", LOAD, "model", "texts"],
        cwd=tmp_path,
        env={"LC_ALL": f"{locale}.UTF-8", "TF_CPP_MIN_LOG_LEVEL": "2"},
        stdout=subprocess.PIPE,
        check=True,
    )
    ids, starts, ends = json.loads(loaded.stdout)
    assert ids == ours(texts).to_list()
    assert list(zip(ids, starts, ends, strict=True)) == to_rows(
        ours.tokenize_with_offsets(texts)
    )


def test_detokenize_joins_pieces(ours):
    found = ours.detokenize(ours(["un in the", "ab, la", ""]))
    assert found.numpy().tolist() == [b"un in the", b"ab , la", b""]


def test_special_ids_and_digest_are_those_of_the_file(tiny_vocab_file):
    ours = tokenizer.BertTokenizer(tiny_vocab_file)
    assert ours.vocab_size == len(ours.vocab)
    ids = (ours.pad_id, ours.unk_id, ours.cls_id, ours.sep_id, ours.mask_id)
    assert tuple(ours.vocab[i] for i in ids) == vocab.SPECIAL_TOKENS
    assert ours.sha256 == atomic_files.digest(tiny_vocab_file)


def test_a_scalar_string_is_rejected(ours):
    with pytest.raises(ValueError, match=r"shape \(\).*vector \[N\]"):
        ours("one string")


@pytest.mark.parametrize("case", ["uncased", "cased"])
def test_all_of_unicode_has_the_ids_of_the_original(shared_data, case):
    ours = tokenizer.BertTokenizer(
        str(shared_data / "vocab" / f"bert-base-{case}-vocab.txt"),
        do_lower_case=case == "uncased",
    )
    name = f"google_tokenizer_all_unicode_{case}.jsonl.gz"
    with gzip.open(shared_data / "golden" / name, "rt", encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    assert ours([row["text"] for row in rows]).to_list() == [
        row["ids"] for row in rows
    ]


def test_the_cases_of_the_original_tests_pass(shared_data, tmp_path):
    path = shared_data / "golden" / "google_tokenization_cases.json"
    cases = json.loads(path.read_text(encoding="utf-8"))
    # The toy vocabulary lacks two special tokens.
    entries = [*cases["toy_vocab"], "[PAD]", "[MASK]"]
    vocab.write(entries, str(tmp_path / "vocab.txt"))
    uncased = tokenizer.BertTokenizer(str(tmp_path / "vocab.txt"))
    cased = tokenizer.BertTokenizer(str(tmp_path / "vocab.txt"), False)
    for case in cases["full"]:
        assert uncased([case["text"]]).to_list() == [case["ids"]]
    for text, wanted in cases["wordpiece"]:
        assert tokens(cased, [text]) == [wanted]
    for ours, name in ((uncased, "basic_lower"), (cased, "basic_no_lower")):
        for text, wanted in cases[name]:
            (row,) = words_lib.split_words([text], ours.do_lower_case).to_list()
            assert [word.decode() for word in row] == wanted

import gzip
import importlib.util
import json
import pathlib
import string
import subprocess
import sys
import unicodedata

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies

from tfrecords import tokenizer, vocab


def _load_reference():
    path = pathlib.Path(__file__).with_name("reference_tokenizer.py")
    spec = importlib.util.spec_from_file_location("reference_tokenizer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = _load_reference()

# Letters that pieces of words are made of, so that random words are known.
LETTERS = "abceilnorstABCßéσςΣİıǅﬁåяЖ漢葛ญा\u302e1"
ENTRIES = [
    *vocab.SPECIAL_TOKENS,
    *sorted(set(LETTERS + string.punctuation)),
    *(f"##{letter}" for letter in LETTERS),
    *("the", "##the", "un", "##able", "aé", "##es", "sσ", "##ς", "e\u0301"),
    *("##'", "can't", "##ing", "in", "tion", "##tion"),
]
TRICKY = [
    "",
    " \t\r\n\u00a0\u3000",
    " \tHeLLo!how  \n Are yoU?  ",
    "UNwant\u00e9d,running",
    "ah\u535a\u63a8zz",
    "[MASK] [CLS] [UNK] [PAD] ##ing",
    "a\u2028b\u2029c\u0085d\u200be\ufeff",
    "ab\x00c\x1cd\x7fe\ufffdf",
    "ΑΣ ΑΣΑ Σ ΑΣ' ΑΣ\x01Β ΑΣ\u00adΒ ΑΣ.Β",
    "Straße ﬁne ＡＢＣ ™ Ⅷ ǅ İI ıi",
    "e\u0301\u0323 \u0344 a\u0903\u302e\u1d165",
    "\u037e\u1fef\u0387 \uf900\ufa0e\U0002f800",
    "$5.00^2 `~| a-b_c",
    "\u0e0d\u0e33 \u0915\u093e\u094d क्षि 한국어 각",
    "𝒜𝓑 👍🏽 \U000e0041",
    "a" * 200,
    "a" * 201,
    "é" * 200,
    "é" * 201,
    "e\u0301" * 200,
    "я" * 200 + " " + "я" * 201,
    "a" * 201 + "," + "é" * 201 + "," + "in",
]
INVALID = [
    b"ab\xffcd",
    b"\xe4b \xe4\xb8b \xf0\x9f\x91b",
    b"\xed\xa0\x80a \xc0\x80b \xf5c \x80\x80",
    b"tail\xe4\xb8",
]


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def ours(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    entries = list(dict.fromkeys(ENTRIES))
    vocab.write(entries, str(path))
    return tokenizer.BertTokenizer(str(path), do_lower_case=request.param)


def tokens(ours, texts):
    return [[ours.vocab[i] for i in row] for row in ours(texts).to_list()]


def expected(ours, texts):
    entries = set(ours.vocab)
    return [
        reference.tokenize(text, entries, ours.do_lower_case) for text in texts
    ]


def test_ids_are_ragged_int32(ours):
    ids = ours(["in the", "", "able"])
    assert isinstance(ids, tf.RaggedTensor)
    assert ids.dtype == tf.int32
    assert ids.row_lengths().numpy().tolist()[1] == 0
    assert ours(tf.constant([], tf.string)).shape[0] == 0


def test_tricky_strings_are_split_as_by_the_original(ours):
    assert tokens(ours, TRICKY) == expected(ours, TRICKY)


def test_invalid_utf8_is_dropped_as_by_the_original(ours):
    assert tokens(ours, INVALID) == expected(ours, INVALID)


def test_a_mask_in_text_is_text(ours):
    assert tokens(ours, ["[MASK]"])[0][0] == "["


def test_order_of_plain_and_other_strings_is_kept(ours):
    texts = ["in", "é", "", "the é", "un", "漢", "able"] * 50
    assert tokens(ours, texts) == expected(ours, texts)


# The ops' lower() knows Unicode 13 and this Python perhaps a later one, so the
# random characters are old ones; test_all_of_unicode has the others.
TEXT = strategies.text(
    strategies.one_of(
        strategies.sampled_from(LETTERS + string.printable + "\u0301\u2028"),
        # Unicode 14 moved one old character from Mn to Mc.
        strategies.characters(
            exclude_categories=["Cs", "Cn"], exclude_characters="\u1734"
        ).filter(lambda c: unicodedata.ucd_3_2_0.category(c) != "Cn"),
    ),
    max_size=40,
)


@hypothesis.settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
@hypothesis.given(strategies.lists(TEXT, min_size=1, max_size=30))
def test_random_unicode_is_split_as_by_the_original(ours, texts):
    assert tokens(ours, texts) == expected(ours, texts)
    words = ours.basic_split(texts).to_list()
    wanted = [reference.split_words(text, ours.do_lower_case) for text in texts]
    assert [[word.decode() for word in row] for row in words] == wanted


def test_same_ids_from_graph_dataset_and_other_batches(ours):
    eager = ours(TRICKY).to_list()
    assert tf.function(ours)(tf.constant(TRICKY)).to_list() == eager
    for batch_size in (1, 3):
        rows = tf.data.Dataset.from_tensor_slices(TRICKY).batch(batch_size)
        rows = rows.map(ours).unbatch()
        assert [row.numpy().tolist() for row in rows] == eager


LOAD = """
import sys
import tensorflow as tf
import tensorflow_text
texts = open(sys.argv[2], "rb").read().split(b"|end|")
print(tf.saved_model.load(sys.argv[1]).ids(tf.constant(texts)).to_list())
"""


def test_saved_model_needs_only_tensorflow_and_text(tiny_vocab_file, tmp_path):
    ours = tokenizer.BertTokenizer(tiny_vocab_file)
    module = tf.Module()
    module.tokenizer = ours
    signature = [tf.TensorSpec([None], tf.string)]
    module.ids = tf.function(lambda texts: ours(texts), signature)
    tf.saved_model.save(module, str(tmp_path / "model"))
    (tmp_path / "texts").write_bytes(
        b"|end|".join(text.encode() for text in TRICKY)
    )
    # Turkish has its own lower case of I; the machine's language is no matter.
    loaded = subprocess.run(
        [sys.executable, "-c", LOAD, "model", "texts"],
        cwd=tmp_path,
        env={"LC_ALL": "tr_TR.UTF-8", "TF_CPP_MIN_LOG_LEVEL": "2"},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert json.loads(loaded.stdout) == ours(TRICKY).to_list()


def test_pieces_are_joined_by_detokenize(ours):
    ids = ours(["un in the", "ab, la", ""])
    assert ours.detokenize(ids).numpy().tolist() == [
        b"un in the",
        b"ab , la",
        b"",
    ]


def test_special_ids_and_digest_are_those_of_the_file(tiny_vocab_file):
    ours = tokenizer.BertTokenizer(tiny_vocab_file)
    assert ours.vocab_size == len(ours.vocab)
    ids = (ours.pad_id, ours.unk_id, ours.cls_id, ours.sep_id, ours.mask_id)
    assert tuple(ours.vocab[i] for i in ids) == vocab.SPECIAL_TOKENS
    assert ours.sha256 == vocab.digest(tiny_vocab_file)


def test_a_scalar_string_is_refused(ours):
    with pytest.raises(ValueError, match=r"shape \(\).*vector \[N\]"):
        ours("one string")


def test_a_missing_vocabulary_is_named(tmp_path):
    with pytest.raises(ValueError, match="No vocabulary at .*none.txt"):
        tokenizer.BertTokenizer(str(tmp_path / "none.txt"))


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


def test_the_original_cases_hold(shared_data, tmp_path):
    path = shared_data / "golden" / "google_tokenization_cases.json"
    cases = json.loads(path.read_text(encoding="utf-8"))
    # The toy vocabulary lacks two of the special tokens.
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
            words = ours.basic_split([text]).to_list()[0]
            assert [word.decode() for word in words] == wanted

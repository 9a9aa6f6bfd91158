"""tokenizer_json.py: tokens of the tokenizers library beside ours."""

import gzip
import json

import pytest
import tokenizers

from bert_tf.checkpoint.formats.hugging_face import (
    tokenizer_files,
    tokenizer_json,
)
from tfrecords.text import tokenizer, vocab

TEXTS = [
    "The cat sat, by the door!  It purred... (twice)",
    "Zürich's café isn't far: 3.5 km\tto\nthe lake",
    "博推 zz 的 ﬁve e\u0301",
    "a" * 150 + " " + "b" * 201,
    "",
]


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_ordinary_text_has_our_tokens(tmp_path, tiny_vocab_file, do_lower_case):
    with open(tiny_vocab_file, "rb") as file:
        content = file.read()
    rules = {"do_lower_case": do_lower_case}
    tokenizer_files.write(content, rules, 32, str(tmp_path))
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ours = tokenizer.BertTokenizer(tiny_vocab_file, do_lower_case)
    for text, ids in zip(TEXTS, ours(TEXTS).to_list(), strict=True):
        assert theirs.encode(text, add_special_tokens=False).ids == ids
    pair = theirs.encode("the cat", "sat")
    assert pair.tokens[0] == "[CLS]" and pair.tokens.count("[SEP]") == 2
    assert pair.type_ids[-2:] == [1, 1] and pair.type_ids[0] == 0
    # Text that names a special token is that token, unlike ours.
    assert theirs.encode("[MASK]").ids[1] == theirs.token_to_id("[MASK]")


@pytest.mark.parametrize(
    "entries", [["a"], [*vocab.SPECIAL_TOKENS, "a", "\u2028", "\u2028"]]
)
def test_vocabularies_that_it_cannot_hold_are_named(tmp_path, caplog, entries):
    tokenizer_json.write(entries, {}, str(tmp_path / "tokenizer.json"))
    assert not list(tmp_path.iterdir())
    assert "tokenizer.json is not written: entries of the voca" in caplog.text


@pytest.mark.slow
@pytest.mark.skipif(
    not tokenizers.__version__.startswith("0.23."),
    reason="counted with tokenizers 0.23, whose tables of Unicode decide",
)
@pytest.mark.parametrize(
    ("case", "rows"), [("uncased", (582, 1142)), ("cased", (564, 1142))]
)
def test_differences_on_all_of_unicode_are_those_documented(
    shared_data, case, rows
):
    theirs = tokenizer_json.make(
        vocab.read(str(shared_data / f"vocab/bert-base-{case}-vocab.txt")),
        {"do_lower_case": case == "uncased"},
    )
    name = f"google_tokenizer_all_unicode_{case}.jsonl.gz"
    with gzip.open(shared_data / "golden" / name, "rt", encoding="utf-8") as f:
        golden = [json.loads(line) for line in f]
    found = theirs.encode_batch(
        [row["text"] for row in golden], add_special_tokens=False
    )
    different = [
        row["first_code_point"]
        for encoding, row in zip(found, golden, strict=True)
        if encoding.ids != row["ids"]
    ]
    assert (len(different), len(golden)) == rows

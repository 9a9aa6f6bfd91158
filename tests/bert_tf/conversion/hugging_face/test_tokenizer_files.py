import json

import pytest

from bert_tf import config as bert_config
from bert_tf.conversion.hugging_face import tokenizer_files

ENTRIES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##s"]
CONTENT = "".join(f"{entry}\n" for entry in ENTRIES).encode()
CONFIG = bert_config.BertConfig(vocab_size=len(ENTRIES))


def tokenizer(entries=ENTRIES, model=None, **normalizer):
    ids = {entry: i for i, entry in enumerate(entries)}
    return {
        # Files may list entries in any order.
        "model": {
            "type": "WordPiece",
            "continuing_subword_prefix": "##",
            "vocab": dict(reversed(ids.items())),
        }
        | (model or {}),
        "normalizer": {"type": "BertNormalizer", "lowercase": True}
        | normalizer,
        "added_tokens": [{"id": 0, "content": "[PAD]", "special": True}],
    }


def put(folder, vocabulary=None, **files):
    if vocabulary is not None:
        (folder / "vocab.txt").write_bytes(vocabulary)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return tokenizer_files.read(str(folder), CONFIG)


def test_vocab_txt_is_kept_unchanged(tmp_path):
    content = CONTENT.replace(b"\n", b"\r\n")
    assert put(tmp_path, content).vocabulary == content
    found = put(tmp_path, content, tokenizer=tokenizer())
    assert found.vocabulary == content


def test_the_vocabulary_of_tokenizer_json_is_sorted_by_id(tmp_path):
    found = put(tmp_path, tokenizer=tokenizer())
    assert found.vocabulary == CONTENT
    assert found.do_lower_case is True
    assert not found.notes


def test_a_folder_without_tokenizer_files_has_no_vocabulary(tmp_path):
    assert put(tmp_path) == (None, None, (), None)


def test_a_round_trip_keeps_vocabulary_and_case(tmp_path):
    for case in (True, False, None):
        tokenizer_files.write(CONTENT, case, 63, str(tmp_path))
        assert tokenizer_files.read(str(tmp_path), CONFIG) == (
            CONTENT,
            case,
            (),
            63,
        )


@pytest.mark.parametrize("length", [None, 513, 1e30, 7.5, 0])
def test_a_length_that_is_no_limit_is_left_out(tmp_path, length):
    found = put(tmp_path, tokenizer_config={"model_max_length": length})
    assert found.max_seq_length is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"type": "BPE"}, "has a model of type 'BPE'"),
        ({"continuing_subword_prefix": "@@"}, "with the prefix '@@'"),
        ({"vocab": {"[PAD]": 0, "the": 2}}, "should be 0 to 1, each once"),
        ({"vocab": {"[PAD]": 0, "the": 0}}, "should be 0 to 1, each once"),
        ({"vocab": {"a\nb": 0}}, "contains a line break"),
        (
            {"vocab": [["the", -1.5]]},
            "model.vocab is .*; it should be an object",
        ),
        ({"vocab": {"the": []}}, "should be 0 to 0, each once"),
        ({"vocab": {"[PAD]": False}}, "should be 0 to 0, each once"),
        ({"vocab": {}}, "should be 0 to 0, each once"),
        ({"vocab": None}, "model.vocab is missing or null; it should be an"),
    ],
)
def test_unsupported_vocabularies_are_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=f"tokenizer.json.*{message}"):
        put(tmp_path, tokenizer=tokenizer(model=changes))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            [*ENTRIES[:5], "a", "##s"],
            r":6 and .* id 5 to \['a'\] and \['the'\]",
        ),
        (ENTRIES[:-1], r":7 and .* id 6 to \[\] and \['##s'\]"),
    ],
)
def test_contradictory_vocabularies_are_refused(tmp_path, entries, message):
    content = "".join(f"{entry}\n" for entry in entries).encode()
    with pytest.raises(ValueError, match=f"vocab.txt{message}"):
        put(tmp_path, content, tokenizer=tokenizer())


def test_more_entries_than_the_model_has_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"has 8 entries.* vocab_size=7"):
        put(tmp_path, CONTENT + b"more\n")
    with pytest.raises(ValueError, match=r"has 8 entries.* vocab_size=7"):
        put(tmp_path, CONTENT + b"more")


def test_a_last_line_without_a_newline_is_an_entry(tmp_path):
    assert put(tmp_path, CONTENT[:-1]).vocabulary == CONTENT


def test_fewer_entries_than_the_model_has_are_noted(tmp_path):
    found = put(tmp_path, CONTENT[: -len("##s\n")])
    assert found.notes == (
        "the vocabulary has 6 entries, but config.json has vocab_size=7: the "
        "last ids have no token",
    )


def test_the_case_is_the_one_that_transformers_uses(tmp_path):
    settings = {"tokenizer_class": "BertTokenizer"}
    found = put(tmp_path, tokenizer_config=settings | {"do_lower_case": False})
    assert found.do_lower_case is False
    found = put(tmp_path, tokenizer=tokenizer())
    assert found.do_lower_case is False
    assert "disagree on lower case; do_lower_case=False" in found.notes[0]
    found = put(
        tmp_path,
        tokenizer_config={
            "tokenizer_class": "PreTrainedTokenizerFast",
            "do_lower_case": False,
        },
    )
    assert found.do_lower_case is True
    found = put(tmp_path, tokenizer_config=settings)
    assert (found.do_lower_case, found.notes) == (True, ())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"strip_accents": False},
            "strip_accents=False with do_lower_case=True",
        ),
        ({"tokenize_chinese_chars": False}, "always splits Chinese characters"),
        (
            {"tokenizer_class": "BertJapaneseTokenizer"},
            "tokenizer_class is BertJapaneseTokenizer",
        ),
    ],
)
def test_unsupported_settings_are_noted(tmp_path, settings, message):
    settings = {"do_lower_case": True} | settings
    found = put(tmp_path, CONTENT, tokenizer_config=settings)
    assert len(found.notes) == 1
    assert message in found.notes[0]


def test_unsupported_settings_of_tokenizer_json_are_noted(tmp_path):
    found = put(
        tmp_path,
        tokenizer=tokenizer(strip_accents=True, handle_chinese_chars=True),
    )
    assert not found.notes
    found = put(
        tmp_path,
        tokenizer=tokenizer(strip_accents=False, handle_chinese_chars=False),
    )
    assert len(found.notes) == 2
    found = put(tmp_path, tokenizer=tokenizer() | {"normalizer": None})
    assert found.notes == ("tokenizer.json normalizes with None, unlike BERT",)


def test_added_tokens_are_noted(tmp_path):
    content = tokenizer()
    content["added_tokens"].append({"id": 7, "content": "<e>"})
    found = put(tmp_path, tokenizer=content, added_tokens={"<e>": 7, "<f>": 8})
    assert found.notes == (
        "tokens added to the vocabulary are ignored: <e>, <f>",
    )

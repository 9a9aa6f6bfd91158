import json

import pytest
import tokenizers

from bert_tf import config as bert_config
from bert_tf.checkpoint.formats.hugging_face import tokenizer_files
from tfrecords.text import vocab

ENTRIES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##s"]
CONTENT = vocab.to_bytes(ENTRIES)
CONFIG = bert_config.BertConfig(vocab_size=len(ENTRIES))


def template(single, pair, cls_id=2):
    """A TemplateProcessing, of names with their type ids."""

    def pieces(text):
        for piece in text.split():
            name, type_id = piece.split(":")
            kind = "Sequence" if name in "AB" else "SpecialToken"
            yield {kind: {"id": name, "type_id": int(type_id)}}

    ids = {"[CLS]": cls_id, "[SEP]": 3}
    return {
        "type": "TemplateProcessing",
        "single": list(pieces(single)),
        "pair": list(pieces(pair)),
        "special_tokens": {
            x: {"id": x, "ids": [i], "tokens": [x]} for x, i in ids.items()
        },
    }


SINGLE, PAIR = "[CLS]:0 A:0 [SEP]:0", "[CLS]:0 A:0 [SEP]:0 B:1 [SEP]:1"


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
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": template(SINGLE, PAIR),
        "added_tokens": [{"id": 0, "content": "[PAD]", "special": True}],
    }


TOKENIZER = tokenizer()


def put(folder, vocabulary=None, **files):
    if vocabulary is not None:
        (folder / "vocab.txt").write_bytes(vocabulary)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return tokenizer_files.read(str(folder), CONFIG)


UNCASED, CASED = {"do_lower_case": True}, {"do_lower_case": False}


def test_vocab_txt_is_kept_unchanged(tmp_path):
    content = CONTENT.replace(b"\n", b"\r\n")
    assert put(tmp_path, content).vocabulary == content
    found = put(tmp_path, content, tokenizer=tokenizer())
    assert found.vocabulary == content


def test_the_vocabulary_of_tokenizer_json_is_sorted_by_id(tmp_path):
    found = put(tmp_path, tokenizer=tokenizer())
    assert found.vocabulary == CONTENT
    assert found.rules == UNCASED
    assert not found.notes and not found.differences


def test_a_folder_without_tokenizer_files_has_no_vocabulary(tmp_path):
    assert put(tmp_path) == (None, {}, (), (), None, {})


@pytest.mark.parametrize(
    "rules",
    [
        *(UNCASED, CASED, {}, {"strip_accents": False}),
        CASED | {"strip_accents": True, "tokenize_chinese_chars": False},
        *(UNCASED | {"split_special_tokens": x} for x in (True, False)),
    ],
)
def test_a_round_trip_keeps_vocabulary_and_rules(tmp_path, rules):
    tokenizer_files.write(CONTENT, rules, 63, str(tmp_path))
    found = tokenizer_files.read(str(tmp_path), CONFIG)
    assert found == (CONTENT, rules, (), (), 63, {})


@pytest.mark.parametrize("rules", [UNCASED, CASED, {}])
def test_special_tokens_of_the_vocabulary_are_named(tmp_path, rules):
    def named(content):
        tokenizer_files.write(content, rules, 63, str(tmp_path))
        settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
        return {n: x for n, x in settings.items() if n.endswith("_token")}

    tokens = {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    assert named(CONTENT) == named(CONTENT.replace(b"\n", b"\r\n")) == tokens
    del tokens["mask_token"]
    assert named(CONTENT.replace(b"[MASK]", b"[mask]")) == tokens


@pytest.mark.parametrize("length", [None, 513, 1e30, 7.5, 0])
def test_a_length_that_is_no_limit_is_left_out(tmp_path, length):
    found = put(tmp_path, tokenizer_config={"model_max_length": length})
    assert found.max_seq_length is None


ONCE = "should be 0 to {}, each once"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"type": "BPE"}, "has a model of type 'BPE'"),
        ({"continuing_subword_prefix": "@@"}, "with the prefix '@@'"),
        ({"vocab": {"a\nb": 0}}, "contains a line break"),
        ({"vocab": [["the", -1.5]]}, "vocab is .*; it should be an object"),
        ({"vocab": None}, "model.vocab is missing or null; it should be an"),
        ({"vocab": {"[PAD]": 0, "the": 2}}, ONCE.format(1)),
        ({"vocab": {"[PAD]": 0, "the": 0}}, ONCE.format(1)),
        ({"vocab": {"the": []}}, ONCE.format(0)),
        ({"vocab": {"[PAD]": False}}, ONCE.format(0)),
        ({"vocab": {}}, ONCE.format(0)),
    ],
)
def test_unsupported_vocabularies_are_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=f"tokenizer.json.*{message}"):
        put(tmp_path, tokenizer=tokenizer(model=changes))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([*ENTRIES[:5], "a", "##s"], r":6 .* 5 to \['a'\] and \['the'\]"),
        (ENTRIES[:-1], r":7 and .* id 6 to \[\] and \['##s'\]"),
    ],
)
def test_contradictory_vocabularies_are_refused(tmp_path, entries, message):
    with pytest.raises(ValueError, match=f"vocab.txt{message}"):
        put(tmp_path, vocab.to_bytes(entries), tokenizer=tokenizer())


def test_fewer_entries_than_the_model_has_are_noted(tmp_path):
    found = put(tmp_path, CONTENT[: -len("##s\n")])
    assert found.notes == (
        "the vocabulary has 6 entries, but config.json has vocab_size=7: the "
        "last ids have no token",
    )


def test_the_case_is_the_one_that_transformers_uses(tmp_path):
    settings = {"tokenizer_class": "BertTokenizer"}
    found = put(tmp_path, tokenizer_config=settings | CASED)
    assert found.rules == CASED
    found = put(tmp_path, tokenizer=tokenizer())
    assert found.rules == CASED
    assert "disagree on lower case; do_lower_case=False" in found.notes[0]
    other = {"tokenizer_class": "PreTrainedTokenizerFast"}
    assert put(tmp_path, tokenizer_config=other | CASED).rules == UNCASED
    found = put(tmp_path, tokenizer_config=settings)
    assert (found.rules, found.notes) == (UNCASED, ())


def test_accents_and_chinese_characters_are_as_in_transformers(tmp_path):
    settings = {"do_lower_case": True, "tokenizer_class": "BertTokenizer"}
    rules = {"strip_accents": False, "tokenize_chinese_chars": False}
    found = put(tmp_path, CONTENT, tokenizer_config=settings | rules)
    assert found == (CONTENT, UNCASED | rules, (), (), None, {})
    found = put(tmp_path, tokenizer_config=settings | {"strip_accents": True})
    assert found.rules == UNCASED
    found = put(tmp_path, tokenizer_config=CASED | {"strip_accents": True})
    assert found.rules == CASED | {"strip_accents": True}
    # Values seen in transformers 5.24: of BERT's classes, those of
    # tokenizer_config.json and defaults; of others, those of tokenizer.json.
    other = tokenizer(strip_accents=False, handle_chinese_chars=False)
    found = put(tmp_path, tokenizer=other, tokenizer_config=settings)
    assert found.rules == UNCASED and len(found.notes) == 2
    assert "disagree on strip_accents; strip_accents=True is" in found.notes[0]
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    found = put(tmp_path, tokenizer_config=settings)
    assert found == (CONTENT, UNCASED | rules, (), (), None, {})
    other = tokenizer(strip_accents=True, handle_chinese_chars=True)
    assert not put(tmp_path, tokenizer=other).notes


@pytest.mark.parametrize(
    ("files", "message"),
    [
        *(
            (
                {name: {"tokenizer_class": "BertJapaneseTokenizer"}},
                "tokenizer_class is BertJapaneseTokenizer; BERT's is BertTok",
            )
            for name in ("tokenizer_config", "config")
        ),
        (
            {"tokenizer_config": {"do_basic_tokenize": False}},
            "do_basic_tokenize is false in tokenizer_config.json",
        ),
        (
            {"tokenizer": TOKENIZER | {"normalizer": None}},
            "tokenizer.json has the normalizer None; BERT's is BertNormalizer",
        ),
        (
            {"tokenizer": TOKENIZER | {"pre_tokenizer": {"type": "Punctu"}}},
            "has the pre_tokenizer Punctu; BERT's is BertPreTokenizer",
        ),
        ({"tokenizer": tokenizer(clean_text=False)}, "clean_text is false in"),
        (
            {
                "tokenizer": TOKENIZER | {"added_tokens": [{"content": "<e>"}]},
                "added_tokens": {"<e>": 7},
                "tokenizer_config": {
                    "additional_special_tokens": ["<f>", "[SEP]"],
                    "added_tokens_decoder": {"8": {"content": "<g>"}},
                    "extra_special_tokens": {"image_token": "<h>"},
                },
            },
            "tokens are added to the vocabulary: <e>, <g>, <f>, <h>",
        ),
        (
            {
                "added_tokens": {"##s": 6},
                "tokenizer_config": {"extra_special_tokens": ["the"]},
            },
            "split at these entries of the vocabulary, which BERT finds only "
            "as words: the, ##s",
        ),
        (
            {"tokenizer_config": {"never_split": ["don't"]}},
            'never_split is ["don\'t"] in tokenizer_config.json',
        ),
        *(
            (
                {"tokenizer": TOKENIZER | {"post_processor": processor}},
                "a post_processor (",
            )
            for processor in (
                None,
                {"type": "BertProcessing", "sep": ["[SEP]", 2]},
                {"type": "TemplateProcessing", "special_tokens": {}},
                template("[CLS]:0 A:0", PAIR),
                template(SINGLE, PAIR.replace("1", "0")),
                template(SINGLE, PAIR, cls_id=5),
            )
        ),
        (
            {"tokenizer": tokenizer(model={"unk_token": "the"})},
            "unk_token is the in tokenizer.json; BERT's is [UNK]",
        ),
        (
            {"tokenizer": tokenizer(model={"max_input_chars_per_word": 50})},
            "max_input_chars_per_word is 50 in tokenizer.json; BERT's is 200",
        ),
        *(
            ({name: {"sep_token": token}}, "sep_token is </s>; BERT's is [SEP]")
            for name in ("tokenizer_config", "special_tokens_map")
            for token in ("</s>", {"content": "</s>"})
        ),
        (
            {"tokenizer_config": {"truncation_side": "left"}},
            "truncation is at the left; BERT's is at the right",
        ),
        (
            {"tokenizer": TOKENIZER | {"padding": {"direction": "Left"}}},
            "padding is at the left; BERT's is at the right",
        ),
        *(
            (
                {"tokenizer_config": settings},
                "model_input_names in tokenizer_config.json lacks token_type_",
            )
            for settings in (
                {"model_input_names": ["input_ids"]},
                # The default of transformers 5.
                {"tokenizer_class": "TokenizersBackend"},
            )
        ),
        (
            {"special_tokens_map": {"additional_special_tokens": ["the"]}},
            "which BERT finds only as words: the",
        ),
    ],
)
def test_what_another_tokenizer_does_is_a_difference(tmp_path, files, message):
    (found,) = put(tmp_path, CONTENT, **files).differences
    assert message in found
    (tmp_path / "vocab.txt").unlink()
    if "tokenizer" not in files:  # Without a vocabulary, there is no text.
        assert not put(tmp_path).differences


def test_settings_that_give_the_same_ids_are_no_difference(tmp_path):
    limit = {"max_input_chars_per_word": 100, "unk_token": "[UNK]"}
    bert = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    found = put(
        tmp_path,
        tokenizer=tokenizer(model=limit)
        | {"post_processor": bert, "truncation": {"direction": "Left"}},
        tokenizer_config={
            "never_split": ["[UNK]", "[CLS]"],
            "cls_token": {"content": "[CLS]"},
            "sep_token": None,
            "pad_token": "<pad>",
            "truncation_side": "right",
        },
    )
    assert not found.differences


def test_type_ids_count_only_for_pairs(tmp_path):
    names = {"model_input_names": ["input_ids", "attention_mask"]}
    assert put(tmp_path, CONTENT, tokenizer_config=names).differences
    read = tokenizer_files.read(str(tmp_path), CONFIG, has_pairs=False)
    assert not read.differences


OWN = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n[DRUG]\n"


@pytest.mark.parametrize(
    "is_split, token, is_kept, difference",
    [
        (None, {"content": "[DRUG]", "normalized": False}, True, None),
        (False, "[DRUG]", True, None),
        (True, "[DRUG]", False, None),
        # It would match more than itself.
        (None, {"content": "[DRUG]", "normalized": True}, False, "are split"),
        (None, {"content": "[DRUG]", "lstrip": True}, False, "texts are split"),
        # Texts are split at it by transformers, unless it is added.
        (None, "[SEP]", False, None),
        (False, "[SEP]", True, "not split at [DRUG], and here are"),
    ],
)
def test_own_special_tokens_are_kept_as_by_their_tokenizer(
    tmp_path, is_split, token, is_kept, difference
):
    settings = {"additional_special_tokens": [token]}
    if is_split is not None:
        settings["split_special_tokens"] = is_split
    found = put(tmp_path, OWN, tokenizer_config=settings)
    assert (found.rules.get("split_special_tokens") is False) == is_kept
    if difference:
        (found,) = found.differences
        assert difference in found
    else:
        assert not found.differences


def test_own_special_tokens_are_written_if_they_are_kept(tmp_path):
    rules = UNCASED | {"split_special_tokens": False}
    tokenizer_files.write(OWN, rules, 9, str(tmp_path))
    found = tokenizer_files.read(str(tmp_path), CONFIG)
    assert found.rules == rules
    assert not found.differences
    path = tmp_path / "tokenizer.json"
    fast = tokenizers.Tokenizer.from_file(str(path))
    assert fast.encode("a[DRUG]a", add_special_tokens=False).ids == [5, 6, 5]
    tokenizer_files.write(OWN, UNCASED, 9, str(tmp_path))
    assert "additional" not in (tmp_path / "tokenizer_config.json").read_text()
    fast = tokenizers.Tokenizer.from_file(str(path))
    assert 6 not in fast.encode("a[DRUG]a").ids

import os

import pytest

from tfrecords.text import vocab


@pytest.mark.parametrize(
    "name, size", [("base-cased", 28996), ("base-multilingual-cased", 119547)]
)
def test_other_released_vocabularies_are_read(shared_data, name, size):
    path = shared_data / "vocab" / f"bert-{name}-vocab.txt"
    assert len(vocab.read(str(path))) == size


def test_written_entries_are_read_back(tmp_path):
    path = str(tmp_path / "new" / "vocab.txt")
    entries = [*vocab.SPECIAL_TOKENS, "é", "##漢", "a\u2028b", "\u00a0x"]
    vocab.write(entries, path)
    assert vocab.read(path) == entries
    assert os.listdir(tmp_path / "new") == ["vocab.txt"]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_missing_newline_at_the_end_is_a_warning(tmp_path, caplog, newline):
    path = tmp_path / "vocab.txt"
    entries = [*vocab.SPECIAL_TOKENS, "a", "b"]
    path.write_bytes(newline.join(entries).encode())
    assert vocab.read(str(path)) == entries
    assert "vocab.txt:7: no newline after the last entry, 'b'" in caplog.text


def test_a_complete_vocabulary_is_read_without_a_warning(tmp_path, caplog):
    path = str(tmp_path / "vocab.txt")
    vocab.write([*vocab.SPECIAL_TOKENS, "a"], path)
    vocab.read(path)
    assert not caplog.records


WITH_A = "".join(f"{t}\n" for t in (*vocab.SPECIAL_TOKENS, "a", "b"))


@pytest.mark.parametrize(
    "data, message",
    [
        ("\ufeff" + WITH_A, "txt:1: the file begins with a byte order mark"),
        (
            WITH_A.replace("a\n", "a \n").replace("b\n", "\tb\r\n"),
            "vocab.txt:6: spaces around 'a ' and around 1 other entries",
        ),
    ],
)
def test_marks_and_spaces_are_removed_with_a_warning(
    tmp_path, caplog, data, message
):
    path = tmp_path / "vocab.txt"
    path.write_bytes(data.encode())
    assert vocab.read(str(path)) == [*vocab.SPECIAL_TOKENS, "a", "b"]
    assert message in caplog.text


def test_another_place_of_pad_is_a_warning(tmp_path, caplog):
    path = tmp_path / "vocab.txt"
    path.write_text(WITH_A.replace("[PAD]\n", "") + "[PAD]\n")
    assert vocab.read(str(path))[-1] == "[PAD]"
    assert (
        "vocab.txt:7: [PAD] has the id 6. Rows are padded with" in caplog.text
    )


@pytest.mark.parametrize(
    "entry",
    [
        *("", "\ufffd", "\u2028", "##\u2028", "a\u2028b", "a b", "b\0"),
        *("\u200d", "##"),
    ],
)
def test_an_entry_that_no_text_can_match_keeps_its_id(tmp_path, caplog, entry):
    """The original counts lines, whatever is on them."""
    path = tmp_path / "vocab.txt"
    entries = [*vocab.SPECIAL_TOKENS, entry, "a", entry, "b"]
    path.write_bytes("".join(f"{x}\n" for x in entries).encode())
    assert vocab.read(str(path)) == entries
    (message,) = caplog.messages
    assert message.startswith(
        f"{path}:6: no text can match the entry {entry!r}, nor those on lines "
        "8. They keep their ids"
    )


@pytest.mark.parametrize(
    "entry", ["a", "\u4e00", "##\u0301", "[unused1]", "\ue000"]
)
def test_other_entries_can_be_matched(entry):
    assert vocab.can_match(entry)


def test_a_long_list_of_such_lines_is_shortened(tmp_path, caplog):
    path = tmp_path / "vocab.txt"
    path.write_text(WITH_A + "\n" * 30)
    vocab.read(str(path))
    assert "vocab.txt:8: no text" in caplog.text
    assert "lines 9, 10, 11, 12, 13, 14, 15, 16, 17, 20 more. T" in caplog.text


# Bad input.


SPECIAL = "".join(f"{token}\n" for token in vocab.SPECIAL_TOKENS).encode()


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "vocab.txt is empty"),
        (
            SPECIAL + b"a\nb\na\n",
            r"vocab.txt:8: entry 'a' is also on line 6; entries must be uniq",
        ),
        (SPECIAL + b"a\n\xffb\n", r"vocab.txt:7: byte 0xff is not UTF-8"),
        (
            SPECIAL.replace(b"[MASK]\n", b""),
            r"has 4 entries but no \[MASK\]; BERT needs all of them",
        ),
        (SPECIAL + b"[CLS]\na\n", r"vocab.txt:6: entry '\[CLS\]' is also on"),
        (SPECIAL + b"\n\0\n", r"has 7 special tokens and no other entry"),
        (SPECIAL, r"vocab.txt has 5 special tokens and no other entry"),
        (SPECIAL + b"[unused7]\n", r"has 6 special tokens and no other entry"),
        (
            SPECIAL.replace(b"\n", b"\r"),
            r"vocab.txt:1: the lines end with a car",
        ),
        (SPECIAL.decode().encode("utf-16"), r"vocab.txt:1: the file is UTF-16"),
        (
            SPECIAL.decode().encode("utf-16-le"),
            r"vocab.txt:1: zero bytes, as in",
        ),
        (b"the\nof\n", r"no \[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\]"),
    ],
)
def test_an_invalid_vocabulary_is_rejected_with_file_and_line(
    tmp_path, data, message
):
    path = tmp_path / "vocab.txt"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message):
        vocab.read(str(path))


def test_a_missing_vocabulary_is_rejected(tmp_path):
    with pytest.raises(ValueError, match="No vocabulary at .*make_vocab"):
        vocab.read(str(tmp_path / "vocab.txt"))
    with pytest.raises(ValueError, match="No vocabulary at"):
        vocab.read(str(tmp_path))


def test_invalid_entries_and_a_full_disk_leave_the_old_file(
    tmp_path, monkeypatch
):
    path, valid = str(tmp_path / "vocab.txt"), [*vocab.SPECIAL_TOKENS, "a"]
    vocab.write(valid, path)
    for entries in (["a"], [*valid, "a"]):
        with pytest.raises(ValueError, match="vocab.txt"):
            vocab.write(entries, path)

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        vocab.write([*valid, "new"], path)
    assert vocab.read(path) == valid
    assert os.listdir(tmp_path) == ["vocab.txt"]


def test_a_slash_after_the_name_loses_nothing(tmp_path):
    vocab.write([*vocab.SPECIAL_TOKENS, "a"], f"{tmp_path}/new/")
    assert vocab.read(f"{tmp_path}/new")[-1] == "a"


def test_rules_leave_out_the_values_of_the_original():
    assert vocab.rules_of({"size": 3, "do_lower_case": None}) == {}
    cased = {"do_lower_case": False}
    for others in (
        {"strip_accents": None, "tokenize_chinese_chars": None},
        {"strip_accents": False, "tokenize_chinese_chars": True},
    ):
        assert vocab.rules_of(cased | others) == cased
    changed = {"strip_accents": True, "tokenize_chinese_chars": False}
    changed["split_special_tokens"] = False
    assert vocab.rules_of(cased | changed) == cased | changed
    assert vocab.rules_of({"strip_accents": False}) == {"strip_accents": False}


def test_all_rules_are_known_if_the_case_is():
    assert vocab.all_rules_of({"strip_accents": False}) == {}
    others = {"strip_accents": True, "tokenize_chinese_chars": True}
    others["split_special_tokens"] = True
    assert (
        vocab.all_rules_of({"do_lower_case": True})
        == {"do_lower_case": True} | others
    )


# Case.


@pytest.mark.parametrize(
    "name, lower",
    [
        ("bert-base-uncased", True),
        ("bert-base-cased", False),
        ("bert-base-multilingual-cased", False),
    ],
)
def test_the_case_of_released_vocabularies_is_inferred(
    shared_data, name, lower
):
    path = shared_data / "vocab" / f"{name}-vocab.txt"
    assert vocab.infer_lower_case(path.read_bytes()) is lower


@pytest.mark.parametrize(
    ("words", "lower"),
    [
        ("<S> der the ##s", True),
        ("der Weg", False),
        ("กิน น้ำ ที่ นี่", False),  # Thai: vowels and tones are marks.
        ("हिन्दी है में", False),  # Hindi: so is the virama.
        ("أحمد إلى في", False),  # Arabic: hamza comes off the alef.
        ("한국 말", False),  # NFD decomposes Hangul into its letters.
        ("ไทย ไป มา", True),  # No marks.
        ("שלום עולם", True),
        ("中 国 的", True),
        ("cafe uber", True),
        ("café uber", False),
    ],
)
def test_the_case_is_inferred_from_capitals_and_marks(words, lower):
    content = vocab.to_bytes([*vocab.SPECIAL_TOKENS, *words.split()])
    assert vocab.infer_lower_case(content) is lower


def test_less_than_one_percent_of_such_entries_is_ignored():
    words = [f"word{i}" for i in range(300)]
    few = vocab.to_bytes([*words, "é", "Ä"])
    assert vocab.infer_lower_case(few) is True
    assert vocab.infer_lower_case(few + "ö\nü\n".encode()) is False
    assert vocab.infer_lower_case(None) is None
    accents = "é\nö\nü\n".encode()
    assert vocab.infer_lower_case(accents) is False
    assert vocab.infer_lower_case(accents, strip_accents=False) is True

import collections
import os
import subprocess
import sys

import pytest

from tfrecords.text import tokenizer, vocab, vocab_learning

TEXT = [
    "The captain's ship, the Été, sailed north in 1901.",
    "Ships sail; captains sailed! The northern ship sailed.",
    "漢字 and 漢 stand alone.",
    "The captain sails the northern sea, and the seas are calm.",
] * 5


def learn(sentences=TEXT, vocab_size=170, do_lower_case=True, **settings):
    words = vocab_learning.count_words(sentences, do_lower_case)
    return vocab_learning.learn_words(words, vocab_size, **settings)


def test_special_tokens_have_the_ids_of_released_vocabularies():
    entries = learn()
    assert entries[0] == "[PAD]"
    assert entries[1] == "[unused0]"
    assert entries[99] == "[unused98]"
    assert entries[100:104] == ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def test_first_entries_are_those_of_the_released_vocabulary(shared_data):
    released = vocab.read(
        str(shared_data / "vocab" / "bert-base-uncased-vocab.txt")
    )
    assert len(released) == 30522
    assert tuple(released[:104]) == vocab_learning.FIRST_ENTRIES


def test_words_are_those_of_the_tokenizers_rules():
    words = vocab_learning.count_words(
        ["Été 漢字"], True, strip_accents=False, tokenize_chinese_chars=False
    )
    assert words == {"été": 1, "漢字": 1}


def test_as_many_words_and_pieces_as_requested_are_learned():
    entries = learn()
    assert len(entries) == len(set(entries)) == 170
    assert {"the", "ship", "sail"} <= set(entries)
    assert any(entry.startswith("##") and len(entry) > 3 for entry in entries)


def test_case_and_accents_are_kept_if_cased():
    cased = learn(do_lower_case=False)
    assert {"É", "T", "The"} <= set(cased)
    uncased = "".join(learn()[104:])
    assert uncased == uncased.lower()
    assert "é" not in uncased


def test_punctuation_and_chinese_never_continue_a_word():
    entries = learn()
    assert {",", "漢", "'"} <= set(entries)
    assert not {"##,", "##漢", "##'"} & set(entries)


def test_the_training_text_has_no_unknown_tokens(tmp_path):
    for do_lower_case in (True, False):
        path = str(tmp_path / f"{do_lower_case}.txt")
        vocab.write(learn(do_lower_case=do_lower_case, vocab_size=190), path)
        ours = tokenizer.BertTokenizer(path, do_lower_case)
        assert ours.unk_id not in ours(TEXT).flat_values.numpy()


def test_text_of_only_punctuation_gives_a_vocabulary():
    entries = learn(["!!! ... -- $$$"] * 3, vocab_size=110)
    assert entries[104:] == ["!", "$", "-", "."]


def test_batch_size_does_not_change_the_counts(monkeypatch):
    counts = []
    for size in (1, 7, 1024):
        monkeypatch.setattr(vocab_learning, "_BATCH_SENTENCES", size)
        counts.append(vocab_learning.count_words(TEXT, True))
    assert counts[0] == counts[1] == counts[2]
    assert counts[0]["the"] == 30
    assert counts[0]["漢"] == 10


PRINT = """
import sys
from tfrecords.text import vocab, vocab_learning
words = {word: int(n) for word, n in (w.split() for w in open(sys.argv[1]))}
if len(sys.argv) > 2:
    words = dict(reversed(words.items()))
sys.stdout.buffer.write(vocab.to_bytes(vocab_learning.learn_words(words, 300)))
"""


def test_two_processes_learn_the_same_bytes(tmp_path):
    # Many ties: all words have the same count, and so have pairs.
    letters = "abcdefghij"
    lines = [f"{a}{b}{c} 5" for a in letters for b in letters for c in "xyz"]
    (tmp_path / "words").write_text("\n".join(lines))
    command = [sys.executable, "-c", PRINT, str(tmp_path / "words")]
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    runs = [
        subprocess.run(
            command + more, env=environment, capture_output=True, check=True
        ).stdout
        for more in ([], ["reversed"])
    ]
    assert runs[0] == runs[1]
    assert runs[0].count(b"\n") == 300


def test_rare_characters_get_no_entry_and_are_not_covered():
    words = collections.Counter({"aa": 8, "ab": 4, "ñ": 2, "aø": 2})
    entries = vocab_learning.learn_words(words, 200, max_characters=2)
    assert set(entries[104:108]) == {"a", "b", "##a", "##b"}
    assert not [entry for entry in entries if "ñ" in entry or "ø" in entry]
    assert vocab_learning.coverage(entries, words) == 12 / 16
    assert vocab_learning.coverage(entries, {}) == 0.0


def test_ties_of_rare_characters_are_broken_by_code_point():
    words = {"d": 1, "c": 1, "b": 1, "a": 1}
    for order in (words, dict(reversed(words.items()))):
        entries = vocab_learning.learn_words(order, 106, max_characters=2)
        assert entries[104:] == ["a", "b"]


def test_a_word_of_201_characters_is_ignored():
    words = {"a" * 201: 9, "bc": 9}
    entries = vocab_learning.learn_words(words, 200)
    assert "a" not in entries
    assert "bc" in entries
    assert vocab_learning.coverage(entries, words) == 0.5


def test_the_rarest_words_are_dropped_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(vocab_learning, "_BLOCK_SENTENCES", 10)
    monkeypatch.setattr(vocab_learning, "_MAX_WORDS", 12)
    sentences = [f"often sometimes w{i}" for i in range(40)]
    counts = []
    for size in (1, 10):
        monkeypatch.setattr(vocab_learning, "_BATCH_SENTENCES", size)
        counts.append(vocab_learning.count_words(sentences, True))
    assert counts[0] == counts[1]
    assert counts[0]["often"] == 40
    assert len(counts[0]) <= 12


def test_counts_above_the_limit_are_scaled(monkeypatch):
    monkeypatch.setattr(vocab_learning, "_MAX_OCCURRENCES", 100)
    monkeypatch.setattr(vocab_learning, "_WORDS_PER_STRING", 7)
    repeated = " ".join(
        vocab_learning._repeat({"a": 3000, "b": 999, "c": 1})
    ).split()
    assert collections.Counter(repeated) == {"a": 75, "b": 25, "c": 1}


def test_fewer_words_than_entries_give_fewer_entries(caplog):
    entries = learn(["one two"] * 3, vocab_size=500)
    assert len(entries) < 130
    assert f"give only {len(entries)} entries of 500" in caplog.text


# Bad input.


def test_a_vocabulary_too_small_for_its_characters_is_rejected():
    with pytest.raises(ValueError, match=r"vocab_size=50 is too.*Raise it to"):
        learn(vocab_size=50)


def test_text_without_words_is_rejected():
    with pytest.raises(ValueError, match="no word to learn a vocabulary from"):
        learn(["\u200b"])


def warning(words, caplog):
    vocab_learning.warn_of_accents(words, 7)
    return caplog.text


def test_words_that_lose_their_accents_are_counted(caplog):
    words = {"schön": 5, "schon": 4, "für": 3, "mann": 80, "drücken": 8}
    words |= {"drucken": 1, "straße": 1}
    text = warning(words, caplog)
    for part in (
        "accents are stripped, from 15.7 % of the words of 7 sentences; 4 ",
        "; 4 different words become 2: schön (5) and schon (4) -> schon; ",
        "; drücken (8) and drucken (1) -> drucken. Give --nostrip_accents",
    ):
        assert part in text


def test_marks_that_change_words_are_accents(caplog):
    assert "sentences: です (2) -> てす. Give" in warning({"です": 2}, caplog)


@pytest.mark.parametrize(
    "words", [{"cafe": 1, "café": 1, "the": 199}, {"한국": 9, "漢": 1}, {}]
)
def test_a_few_foreign_words_give_no_warning(words, caplog):
    assert not warning(words, caplog)


def test_a_sample_is_of_the_whole_text(monkeypatch):
    monkeypatch.setattr(vocab_learning, "_SAMPLE_SENTENCES", 3)
    sample = []
    texts = list(map(str, range(20)))
    assert list(vocab_learning._sampled(texts, sample)) == texts
    assert sample == ["0", "4", "8", "12", "16"]

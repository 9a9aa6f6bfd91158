"""ner_examples.py: tags are at first pieces, and no word is lost."""

import pytest

from tfrecords import schema
from tfrecords.io import records
from tfrecords.tasks import ner_examples, ner_files
from tfrecords.text.tokenizer import BertTokenizer

# To trace the tokenizer takes longer than a few rows.
pytestmark = pytest.mark.usefixtures("eagerly")

TEXT = """-DOCSTART- -X- O

The DT O
zqx NNP B-PER
qz NNP I-PER
came VBD O

The DT O
sea NN B-LOC

-DOCSTART- -X- O

ship NN O
"""


@pytest.fixture(scope="module")
def tokenizer(tiny_vocab_file):
    return BertTokenizer(tiny_vocab_file)


LABELS = ner_files.labels_of(["PER", "LOC"])


def make(folder, tokenizer, text, max_seq_length, has_tags=True):
    """Makes records of a text; returns their features and manifest."""
    path = folder / "train.txt"
    path.write_text(text)
    folders = ner_examples.make_records(
        {"train": str(path)},
        str(folder / "records"),
        tokenizer,
        read=lambda split: ner_files.read(str(path), has_tags=has_tags),
        labels=LABELS,
        max_seq_length=max_seq_length,
    )
    found = records.Records.open(folders["train"])
    return found.read(schema.TAGGING), found.manifest


def test_the_first_piece_of_each_word_has_its_tag(tmp_path, tokenizer):
    features, manifest = make(tmp_path, tokenizer, TEXT, 16)
    entries = [
        [tokenizer.vocab[i] for i in row] for row in features["input_word_ids"]
    ]
    # Both sentences of a document are in one window.
    assert entries[0][:12] == [
        *["[CLS]", "the", "z", "##q", "##x", "q", "##z", "came", "the", "sea"],
        *["[SEP]", "[PAD]"],
    ]
    assert entries[1][:3] == ["[CLS]", "ship", "[SEP]"]
    # O B-LOC I-LOC B-PER I-PER
    weights = features["tag_weights"].astype(int)
    assert weights[0].tolist()[:11] == [0, 1, 1, 0, 0, 1, 0, 1, 1, 1, 0]
    assert features["tag_ids"][0].tolist()[:11] == [
        *[0, 0, 3, 0, 0, 4, 0, 0, 0, 1, 0]
    ]
    assert weights[1].tolist() == [0, 1] + [0] * 14
    assert manifest.statistics == {
        **{"documents": 2, "sentences": 3, "words": 7, "pieces": 10},
        **{"windows": 2, "words_without_pieces": 0, "tokens": 14},
        **{"long_sentences": 0, "long_sentences_at": []},
        **{"cut_words": 0, "cut_words_at": []},
    }


def test_a_sentence_of_2000_words_is_listed_and_loses_none(tmp_path, tokenizer):
    tags = ["O", "B-PER", "I-PER", "B-LOC"] * 500
    words = ["sea", "zq", "\u200b", "ship"] * 500
    lines = [f"{w} {t}\n" for w, t in zip(words, tags, strict=True)]
    lines[1000] = f"{'q-' * 40} O\n"  # 80 pieces.
    text = "sea O\n\n" + "".join(lines)
    features, manifest = make(tmp_path, tokenizer, text, 32)
    # Each word once, in the order of the file.
    found = features["tag_ids"][features["tag_weights"] > 0]
    tags[1000] = "O"
    assert [LABELS[i] for i in found] == ["O", *tags]
    counts = manifest.statistics
    path = tmp_path / "train.txt"
    pieces = 500 * 4 - 1 + 80
    assert counts["long_sentences"] == 1
    assert counts["long_sentences_at"] == [
        f"{path}:3: 2000 words, {pieces} pieces"
    ]
    assert counts["cut_words_at"] == [f"{path}:1003: 80 pieces"]
    assert counts["words_without_pieces"] == 500
    assert counts["windows"] == len(features["tag_ids"]) > 2000 // 15


def test_a_file_without_tags_has_weights_at_its_words(tmp_path, tokenizer):
    text = "The\nzqx\n\nsea\n"
    features, _ = make(tmp_path, tokenizer, text, 8, has_tags=False)
    assert features["tag_weights"].astype(int).tolist() == [
        [0, 1, 1, 0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0, 0, 0, 0],
    ]
    assert not features["tag_ids"].any()

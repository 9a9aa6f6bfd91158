"""word_windows.py against a search over all windows in plain Python."""

import pytest
import tensorflow as tf
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from tfrecords import schema
from tfrecords.text import word_windows
from tfrecords.text.tokenizer import BertTokenizer

# Words of one to four pieces in the tiny vocabulary, and one without pieces.
WORDS = [
    *("the", "ship", "zq", "qzx", "qqqq", "\u200b", "sea", "!"),
    "unknown\u4e00",
]
rows_of_words = st.lists(
    st.lists(st.sampled_from(WORDS), max_size=40), min_size=1, max_size=4
)


@pytest.fixture(scope="module")
def tokenizer(tiny_vocab_file):
    return BertTokenizer(tiny_vocab_file)


def make(rows, tokenizer, max_seq_length, doc_stride=None):
    words = tf.ragged.constant(rows, dtype=tf.string, ragged_rank=1)
    return word_windows.make(words, tokenizer, max_seq_length, doc_stride)


def pieces_of(word, tokenizer, most):
    return (tokenizer([word]).to_list()[0] or [tokenizer.unk_id])[:most]


def windows_of(lengths, most, stride):
    """Returns (first, end) of windows, ends of words, context of each word."""
    ends = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    windows, first = [], 0
    while not windows or windows[-1][1] < len(lengths):
        end = max(i for i in range(len(ends)) if ends[i] <= ends[first] + most)
        windows.append((first, end))
        wanted = min(ends[first] + stride, ends[-1] - most)
        first = min(next(i for i, e in enumerate(ends) if e >= wanted), end)
    contexts = [
        [
            min(ends[i] - ends[first], ends[end] - ends[i])
            if first <= i < end
            else -1
            for first, end in windows
        ]
        for i in range(len(lengths))
    ]
    return windows, ends, contexts


@pytest.mark.slow
@settings(
    max_examples=12, deadline=None, phases=(Phase.explicit, Phase.generate)
)
@given(
    rows=rows_of_words, max_seq_length=st.integers(5, 20), share=st.floats(0, 1)
)
@example(rows=[[], ["the"], []], max_seq_length=8, share=0.5)
def test_every_word_has_one_position_and_windows_are_full(
    tokenizer, rows, max_seq_length, share
):
    most = max_seq_length - 2
    stride = 1 + int(share * (most - 1))
    found = make(rows, tokenizer, max_seq_length, stride)
    ids = found.inputs["input_word_ids"].numpy()
    lengths = found.inputs["input_mask"].numpy().sum(axis=1) - 2
    positions = iter(found.positions.numpy().tolist())
    window = 0
    for number, row in enumerate(rows):
        if not row:
            continue
        pieces = [pieces_of(text, tokenizer, most) for text in row]
        windows, ends, contexts = windows_of(
            [len(piece) for piece in pieces], most, stride
        )
        for i, (first, end) in enumerate(windows):
            held = sum(pieces[first:end], [])
            assert found.rows[window + i] == number
            assert lengths[window + i] == len(held)
            assert ids[window + i, 1 : 1 + len(held)].tolist() == held
        predicting = []
        for word, context in enumerate(contexts):
            index, position = next(positions)
            predicting.append(index - window)
            first, end = windows[index - window]
            assert first <= word < end
            assert position == 1 + ends[word] - ends[first]
            # The best context, except for rounding to full words.
            longest = max(map(len, pieces))
            assert context[index - window] >= max(context) - longest
        assert predicting == sorted(predicting)
        window += len(windows)
    assert window == len(found.rows)
    assert next(positions, None) is None


def test_the_predicting_window_has_the_most_context(tokenizer):
    # Words of one piece, so that windows begin at multiples of the stride.
    found = make([["the"] * 31], tokenizer, 14, 4)
    begins = [0, 4, 8, 12, 16, 19]  # The last window starts early to be full.
    positions = found.positions.numpy().tolist()
    assert [
        b + p - 1 for b, p in ((begins[w], p) for w, p in positions)
    ] == list(range(31))
    for word, (window, _) in enumerate(positions):
        # Fewest words on either side, in each window that contains the word.
        contexts = [
            min(word - b, b + 11 - word) if b <= word < b + 12 else -1
            for b in begins
        ]
        assert contexts[window] == max(contexts)


def test_windows_of_an_example(tokenizer):
    # The example in the module's docstring: words of 2 1 1 2 1 pieces.
    words = ["ab", "c", "d", "ef", "g"]
    found = make([words], tokenizer, 6, 2)
    assert found.num_pieces.numpy().tolist() == [2, 1, 1, 2, 1]
    held = [
        [tokenizer.vocab[i] for i in row]
        for row in found.inputs["input_word_ids"].numpy()
    ]
    assert held == [
        ["[CLS]", "a", "##b", "c", "d", "[SEP]"],
        ["[CLS]", "c", "d", "e", "##f", "[SEP]"],
        ["[CLS]", "d", "e", "##f", "g", "[SEP]"],
    ]
    positions = [[0, 1], [0, 3], [1, 2], [2, 2], [2, 4]]
    assert found.positions.numpy().tolist() == positions


def test_a_word_longer_than_a_window_keeps_its_first_pieces(tokenizer):
    found = make([["q" * 30, "the"]], tokenizer, 8)
    assert found.num_pieces.numpy().tolist() == [30, 1]
    ids = found.inputs["input_word_ids"].numpy()
    assert found.inputs["input_mask"].numpy().sum(axis=1).tolist() == [8, 3]
    assert ids[0, 1] == tokenizer(["q"]).to_list()[0][0]
    assert found.positions.numpy().tolist() == [[0, 1], [1, 1]]


def test_a_graph_for_any_size_gives_the_same_windows(tokenizer):
    graph = tf.function(
        lambda words: word_windows.make(words, tokenizer, 12),
        input_signature=[tf.RaggedTensorSpec([None, None], tf.string, 1)],
        autograph=False,
    )
    for rows in ([["the"] * 30, ["sea"]], [[]], [["ship", "\u200b"]] * 3):
        eager = make(rows, tokenizer, 12)
        words = tf.ragged.constant(rows, dtype=tf.string, ragged_rank=1)
        traced = graph(words)
        for name in schema.ENCODER_INPUTS:
            assert (eager.inputs[name] == traced.inputs[name]).numpy().all()
        assert (eager.positions == traced.positions).numpy().all()
        assert (eager.rows == traced.rows).numpy().all()


def test_strides_that_skip_pieces_are_rejected(tokenizer):
    for stride in (0, 11):
        with pytest.raises(ValueError, match=f"doc_stride={stride} .*1 to 10"):
            make([["the"]], tokenizer, 12, stride)

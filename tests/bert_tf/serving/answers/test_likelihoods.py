"""likelihoods.py: log-probabilities as those of a loop over tokens."""

import math

import exports
import numpy as np
import pytest

import bert_tf

TEXTS = [
    "The cat sat on bread.",
    "caf\u00e9 told",
    "the cat [SEP]sat",
    "",
    "a",
    "caf\u00e9 " * 40,  # Cut in the middle of a word, and of a batch.
]


def loop(model, tokenizer, text, within_word):
    """Returns (token, log-probability) of each token, one row at a time."""
    vocab = tokenizer.vocab
    ids = [int(i) for i in tokenizer([text])[0]][: exports.MAX_SEQ_LENGTH - 2]
    ids = [tokenizer.cls_id, *ids, tokenizer.sep_id]
    found = []
    for place in range(1, len(ids) - 1):
        row = np.array(ids)
        row[place] = tokenizer.mask_id
        after = place + 1
        while within_word and vocab[ids[after]].startswith("##"):
            row[after] = tokenizer.mask_id
            after += 1
        batch = {
            "input_word_ids": row[None],
            "input_mask": np.ones_like(row[None]),
            "input_type_ids": np.zeros_like(row[None]),
            "masked_lm_positions": np.array([[place]]),
        }
        batch = {name: x.astype(np.int32) for name, x in batch.items()}
        logits = model(batch, training=False)["masked_lm_logits"].numpy()[0, 0]
        logits = logits[: len(vocab)].astype(np.float64)
        log_sum = np.log(np.exp(logits - logits.max()).sum()) + logits.max()
        found.append((vocab[ids[place]], logits[ids[place]] - log_sum))
    return found


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("within_word", [False, True])
def test_log_probabilities_are_those_of_a_loop(made_once, within_word):
    predictor = bert_tf.Predictor(
        exports.model_folder(made_once, "pseudo_log_likelihood"),
        kind="pseudo_log_likelihood",
        within_word_masking=within_word,
    )
    answers = predictor(TEXTS)
    for text, answer in zip(TEXTS, answers, strict=True):
        expected = loop(predictor.model, predictor.tokenizer, text, within_word)
        assert answer.tokens == tuple(token for token, _ in expected)
        values = [value for _, value in expected]
        np.testing.assert_allclose(
            answer.log_probabilities, values, atol=2e-5, rtol=0
        )
        assert answer.score == pytest.approx(sum(values), abs=1e-4)
        if values:
            perplexity = math.exp(-sum(values) / len(values))
            assert answer.perplexity == pytest.approx(perplexity, rel=1e-4)
        else:
            assert answer.score == 0 and math.isnan(answer.perplexity)
    assert answers[2].tokens == ("the", "cat", "[SEP]", "sat")


def test_only_the_rest_of_a_word_is_masked(made_once):
    predictor = bert_tf.Predictor(
        exports.model_folder(made_once, "pseudo_log_likelihood"),
        kind="pseudo_log_likelihood",
        within_word_masking=True,
    )
    answers, tokenizer = predictor.answers, predictor.tokenizer
    batch = answers.encode(["caf\u00e9 told"])
    batch = answers.mask(batch, [[0, i] for i in range(1, 6)])
    rows = [
        [tokenizer.vocab[i].replace("[MASK]", "_") for i in row]
        for row in batch["input_word_ids"].numpy()
    ]
    assert rows == [
        ["[CLS]", "_", "_", "_", "_", "told", "[SEP]"],
        ["[CLS]", "c", "_", "_", "_", "told", "[SEP]"],
        ["[CLS]", "c", "##a", "_", "_", "told", "[SEP]"],
        ["[CLS]", "c", "##a", "##f", "_", "told", "[SEP]"],
        ["[CLS]", "c", "##a", "##f", "##e", "_", "[SEP]"],
    ]

"""transformers' heads, converted and exported, give the same answers to text.

The models are random and tiny. Answers of the exported graph to strings are
compared with those of transformers to the same tokens.
"""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from run_scripts import export_savedmodel
from tfrecords.text import tokenizer as tokenizer_lib

TAGS = ["O", "B-PER", "I-PER"]
CONTEXTS = ["The cat sat.", "It rained."]
ENDINGS = [["on the warm stone", "a ship"], ["the old bread", "it was told"]]
BOUND = dict(atol=2e-5, rtol=2e-5)


@pytest.fixture
def exported(need, tiny_config, tiny_vocab_file, tmp_path):
    """Returns a function from a transformers class to model and SavedModel."""
    need("torch")
    need("transformers")
    import torch
    import transformers

    def export(name, *words, **settings):
        torch.manual_seed(1)
        sizes = tiny_config.to_dict() | {"initializer_range": 0.5} | settings
        model = getattr(transformers, name)(transformers.BertConfig(**sizes))
        folder, path = tmp_path / "theirs", tmp_path / "export"
        model.eval().save_pretrained(str(folder))
        shutil.copyfile(tiny_vocab_file, folder / "vocab.txt")
        export_savedmodel.main(
            [
                "export_savedmodel",
                f"--model_dir={folder}",
                f"--export_dir={path}",
                *words,
            ]
        )
        return model, tf.saved_model.load(str(path))

    return export


@pytest.fixture
def encode(tiny_vocab_file):
    """Returns a function from a text or pair to inputs of transformers."""
    import torch

    words = tokenizer_lib.BertTokenizer(tiny_vocab_file)

    def tensors(text_a, text_b=None):
        ids = [words.cls_id, *words([text_a]).values.numpy(), words.sep_id]
        types = [0] * len(ids)
        if text_b is not None:
            more = [*words([text_b]).values.numpy(), words.sep_id]
            ids, types = ids + more, types + [1] * len(more)
        return {
            "input_ids": torch.tensor([ids], dtype=torch.long),
            "token_type_ids": torch.tensor([types]),
        }

    return tensors


def test_multiple_choice_logits_are_equal(exported, encode):
    theirs, ours = exported("BertForMultipleChoice")
    answers = ours.text(CONTEXTS, ENDINGS)
    logits = np.array(
        [
            [
                theirs(
                    **{
                        name: tensor[None]
                        for name, tensor in encode(context, ending).items()
                    }
                )
                .logits.detach()
                .item()
                for ending in endings
            ]
            for context, endings in zip(CONTEXTS, ENDINGS, strict=True)
        ]
    )
    np.testing.assert_allclose(answers["logits"], logits, **BOUND)
    assert answers["choice"].numpy().tolist() == logits.argmax(1).tolist()


def test_tags_are_equal(exported, encode):
    theirs, ours = exported(
        "BertForTokenClassification",
        id2label=dict(enumerate(TAGS)),
        label2id={tag: i for i, tag in enumerate(TAGS)},
    )
    # Each word is a single token.
    words = ["the", "cat", "sat", "on", "the", "stone"]
    answers = ours.text([" ".join(words)])
    found = theirs(**encode(" ".join(words))).logits.detach()[0, 1:-1]
    assert len(found) == len(words)
    assert [tag.decode() for tag in answers["tags"].numpy()[0]] == [
        TAGS[i] for i in found.argmax(-1)
    ]
    np.testing.assert_allclose(
        answers["probabilities"][0], found.softmax(-1).max(-1).values, **BOUND
    )


def test_answers_and_span_scores_are_equal(exported, encode):
    theirs, ours = exported(
        "BertForQuestionAnswering",
        "--max_seq_length=32",
        "--max_query_length=16",
        "--n_best_size=32",
    )
    question, context = "who sat", "the cat sat on the stone"
    answers = ours.text([question], [context])
    found = theirs(**encode(question, context))
    words = context.split()  # Each is one token, the last before [SEP].
    start, end = (
        x.detach().numpy()[0, -1 - len(words) : -1]
        for x in (found.start_logits, found.end_logits)
    )
    score, i, j = max(
        (start[i] + end[j], i, j)
        for i in range(len(words))
        for j in range(i, len(words))
    )
    assert answers["answer"].numpy()[0].decode() == " ".join(words[i : j + 1])
    np.testing.assert_allclose(
        answers["nbest_start_logits"][0, 0] + answers["nbest_end_logits"][0, 0],
        score,
        **BOUND,
    )


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_embeddings_are_equal(exported, encode, pooling):
    theirs, ours = exported(
        "BertModel",
        "--kind=sentence_embedding",
        f"--pooling={pooling}",
        "--layers=-1,-2",
    )
    answers = ours.text(CONTEXTS)["embedding"]
    for text, answer in zip(CONTEXTS, answers, strict=True):
        states = theirs(**encode(text), output_hidden_states=True).hidden_states
        pooled = [
            x.detach().numpy()[0, 0]
            if pooling == "cls"
            else x.detach().numpy()[0].mean(0)
            for x in (states[-1], states[-2])
        ]
        np.testing.assert_allclose(answer, np.concatenate(pooled), **BOUND)


def test_tensorflow_hub_calls_preprocessor_and_encoder(
    need, exported, tmp_path
):
    need("torch")
    need("transformers")
    need("tensorflow_hub")
    import tensorflow_hub as hub

    _, loaded = exported("BertModel", "--kind=encoder")
    export_savedmodel.main(
        [
            "export_savedmodel",
            f"--model_dir={tmp_path / 'theirs'}",
            f"--export_dir={tmp_path / 'preprocessor'}",
            "--kind=preprocessor",
            "--max_seq_length=16",
        ]
    )
    path = str(tmp_path / "preprocessor")
    texts = tf.constant(CONTEXTS)
    inputs = hub.KerasLayer(path)(texts)
    outputs = hub.KerasLayer(str(tmp_path / "export"), trainable=True)(inputs)
    expected = loaded.text(CONTEXTS)["pooled_output"]
    np.testing.assert_allclose(outputs["default"], expected, **BOUND)
    preprocessor = hub.load(path)
    tokenize = hub.KerasLayer(preprocessor.tokenize)
    pack = hub.KerasLayer(
        preprocessor.bert_pack_inputs, arguments={"seq_length": 24}
    )
    packed = pack([tokenize(texts), tokenize(texts)])
    pairs = loaded.preprocess(CONTEXTS, CONTEXTS)["input_word_ids"]
    np.testing.assert_array_equal(
        packed["input_word_ids"][:, : pairs.shape[1]], pairs
    )

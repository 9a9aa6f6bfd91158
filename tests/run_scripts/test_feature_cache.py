"""Facts of cached features: those of the encoder, found again, made anew."""

import json
import pathlib

import keras
import numpy as np
import planted_ner as planted
import pytest

from bert_tf.model import models
from run_scripts import feature_cache
from tfrecords.tasks import ner_files
from tfrecords.text.tokenizer import BertTokenizer


@pytest.fixture(scope="module")
def source(tiny_config, tiny_vocab_file):
    keras.utils.set_random_seed(2)
    return feature_cache.Source(
        models.BertRegressor(tiny_config).encoder,
        "weights",
        BertTokenizer(tiny_vocab_file),
        max_seq_length=64,
        doc_stride=31,
        batch_size=2,
    )


@pytest.fixture
def corpus(tmp_path):
    return ner_files.read(planted.write(tmp_path / "f", planted.sentences(8)))


def test_a_word_has_the_states_of_its_first_piece_in_its_document(
    source, corpus, tmp_path
):
    path, layers = feature_cache.find_or_make(
        source, corpus, "dev", [2, 0], str(tmp_path / "features")
    )
    assert layers == [0, 2]
    found = np.load(path)
    assert found.dtype == np.float16
    words = [w for d in corpus.documents for w in d.words]
    assert found.shape == (len(words), 2, 16)
    expected = []
    for document in corpus.documents:
        ids, firsts = [source.tokenizer.cls_id], []
        for word in document.words:
            firsts.append(len(ids))
            ids += source.tokenizer([word]).to_list()[0]
        ids = np.array([[*ids, source.tokenizer.sep_id]], np.int32)
        inputs = {
            "input_word_ids": ids,
            "input_mask": np.ones_like(ids),
            "input_type_ids": np.zeros_like(ids),
        }
        hidden = source.encoder(inputs).sequence_output[0].numpy()
        expected += [hidden[place] for place in firsts]
    np.testing.assert_allclose(found[:, 1], expected, atol=3e-3)


def test_a_file_serves_all_that_it_has(source, corpus, tmp_path):
    folder = str(tmp_path / "features [of mine]")  # No pattern of names.

    def find(layers, **changes):
        return feature_cache.find_or_make(
            source._replace(**changes), corpus, "dev", layers, folder
        )

    path, _ = find([1, 2])
    assert find([2]) == (path, [1, 2])
    other, layers = find([0])
    assert layers == [0] and other != path
    # Features of another encoder, or of other windows, lie beside them.
    before = np.load(path)
    others = {"weights_sha256": "others", "max_seq_length": 16, "doc_stride": 5}
    beside, _ = find([1, 2], **others)
    assert beside != path
    assert (np.load(beside) != before).any()
    assert find([1, 2]) == (path, [1, 2])
    assert find([2], **others) == (beside, [1, 2])
    # What a name cannot tell apart, the settings do.
    settings_file = pathlib.Path(f"{path}.json")
    settings = json.loads(settings_file.read_text())
    settings_file.write_text(json.dumps(settings | {"doc_stride": 1}))
    again, _ = find([2])
    assert again != path

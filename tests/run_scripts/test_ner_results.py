"""Facts of a tagger's answers: sentence by sentence, in the file's columns."""

import numpy as np
import pytest

from run_scripts import ner_results
from tfrecords.tasks import ner_files

TEXT = """-DOCSTART- -X- O

EU\tNNP I-ORG
rose VBD  O

Ada NNP I-PER
"""


def read(tmp_path, has_tags=True):
    (tmp_path / "f").write_text(TEXT)
    return ner_files.read(str(tmp_path / "f"), has_tags=has_tags)


def test_tags_are_dealt_to_sentences(tmp_path):
    labels = ["O", "B-PER", "B-ORG"]
    found = ner_results.in_sentences(
        read(tmp_path), np.array([2, 0, 1]), labels
    )
    assert found == [["B-ORG", "O"], ["B-PER"]]
    with pytest.raises(ValueError, match="4 tags for the 3 words of .*/f"):
        ner_results.in_sentences(read(tmp_path), np.array([2, 0, 1, 1]), labels)


def test_a_file_of_predictions_is_what_conlleval_reads(tmp_path):
    path = tmp_path / "predictions" / "dev.txt"
    answers = [["B-ORG", "O"], ["O"]]
    ner_results.write_predictions(read(tmp_path), answers, str(path))
    assert path.read_text() == (
        "-DOCSTART- -X- O O\n\n"
        "EU NNP B-ORG B-ORG\nrose VBD O O\n\n"
        "Ada NNP B-PER O\n\n"
    )


def test_without_right_tags_the_predicted_one_is_alone(tmp_path):
    path = tmp_path / "test.txt"
    (tmp_path / "f").write_text("EU\n\nAda\n")
    corpus = ner_files.read(str(tmp_path / "f"), has_tags=False)
    ner_results.write_predictions(corpus, [["B-ORG"], ["O"]], str(path))
    assert path.read_text() == "EU B-ORG\n\nAda O\n\n"


def test_what_the_commonest_tags_score(tmp_path):
    (tmp_path / "dev").write_text("EU B-ORG\n\nAda B-PER\nBabbage I-PER\n")
    corpora = {
        "train": read(tmp_path),
        "dev": ner_files.read(str(tmp_path / "dev")),
    }
    found = ner_results.majority_baseline(corpora.get, corpora)
    assert found["dev"]["entity_f1"] == 0.5
    assert ner_results.majority_baseline(corpora.get, ["dev"]) == {}

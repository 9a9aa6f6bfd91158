import pytest

from bert_tf.checkpoint import model_folders
from bert_tf.checkpoint.formats import vocabularies
from bert_tf.checkpoint.formats.google import tf1_checkpoint
from bert_tf.contrib.formats.keras_hub import preset
from bert_tf.contrib.formats.model_garden import tf2_checkpoint
from tfrecords.io import atomic_files
from tfrecords.text import vocab

SPECIAL = "[PAD] [UNK] [CLS] [SEP] [MASK]".split()
CONTENT = vocab.to_bytes([*SPECIAL, "the", "##s"])


@pytest.mark.parametrize("content", [CONTENT, CONTENT.replace(b"\n", b"\r\n")])
def test_a_complete_file_is_kept_unchanged(tmp_path, content):
    path = tmp_path / "inside" / "vocab.txt"
    vocabularies.write(content, str(path))
    assert path.read_bytes() == content
    assert vocabularies.read(str(path)) == content


def test_no_file_is_written_without_a_vocabulary(tmp_path):
    path = str(tmp_path / "vocab.txt")
    vocabularies.write(None, path)
    assert not list(tmp_path.iterdir())
    assert vocabularies.read(path) is None


@pytest.mark.parametrize(
    ("content", "count"),
    [(None, 0), (b"", 0), (b"a", 1), (b"a\nb", 2), (b"a\nb\n", 2)],
)
def test_entries_are_counted_with_or_without_a_final_newline(content, count):
    assert vocabularies.count_entries(content) == count


@pytest.mark.parametrize("module", [tf1_checkpoint, tf2_checkpoint, preset])
@pytest.mark.parametrize("word, lower", [("the", True), ("น้ำ", False)])
def test_an_inferred_case_is_noted(
    tmp_path, make_checkpoint, module, word, lower
):
    content = vocab.to_bytes([*SPECIAL, word])
    given = make_checkpoint("pretraining", vocabulary=content)
    with atomic_files.atomic_folder(str(tmp_path / "theirs")) as folder:
        module.write(given, folder)
    found = module.read(str(tmp_path / "theirs"))
    assert (found.do_lower_case, found.is_case_inferred) == (lower, True)
    assert vocabularies.case_note(lower) in found.notes
    assert f"do_lower_case={lower} is inferred" in vocabularies.case_note(lower)
    # Still marked as inferred in a model folder, and in a preset made from it.
    for other in (model_folders, preset):
        with atomic_files.atomic_folder(str(tmp_path / "next")) as folder:
            other.write(found, folder)
        found = other.read(str(tmp_path / "next"))
        assert (found.do_lower_case, found.is_case_inferred) == (lower, True)

import json

import pytest

from experiments.ablations import evaluation_tasks


@pytest.fixture
def sst(tmp_path):
    folder = tmp_path / "SST-2"
    folder.mkdir()
    rows = "a fine film , fine\t1\n" * 30
    (folder / "train.tsv").write_text(f"sentence\tlabel\n{rows}")
    (folder / "dev.tsv").write_text("sentence\tlabel\ndull\t0\nfine\t1\n")
    return folder


def test_a_folder_of_glue_is_counted(sst):
    probe = evaluation_tasks.glue(f"{sst}/")
    assert (probe.name, probe.kind, probe.script) == (
        "SST-2",
        "glue",
        "run_glue",
    )
    assert (probe.num_train, probe.num_dev) == (30, 2)
    assert probe.num_tokens == 2 + 1.3 * 5
    assert probe.flags == {"task_name": "SST-2", "data_dir": f"{sst}/"}


def test_without_a_dev_file_a_tenth_is_held_out(sst):
    (sst / "dev.tsv").unlink()
    assert evaluation_tasks.glue(str(sst)).num_dev == 3


def test_a_folder_that_is_no_task_s_is_refused(tmp_path):
    with pytest.raises(ValueError, match="No task named 'films'"):
        evaluation_tasks.glue(str(tmp_path / "films"))
    with pytest.raises(ValueError, match="AX has no training rows"):
        evaluation_tasks.glue(str(tmp_path / "AX"))


def squad_file(path, num_words):
    answer = {"text": "w", "answer_start": 0}
    questions = [
        {"id": str(i), "question": "What?", "answers": [answer]}
        for i in range(4)
    ]
    passage = {"context": "w " * num_words, "qas": questions}
    content = {
        "version": "1.1",
        "data": [{"title": "t", "paragraphs": [passage]}],
    }
    path.write_text(json.dumps(content))
    return str(path)


def test_long_passages_take_several_windows(tmp_path):
    short = squad_file(tmp_path / "short.json", 10)
    long = squad_file(tmp_path / "long.json", 100)
    probe = evaluation_tasks.squad(long, short, 60)
    # 130 pieces, of which 40 fit; 30 more in each further window.
    assert (probe.num_train, probe.num_dev) == (16, 4)
    assert probe.flags["doc_stride"] == 30


def test_names_are_two_probes(tmp_path):
    path = tmp_path / "eng.train"
    path.write_text("EU B-ORG\nrejects O\n\nPeter B-PER\n\n" * 10)
    probes = evaluation_tasks.ner(str(path), str(path), 16)
    assert [probe.kind for probe in probes] == ["ner", "ner_features"]
    # Without -DOCSTART- each sentence is read alone.
    assert probes[0].num_train == probes[0].num_dev == 20


def test_probes_are_needed_and_each_once(sst):
    probe = evaluation_tasks.glue(str(sst))
    evaluation_tasks.check_names([probe])
    with pytest.raises(ValueError, match="Probes: SST-2, SST-2. Give one task"):
        evaluation_tasks.check_names([probe, probe])
    with pytest.raises(ValueError, match="Probes: none"):
        evaluation_tasks.check_names([])

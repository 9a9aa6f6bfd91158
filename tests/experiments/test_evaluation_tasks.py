import json

import planted_squad
import pytest
from ablation_examples import make_settings

from experiments import evaluation_tasks


@pytest.fixture
def sst(tmp_path):
    folder = tmp_path / "SST-2"
    folder.mkdir()
    rows = "a fine film , fine\t1\n" * 30
    (folder / "train.tsv").write_text(f"sentence\tlabel\n{rows}")
    (folder / "dev.tsv").write_text("sentence\tlabel\ndull\t0\nfine\t1\n")
    return folder


def test_rows_of_a_glue_folder_are_counted(sst):
    task = evaluation_tasks.glue(f"{sst}/")
    assert (task.name, task.kind, task.script) == ("SST-2", "glue", "run_glue")
    assert (task.num_train, task.num_dev) == (30, 2)
    assert task.num_tokens == 2 + 1.3 * 5
    assert task.flags == {"task_name": "SST-2", "data_dir": f"{sst}/"}


def test_without_a_dev_file_a_tenth_is_held_out(sst):
    (sst / "dev.tsv").unlink()
    assert evaluation_tasks.glue(str(sst)).num_dev == 3


def test_a_task_without_training_rows_is_refused(tmp_path):
    with pytest.raises(ValueError, match="AX has no training rows"):
        evaluation_tasks.glue(str(tmp_path / "AX"))


def squad_file(path, num_words):
    text = "w " * num_words
    questions = [
        planted_squad.question(str(i), "What?", text, "w") for i in range(4)
    ]
    path.write_text(json.dumps(planted_squad.article((text, questions))))
    return str(path)


def test_long_passages_have_several_windows(tmp_path):
    short = squad_file(tmp_path / "short.json", 10)
    long = squad_file(tmp_path / "long.json", 100)
    task = evaluation_tasks.squad(long, short, 60)
    # 130 pieces, of which 40 fit; 30 more in each further window.
    assert (task.num_train, task.num_dev) == (16, 4)
    assert task.flags["doc_stride"] == 30


def test_named_entities_are_two_tasks(tmp_path):
    path = tmp_path / "eng.train"
    path.write_text("EU B-ORG\nrejects O\n\nPeter B-PER\n\n" * 10)
    tasks = evaluation_tasks.ner(str(path), str(path), 16)
    assert [task.kind for task in tasks] == ["ner", "ner_features"]
    # Without -DOCSTART- each sentence is a document.
    assert tasks[0].num_train == tasks[0].num_dev == 20


def test_a_task_without_one_of_its_files_is_refused():
    settings = make_settings("runs", ner_train_file="eng.train")
    with pytest.raises(ValueError, match="--ner_train_file and --ner_dev_file"):
        evaluation_tasks.read(settings, settings.max_seq_length)
    with pytest.raises(ValueError, match="tasks: none. Give one task"):
        evaluation_tasks.read(make_settings("runs"), max_seq_length=32)


def test_a_repeated_task_is_refused(sst):
    task = evaluation_tasks.glue(str(sst))
    evaluation_tasks.check_names([task])
    with pytest.raises(ValueError, match="tasks: SST-2, SST-2. Give one task"):
        evaluation_tasks.check_names([task, task])

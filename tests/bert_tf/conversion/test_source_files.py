import os

import pytest

from bert_tf.conversion import source_files

FILES = ("model.ckpt-9.index", "bert_config.json", "0_BERT/model.safetensors")


@pytest.fixture
def source(tmp_path):
    for name in FILES:
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "source"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("change", ["time", "size", "name", "gone"])
def test_each_change_is_seen(source, name, change):
    before = source_files.digest(str(source))
    assert source_files.digest(str(source)) == before
    path, state = source / name, (source / name).stat()
    if change == "size":
        path.write_text("longer than it was before")
    if change in ("size", "time"):
        later = state.st_mtime_ns + (change == "time")
        os.utime(path, ns=(state.st_atime_ns, later))
    elif change == "name":
        path.rename(path.with_name("other"))
    else:
        path.unlink()
    assert source_files.digest(str(source)) not in (before, None)


def test_what_runs_leave_beside_a_source_is_no_change(source):
    paths = [str(source), str(source / "model.ckpt-9")]
    before = [source_files.digest(path) for path in paths]
    assert before[0] != before[1]
    for name in ("run/run.json", "run/logs/a", ".git/HEAD", ".notes"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).touch()
    (source / "gone").symlink_to("nowhere")
    assert [source_files.digest(path) for path in paths] == before


def test_of_a_prefix_the_papers_beside_count(source, monkeypatch):
    monkeypatch.chdir(source)
    before = source_files.digest("model.ckpt-9")
    assert before == source_files.digest(str(source / "model.ckpt-9.index"))
    (source / "vocab.txt").write_text("the")
    assert source_files.digest("model.ckpt-9") not in (before, None)


def test_what_is_gone_is_none(source):
    assert source_files.digest(str(source / "nowhere")) is None
    assert source_files.digest(str(source / "model.ckpt-10")) is None
    (source.parent / "empty").mkdir()
    assert source_files.digest(str(source.parent / "empty")) is None

"""make_swag_records: records that show_records and doctor can read."""

import numpy as np
import planted_swag as planted
import pytest
import tensorflow as tf

from bert_tf.serving import kinds
from bert_tf.serving.answers.choices import MultipleChoice
from run_scripts import doctor, make_swag_records, show_records
from tfrecords import schema
from tfrecords.inspection import samples
from tfrecords.io import records
from tfrecords.tasks import swag_files
from tfrecords.text import tokenizer as tokenizer_lib


def make(root, vocab_file):
    """Makes records of train.csv; returns their folder."""
    words = [
        *(f"--data_dir={root}", f"--output_dir={root / 'records'}"),
        *(f"--vocab_file={vocab_file}", "--max_seq_length=32"),
    ]
    make_swag_records.main(["make_swag_records", *words])
    return root / "records/train"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_vocab_file):
    root = tmp_path_factory.mktemp("swag")
    planted.write(root / "train.csv", planted.rows(5, 3), planted.header(3))
    return make(root, tiny_vocab_file)


def test_each_choice_is_shown(folder, tiny_vocab_file, tmp_path, capsys):
    words = [
        *(f"--records={folder}", f"--vocab_file={tiny_vocab_file}"),
        *("--num_records=1", f"--page={tmp_path / 'page.html'}"),
    ]
    show_records.main(["show_records", *words])
    lines = capsys.readouterr().out.splitlines()
    heads = [line.split(", ") for line in lines if "  choice" in line]
    names = [head[0] for head in heads]
    assert names == ["  choice 0", "  choice 1", "  choice 2"]
    assert [head[1] == "correct" for head in heads] == [True, False, False]
    assert (
        lines[5] == '  A [CLS] he s##a##i##d , " waits for the boat . " [SEP]'
    )
    assert lines[9] == "  B the captain read##s the letter . [SEP]"
    assert (tmp_path / "page.html").read_text().count("<svg") == 2


def test_an_export_packs_endings_as_the_records_do(folder, tiny_vocab_file):
    tokenizer = tokenizer_lib.BertTokenizer(tiny_vocab_file)
    found = records.Records.open(str(folder))
    wanted = samples.read(
        found, "multiple_choice", found.manifest.sizes, range(5)
    )
    rows = list(
        swag_files.read_rows(
            str(folder.parents[1] / "train.csv"), is_labelled=True
        )
    )
    answers = MultipleChoice(None, tokenizer, 32, {}, kinds.AnswerOptions())
    batch = answers.encode(
        tf.constant([row.context for row in rows]),
        tf.constant([row.endings for row in rows]),
    )
    for name in schema.ENCODER_INPUTS:
        exported = batch[name].numpy()[:, 0]  # [M, s]
        recorded = wanted[name].reshape(15, 32)
        width = exported.shape[1]
        np.testing.assert_array_equal(exported, recorded[:, :width])
        assert not recorded[:, width:].any()


def examine(folder, tiny_config, tmp_path, *words):
    path = tmp_path / "bert_config.json"
    tiny_config.to_json_file(path)
    words = f"--records={folder}", f"--bert_config_file={path}", *words
    try:
        doctor.main(["doctor", *words])
    except SystemExit as ended:
        return ended.code
    return 0


def test_the_doctor_checks_choices(
    folder, tiny_config, tiny_vocab_file, tmp_path, capsys
):
    words = f"--vocab_file={tiny_vocab_file}", "--num_replicas=2"
    status = examine(folder, tiny_config, tmp_path, *words)
    text = capsys.readouterr().out
    assert status == 0, text
    assert "5 records, shards: 1; 15 examples checked" in text
    # 32 records a step, each with three rows.
    assert "of each of 2 replicas, with 48 of 96 rows of " in text
    assert "labels: the classes of" not in text

import dataclasses

import pytest

from bert_tf.config import BertConfig
from experiments import recipes


def test_configs_of_finished_runs_are_not_overwritten(tmp_path):
    config = BertConfig(vocab_size=30)
    path = tmp_path / "configs" / "small.json"
    recipes.check_configs({str(path): config})  # There is no file yet.
    recipes.write_configs({str(path): config})
    assert BertConfig.from_json_file(path) == config
    before = path.read_bytes()
    other = dataclasses.replace(config, hidden_dropout_prob=0.0)
    more = {str(tmp_path / "more.json"): other, str(path): other}
    with pytest.raises(
        ValueError,
        match="small.json belongs to .*: hidden_dropout_prob: was 0.1, is now "
        "0.0. Choose another --output_dir",
    ):
        recipes.write_configs(more)
    # The missing one is not written either.
    assert path.read_bytes() == before
    assert not (tmp_path / "more.json").exists()
    recipes.write_configs({str(path): config})

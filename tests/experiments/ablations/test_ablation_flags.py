import pytest
from absl import flags

from experiments.ablations import ablation_flags
from run_scripts.flags import common_flags
from tfrecords.text.vocab import VocabularyOptions


@pytest.fixture
def parse(tmp_path):
    """Words -> parsed flags, of a corpus that is there."""
    (tmp_path / "text.txt").write_text("A sentence.\n")

    def parse(*words):
        values = flags.FlagValues()
        ablation_flags.define(values)
        common_flags.define(values, VocabularyOptions)
        common_flags.define_max_seq_length(values)
        given = [f"--corpus={tmp_path}/*.txt", f"--output_dir={tmp_path}/runs"]
        values(["run_ablations", *given, *words])
        return values

    return parse


def test_what_runs_share_comes_from_flags(parse, tiny_vocab_file, tmp_path):
    settings = ablation_flags.find_settings(
        parse("--num_train_steps=50", "--num_checkpoints=2")
    )
    assert (settings.vocab_file, settings.is_vocab_given) == (
        f"{tmp_path}/runs/vocab.txt",
        False,
    )
    assert settings.vocab_size == 8000
    assert settings.options["pretraining"]["num_warmup_steps"] == 5
    assert settings.kept == {
        "L-4_H-128_A-4_next_sentence_80-10-10",
        "L-4_H-128_A-4_left_to_right",
    }
    assert settings.rate > 0
    given = ablation_flags.find_settings(
        parse(f"--vocab_file={tiny_vocab_file}", "--nodo_lower_case")
    )
    assert (given.is_vocab_given, given.vocab_size) == (True, 203)
    for kind in ("vocabulary", "records", "pretraining", "fine_tuning"):
        assert given.options[kind]["do_lower_case"] is False


def test_rows_are_those_of_the_tables_asked_for(parse):
    rows = ablation_flags.find_rows(parse("--tables=6,figure5"))
    assert {row.table for row in rows} == {"6", "figure5"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tables=7"], "--tables=7 should name some of 5"),
        (["--hidden_size=130"], "130 is not a multiple of --num_attention"),
    ],
)
def test_plans_that_cannot_be_are_refused(parse, words, message):
    with pytest.raises(ValueError, match=message):
        ablation_flags.find_rows(parse(*words))


def test_too_few_steps_and_no_text_are_refused(parse, tmp_path):
    with pytest.raises(
        ValueError, match="checkpoints=3 or --num_train_steps=5"
    ):
        ablation_flags.find_settings(parse("--num_train_steps=3"))
    with pytest.raises(ValueError, match="nothing.*txt"):
        ablation_flags.find_settings(parse(f"--corpus={tmp_path}/nothing*.txt"))


def test_half_of_a_probe_is_refused(parse):
    with pytest.raises(ValueError, match="--ner_train_file and --ner_dev_file"):
        ablation_flags.find_probes(parse("--ner_train_file=eng.train"))
    with pytest.raises(ValueError, match="Probes: none. Give one task"):
        ablation_flags.find_probes(parse())

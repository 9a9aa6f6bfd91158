"""run_ablations end to end, with its jobs in this process for speed."""

import json
import pathlib
import shlex

import experiment_plans
import pytest

from bert_tf import config
from experiments import commands
from experiments.ablations import run_ablations
from experiments.ablations.settings import Settings
from run_scripts.flags import common_flags


@pytest.fixture(scope="module")
def words(tmp_path_factory, tiny_vocab_file):
    """Flags of a plan, without --tables."""
    folder = tmp_path_factory.mktemp("ablations")
    return [
        "run_ablations",
        *experiment_plans.flags_of_inputs(folder, tiny_vocab_file),
        "--num_hidden_layers=1",
        "--hidden_size=16",
        "--num_attention_heads=2",
        "--max_seq_length=32",
        "--num_train_steps=2",
        "--num_checkpoints=1",
        "--train_batch_size=4",
        "--max_eval_steps=1",
        "--held_out_prob=0.2",
        "--fine_tuning_batch_size=8",
        "--num_train_epochs=1",
        "--num_seeds=1",
    ]


def read_settings(words, *more):
    common_flags.parse(run_ablations.FLAGS, [*words, *more], "")
    return run_ablations.read_settings()


def test_settings_are_the_flags(words, tiny_vocab_file):
    folder = words[4].partition("=")[2]
    settings = read_settings(words, "--num_train_steps=50", "--nodo_lower_case")
    assert settings.vocab_file == settings.vocab_path == tiny_vocab_file
    assert (settings.vocab_size, settings.num_train_steps) == (203, 50)
    assert settings.do_lower_case is False
    learnt = read_settings([w for w in words if "vocab_file" not in w])
    assert learnt.vocab_path == f"{folder}/vocab.txt"
    assert (learnt.vocab_size, learnt.do_lower_case) == (8000, True)


def test_the_command_of_the_published_report_is_valid():
    root = pathlib.Path(__file__).parents[3]
    page = (root / "docs" / "ablations.md").read_text("utf-8")
    command = page.rpartition("```sh\n")[2].removesuffix("```\n")
    python, m, module, *arguments = shlex.split(command.replace("\\\n", ""))
    assert (python, m, module) == ("python", "-m", run_ablations.__name__)
    common_flags.parse(run_ablations.FLAGS, [module, *arguments], "")
    settings = common_flags.config(Settings, run_ablations.FLAGS)
    assert (settings.num_train_steps, settings.num_seeds) == (3000, 2)


def test_a_width_that_the_heads_do_not_share_is_refused(words):
    with pytest.raises(ValueError, match="17 is not a multiple of --num_att"):
        run_ablations.main([*words, "--hidden_size=17"])


@pytest.fixture
def ran(monkeypatch):
    """Names of the jobs that ran; they run in this process."""
    names = []

    def run(progress):
        for job in progress.jobs:
            experiment_plans.run(job)
            names.append(job.name)
            progress.taken[job.name] = 1.0
            yield job

    monkeypatch.setattr(commands, "run", run)
    return names


@pytest.mark.slow
def test_a_plan_is_run_and_reported(words, ran):
    folder = pathlib.Path(words[4].partition("=")[2])
    run_ablations.main([*words, "--tables=figure5"])
    # Records, models, records of the task, fine-tuned models.
    assert len(ran) == 2 + 2 + 1 + 2
    text = (folder / "report.md").read_text()
    assert "## Pre-training steps (figure 5)" in text
    assert "--tables=figure5" in text
    # The paper's curves are for MNLI.
    assert "Of 2 claims of ours" in text and "and 0 were not run." in text
    assert "claims of the paper" not in text
    results = json.loads((folder / "results.json").read_text())
    assert all(0 <= row["SST-2"][0] <= 1 for row in results["rows"])
    for check in results["checks"]:
        # Scores on so few examples may be equal.
        assert check["answer"] in ("yes", "no", "too near")
        assert not check["is_from_paper"]
    assert (folder / "report.png").stat().st_size > 10000
    path = folder / (
        "fine_tuned/L-1_H-16_A-2_left_to_right/step-2/sst_2/seed-0"
    )
    found = config.BertConfig.from_json_file(path / "best/bert_config.json")
    assert found.is_causal


def test_a_dry_run_prints_commands_and_makes_nothing(words, tmp_path, capsys):
    sizes = "--num_hidden_layers=3"  # Enough for those of table 6.
    output_dir = f"--output_dir={tmp_path}/dry"
    run_ablations.main([*words, sizes, output_dir, "--dry_run"])
    lines = capsys.readouterr().out.splitlines()
    commands = [line for line in lines if line.startswith("python -m ")]
    assert len(commands) == len(set(commands))
    assert any("_causal.json" in command for command in commands)
    assert f"# {len(commands)} commands: " in lines[-1]
    assert f"0 of {len(commands)} commands done, about " in lines[-1]
    assert not list(tmp_path.iterdir())

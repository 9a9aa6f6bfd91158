import pytest
from ablation_examples import TASKS, make_settings

from experiments.ablations import checks as ablation_checks
from experiments.ablations import report as ablation_report
from experiments.ablations import tables
from experiments.ablations.tables import PERPLEXITY, Model
from experiments.dev_scores import Score

BASE = Model(4, 64, 4)
KINDS = {task.name: task.kind for task in TASKS}


def report(rows, scores, **changes):
    settings = make_settings("runs", **changes)
    checks = ablation_checks.make(rows, scores, KINDS)
    return ablation_report.text(
        rows, scores, checks, TASKS, settings, 3725.0, "python -m x"
    )


@pytest.fixture
def rows():
    return tables.make(list(tables.TABLES), BASE, 2)


def test_our_numbers_are_next_to_those_of_the_paper(rows):
    scores = [
        {"SST-2": Score((0.5,), "accuracy"), "SQuAD": Score((0.25,), "f1")}
        for _ in rows
    ]
    for row, found in zip(rows, scores, strict=True):
        if row.table == "6":
            found[PERPLEXITY] = Score((12.5,), "perplexity")
    text = report(rows, scores)
    for part in (
        "|  | SST-2, accuracy | SQuAD, F1 | paper: MNLI, accuracy | "
        "paper: QNLI, accuracy | paper: MRPC, accuracy | "
        "paper: SST-2, accuracy | paper: SQuAD, F1 |",
        "| left-to-right, with BiLSTM | 50.0 | 25.0 | 82.1 | 84.1 | 75.7 | "
        "91.6 | 84.9 |",
        "| no pre-training | 50.0 | 25.0 | - | - | - | - | - |",
        f"| paper: {PERPLEXITY} | paper: MNLI, accuracy |",
        "| paper: NER, F1 | paper: NER, feature-based, F1 |",
        "| L-8_H-80_A-5 | 12.50 | 50.0 | L-24_H-1024_A-16 | 3.23 |",
        "| 100 % [MASK], 0 % same, 0 % random | 50.0 | - | - |",
        "| 50 | 50.0 | 50.0 |",
        "| 100 | 50.0 | 50.0 |",
    ):
        assert part in text


def test_the_report_has_the_scale_and_the_claims_that_do_not_hold(rows):
    scores = [
        {"SST-2": Score((0.5 + i / 1000,), "accuracy")}
        for i, _ in enumerate(rows)
    ]
    text = report(rows, scores)
    for part in (
        "check the shape of the paper's tables",
        "order of the rows, and not the numbers",
        # 100 steps of 16 x 32 tokens; 42.6 thousand million in the paper.
        "51,200 in total; the paper's read 832,000 times as many",
        "- Left-to-right models classify by their last token",
        "Claims of the paper that do not hold here:",
        "- Without next sentence prediction SST-2 is lower. Here: BERT (masked "
        "LM, next sentence): 50.0; no next sentence: 50.1; standard error ",
        "| Without next sentence prediction SST-2 is lower. | the paper's | "
        "**no** | BERT (masked LM, next sentence): 50.0; no next sentence: "
        "50.1; standard error unknown |",
        # SST-2 is not in table 8 of the paper.
        "Random tokens alone are worse than 80/10/10 on SST-2. | ours | **no**",
        "The commands took 1:02:05 in total.",
    ):
        assert part in text
    paper, ours = text.split("Of ")[1:3]
    assert paper.startswith("13 claims of the paper, 1 hold here, 3 do not, 0 ")
    assert ours.startswith("6 claims of ours (controls, and columns that the ")
    assert "Claims of ours that do not hold:" in ours
    assert text.endswith("```sh\npython -m x\n```\n")


def test_scores_of_seeds_have_a_standard_error(rows):
    scores = [{"SST-2": Score((0.5, 0.54), "accuracy")} for _ in rows]
    text = report(rows, scores, num_seeds=2)
    assert "| 52.0 ± 2.0 |" in text
    assert "their mean and its standard error" in text


def test_a_score_not_above_the_baseline_is_marked(rows):
    def scores(baseline):
        return [{"SST-2": Score((0.5,), "accuracy", baseline)} for _ in rows]

    text = report(rows, scores(0.5))
    assert "| no pre-training | 50.0 † | - |" in text
    assert "† No better than the majority-class baseline" in text
    assert "†" not in report(rows, scores(0.4))


def test_a_report_has_only_the_tables_of_the_plan():
    rows = tables.make(["6"], BASE, 2)
    text = report(rows, [{} for _ in rows])
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        "## Do the paper's claims hold?",
        "## Model size (table 6)",
    ]
    assert (
        "Of 2 claims of the paper, 0 hold here, 0 do not, 0 are too near to "
        "tell, and 2 were not run" in text
    )
    assert "of ours" not in text


def test_inconclusive_claims_are_neither_yes_nor_no():
    rows = tables.make(["5"], BASE, 2)
    scores = [
        {"SST-2": Score((0.5, 0.54 + i / 10_000), "accuracy")}
        for i, _ in enumerate(rows)
    ]
    text = report(rows, scores, num_seeds=2)
    assert "Of 7 claims of the paper, 0 hold here, 0 do not, 3 are too" in text
    assert (
        "| the paper's | too near | BERT (masked LM, next sentence): 52.0 ± "
        "2.0; no next sentence: 52.0 ± 2.0; within two standard errors |"
    ) in text
    assert "Claims of the paper that do not hold here:" not in text

"""Scores of rows -> checks: does each claim of the paper hold here too?

A claim comes from Devlin et al. 2018, section 5 and appendix C.2, applied to
one column; its answer is computed. Controls, and claims applied to a column
that the paper's table does not have, are counted as our own claims.
"""

import functools
import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from experiments.ablations import tables
from experiments.ablations.results import Scores
from experiments.ablations.tables import PERPLEXITY, Row
from experiments.dev_scores import Score

# A smaller difference, in standard errors, may be due to chance.
_ERRORS = 2.0
YES, NO, TOO_NEAR, NOT_RUN = "yes", "no", "too near", "not run"
_UNKNOWN_ERROR = "; standard error unknown"
_OPPOSITE = {YES: NO, NO: YES, TOO_NEAR: TOO_NEAR, NOT_RUN: NOT_RUN}


class Check(NamedTuple):
    """A claim and whether it holds.

    Attributes:
      table: a key of `tables.TABLES`.
      column: a task or `PERPLEXITY`; None for a control.
      claim: a sentence.
      answer: `YES`, `NO`, `TOO_NEAR` or `NOT_RUN`.
      detail: the numbers behind the answer.
    """

    table: str
    column: str | None
    claim: str
    answer: str
    detail: str

    @property
    def is_from_paper(self) -> bool:
        """Whether the paper makes this claim; otherwise it is ours."""
        return self.column in tables.PAPER_COLUMNS[self.table]


def show(score: Score) -> str:
    """Returns mean and standard error; in percent, except for perplexities."""
    if score.metric == "perplexity":
        return score.show("{:.2f}")
    return score.show("{:.1%}").replace("%", "")


def _judge(more: Score, less: Score) -> str:
    """Returns whether the first score is above the second."""
    difference = more.mean - less.mean
    # NaN with one seed; no difference is below NaN. Equal scores, such as those
    # of two runs that predict the majority class, are inconclusive.
    error = math.hypot(more.error, less.error)
    if difference == 0 or abs(difference) < _ERRORS * error:
        return TOO_NEAR
    return YES if difference > 0 else NO


def _judge_all(pairs: Iterable[tuple[Score, Score]]) -> str:
    """Returns whether the first score of every pair is above the second."""
    answers = {_judge(more, less) for more, less in pairs}
    return next((x for x in (NO, TOO_NEAR) if x in answers), YES)


def _error_note(*scores: Score) -> str:
    """Returns a note if any of the scores has no standard error."""
    is_known = not any(math.isnan(score.error) for score in scores)
    return "" if is_known else _UNKNOWN_ERROR


def _compare(
    table: str,
    column: str | None,
    claim: str,
    more: tuple[str, Score | None],
    less: tuple[str, Score | None],
) -> Check:
    """Returns the check that the first score is above the second.

    Args:
      table: see `Check`.
      column: see `Check`.
      claim: see `Check`.
      more: whose score it is, and the score; None if it was not run.
      less: the same of the other score.
    """
    (name, more), (other, less) = more, less
    if more is None or less is None:
        return _not_run(table, column, claim)
    detail = f"{name}: {show(more)}; {other}: {show(less)}"
    answer = _judge(more, less)
    if answer == TOO_NEAR:
        is_equal = more.mean == less.mean
        detail += "; equal" if is_equal else "; within two standard errors"
    detail += _error_note(more, less)
    return Check(table, column, claim, answer, detail)


def _not_run(table: str, column: str | None, claim: str) -> Check:
    return Check(table, column, claim, NOT_RUN, "not run")


def _table_scores(table: str, rows, scores) -> dict[str, Scores]:
    """Returns the scores of a table's rows by their labels."""
    return {
        row.label: row_scores
        for row, row_scores in zip(rows, scores, strict=True)
        if row.table == table
    }


def _tasks(by_label: dict[str, Scores], names, kinds) -> Iterator[Check]:
    """Table 5: next sentence prediction and bidirectionality help."""
    for name in names:
        bert, alone, ltr, lstm, scratch = (
            (label, by_label[label].get(name))
            for label in (
                tables.BERT,
                tables.NO_PAIRS,
                tables.LTR,
                tables.LTR_BILSTM,
                tables.FROM_SCRATCH,
            )
        )
        compare = functools.partial(_compare, "5", name)
        yield compare(
            f"Without next sentence prediction {name} is lower.", bert, alone
        )
        yield compare(
            f"Left-to-right is below masked LM on {name}.", alone, ltr
        )
        if kinds[name] == "squad":
            yield compare(
                f"A BiLSTM improves left-to-right on {name}.", lstm, ltr
            )
            yield compare(
                f"Masked LM stays above left-to-right with BiLSTM on {name}.",
                alone,
                lstm,
            )
        else:
            lifts = compare("", lstm, ltr)
            yield lifts._replace(
                claim=f"A BiLSTM does not improve left-to-right on {name}.",
                answer=_OPPOSITE[lifts.answer],
            )
        claim = f"Pre-training helps on {name} (a control)."
        yield _compare("5", None, claim, bert, scratch)
        score = bert[1]
        if score is not None and score.baseline is not None:
            baseline = Score((score.baseline,), score.metric, is_constant=True)
            claim = f"BERT beats the majority class on {name} (a control)."
            other = ("majority class", baseline)
            yield _compare("5", None, claim, bert, other)


def _sizes(by_label: dict[str, Scores], names) -> Iterator[Check]:
    """Table 6: larger models are better on every task."""
    for name in (PERPLEXITY, *names):
        of_sizes = [scores.get(name) for scores in by_label.values()]
        if name == PERPLEXITY:
            claim = "Each larger model has a lower perplexity."
        else:
            claim = f"Each larger model is better on {name}."
        if None in of_sizes:
            yield _not_run("6", name, claim)
            continue
        pairs = list(itertools.pairwise(of_sizes))
        if name != PERPLEXITY:
            pairs = [(after, before) for before, after in pairs]
        rises = [more.mean > less.mean for more, less in pairs]
        detail = ", ".join(map(show, of_sizes))
        detail += f"; {sum(rises)} of {len(rises)} steps"
        detail += _error_note(*of_sizes)
        yield Check("6", name, claim, _judge_all(pairs), detail)


def _mixes(by_label: dict[str, Scores], names, kinds) -> Iterator[Check]:
    """Table 8: the mix matters for features, hardly in fine-tuning."""
    labels = list(by_label)
    ours, masks_alone, random_alone = labels[0], labels[1], labels[-1]
    spreads: dict[str, Score | None] = {}
    for name in names:
        of_mixes = {label: by_label[label].get(name) for label in labels}
        yield _compare(
            "8",
            name,
            f"Random tokens alone are worse than 80/10/10 on {name}.",
            (ours, of_mixes[ours]),
            (random_alone, of_mixes[random_alone]),
        )
        claim = f"[MASK] alone is the worst mix on {name}."
        if None in of_mixes.values():
            if kinds[name] == "ner_features":
                yield _not_run("8", name, claim)
            continue
        spreads[kinds[name]] = _spread(of_mixes.values())
        if kinds[name] == "ner_features":
            worst = min(of_mixes, key=lambda label: of_mixes[label].mean)
            detail = f"{masks_alone}: {show(of_mixes[masks_alone])}; the worst "
            detail += f"is {worst}: {show(of_mixes[worst])}"
            detail += _error_note(*of_mixes.values())
            last = of_mixes.pop(masks_alone)
            answer = _judge_all((other, last) for other in of_mixes.values())
            yield Check("8", name, claim, answer, detail)
    claim = "The mix matters less in fine-tuning than for features."
    if "ner_features" in kinds.values():
        yield _compare(
            *("8", "NER", claim),
            ("best minus worst with features", spreads.get("ner_features")),
            ("fine-tuned", spreads.get("ner")),
        )


def _spread(scores: Collection[Score]) -> Score | None:
    """Returns best minus worst of some scores, for each seed.

    None while they have different seeds: a plan runs, or a run diverged.
    """
    of_seeds = [score.values for score in scores]
    if len(set(map(len, of_seeds))) > 1:
        return None
    values = tuple(max(x) - min(x) for x in zip(*of_seeds, strict=True))
    return Score(values, next(iter(scores)).metric)


def _steps(rows: Sequence[Row], scores, names) -> Iterator[Check]:
    """Figure 5: more steps help, and masked LM is ahead from an early step."""
    for name in names:
        points = {
            label: [
                row_scores.get(name)
                for row, row_scores in zip(rows, scores, strict=True)
                if row.table == "figure5" and row.label == label
            ]
            for label in (tables.MASKED_LM, tables.LEFT_TO_RIGHT)
        }
        masked, causal = points.values()
        if len(masked) > 1:
            # 500,000 and 1,000,000 steps in the paper.
            half = len(masked) // 2
            share = 100 * half / len(masked)
            yield _compare(
                "figure5",
                name if share == 50 else None,
                f"100 % of the steps are better than {share:.0f} % on {name}.",
                ("100 %", masked[-1]),
                (f"{share:.0f} %", masked[half - 1]),
            )
        claim = f"Masked LM ends above left-to-right on {name}."
        ends = zip(points, (masked[-1], causal[-1]), strict=True)
        yield _compare("figure5", name, claim, *ends)
        claim = f"Masked LM is ahead at most checkpoints on {name}."
        if None in masked + causal:
            yield _not_run("figure5", name, claim)
            continue
        answers = list(map(_judge, masked, causal))
        ahead, near = answers.count(YES), answers.count(TOO_NEAR)
        answer = NO
        if 2 * (ahead + near) > len(answers):
            answer = YES if 2 * ahead > len(answers) else TOO_NEAR
        detail = f"at {ahead} of {len(answers)}"
        detail += f", too near at {near}" if near else ""
        detail += _error_note(*masked, *causal)
        yield Check("figure5", name, claim, answer, detail)


def make(
    rows: Sequence[Row], scores: Sequence[Scores], kinds: dict[str, str]
) -> list[Check]:
    """Returns the checks of all tables that have rows.

    Args:
      rows: rows of the plan.
      scores: scores of each row.
      kinds: kind of each task by its name.
    """

    def names(table: str) -> list[str]:
        wanted = tables.COLUMNS[table]
        return [name for name, kind in kinds.items() if kind in wanted]

    checks: dict[str, Iterable[Check]] = {
        "5": _tasks(_table_scores("5", rows, scores), names("5"), kinds),
        "6": _sizes(_table_scores("6", rows, scores), names("6")),
        "8": _mixes(_table_scores("8", rows, scores), names("8"), kinds),
        "figure5": _steps(rows, scores, names("figure5")),
    }
    shown = {row.table for row in rows}
    return [check for name in checks if name in shown for check in checks[name]]

"""Flags of a table of queries, passages and grades -> RankingTable."""

import dataclasses

from tfrecords.options import REQUIRED, option, quoted, to_number
from tfrecords.tasks import glue_tables

RANKING_LOSSES = ("binary", "listwise")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankingTable(glue_tables.GlueTask):
    """Grades of passages, the second text, for a query, the first one.

    Attributes:
      ranking_loss: one of `RANKING_LOSSES`.
      passages_per_query: passages in an example, if the loss is "listwise".
    """

    ranking_loss: str
    passages_per_query: int = 8

    @property
    def group_name(self):
        """The column of queries, unless another one is named."""
        return self.group_column or self.text_columns[0]

    def parse_score(self, cell, where):
        """Returns a grade."""
        score = to_number(cell)
        if not 0 <= score <= glue_tables.MAX_SCORE:
            raise ValueError(
                f"{where}: {self.label_column!r} is {quoted(cell)}; a grade "
                "should be a number of at least 0. Correct the line, or name "
                "the column with --label_column."
            )
        return score


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankingData(glue_tables.GlueData):
    """Files and columns of queries, passages and grades."""

    labels: tuple[str, ...] | None = option(
        ("score",), "Always score: the label is a grade, a number."
    )
    ranking_loss: str = option(
        REQUIRED,
        "Learn to rank the passages of a query (the second and the first of "
        "--text_column) by their grades in --label_column: 0, or more for "
        "relevant ones. binary: is a passage relevant (Nogueira and Cho 2019); "
        "listwise: a softmax over passages of the same query (ListNet; Gao et "
        "al. 2021), which several grades need. Dev is scored by nDCG@10 and "
        "MRR.",
        choices=RANKING_LOSSES,
    )
    passages_per_query: int | None = option(
        None,
        "With --ranking_loss=listwise: passages in an example, one of the "
        "relevant ones of a query, and others of lower grades, drawn with a "
        "seed. --train_batch_size counts such examples. Default: 8.",
        at_least=2,
        at_most=1000,
    )

    def choose_task(self, labels=None):
        """Returns the RankingTable that the options select.

        Raises:
          ValueError: as in `GlueData.choose_task`; and for options that do not
            fit a ranking.
        """
        flag = f"--ranking_loss={self.ranking_loss}"
        if not self.own_files():
            raise ValueError(
                f"{flag} is for files of your own, given with --train_file. "
                "Add them: the tasks of GLUE have no passages to rank."
            )
        if self.passages_per_query and self.ranking_loss != "listwise":
            raise ValueError(
                f"--passages_per_query={self.passages_per_query} is for "
                "--ranking_loss=listwise. Omit it."
            )
        if self.labels != ("score",) or self.multi_label or self.label_columns:
            raise ValueError(
                f"{flag} is for a label that is a grade, a number of at least "
                "0. Omit --labels, --label_columns and --multi_label, and name "
                "the grade's column with --label_column."
            )
        if self.text_column and len(self.text_column) != 2:
            raise ValueError(
                f"{flag} needs two columns in --text_column, the query and the "
                f"passage; there is {','.join(self.text_column)}. Write one "
                "row per passage, with its grade."
            )
        if self.ranking_loss == "listwise" and self.weight_column:
            raise ValueError(
                f"--weight_column={self.weight_column} has a weight for each "
                f"row, and {flag} a loss for each query. Omit it, or use "
                "--ranking_loss=binary."
            )
        table = super().choose_task(labels)
        fields = dataclasses.fields(table)
        return RankingTable(
            **{x.name: getattr(table, x.name) for x in fields}
            | {"metrics": ("ndcg@10", "mrr"), "best_metric": "ndcg@10"},
            ranking_loss=self.ranking_loss,
            passages_per_query=self.passages_per_query
            or RankingTable.passages_per_query,
        )

"""Tables of queries, passages and grades -> examples of rankings."""

import dataclasses
from collections.abc import Iterator

from bert_tf.contrib.search.records import passage_lists
from tfrecords.options import REQUIRED, option, quoted
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

    def has_lists(self, split: str) -> bool:
        """Returns whether an example has several passages of a query."""
        return split == "train" and self.ranking_loss == "listwise"

    def schema_name(self, split):
        """Returns the key in `schema.SCHEMAS` of a split's records."""
        if self.has_lists(split):
            return "ranking"
        return super().schema_name(split)

    def sizes(self, split):
        """Returns the number of passages of a list."""
        if self.has_lists(split):
            return {"num_choices": self.passages_per_query}
        return super().sizes(split)

    def manifest_flags(self, split, seed):
        """Returns the manifest entries of the loss."""
        found = super().manifest_flags(split, seed)
        if not split.startswith("test"):
            found["ranking_loss"] = self.ranking_loss
        if self.has_lists(split):
            found["passages_per_query"] = self.passages_per_query
            found["groups"] = self.group_name
            found["lists_seed"] = seed
        return found

    def check_texts(self, texts, where):
        """Raises ValueError for an empty text."""
        for name, text in zip(self.text_columns, texts, strict=True):
            if not text.strip():
                raise ValueError(
                    f"{where}: {name!r} is empty; a ranking needs a query and "
                    "a passage in each row. Correct or remove the row."
                )

    def parse_score(self, cell, where):
        """Returns a grade."""
        score = glue_tables.number(cell)
        if not 0 <= score <= glue_tables.MAX_SCORE:
            raise ValueError(
                f"{where}: {self.label_column!r} is {quoted(cell)}; a grade "
                "should be a number of at least 0. Correct the line, or name "
                "the column with --label_column."
            )
        return score

    def checked(self, rows, split, path):
        """Yields the rows; raises ValueError if they have no ranking to learn.

        All or none are relevant; or, in lists, no query has a relevant passage
        and one of a lower grade.
        """
        if split != "train":
            yield from rows
            return
        groups, grades = [], []
        for row in rows:
            groups.append(row.group)
            grades.append(row.label)
            yield row
        if self.has_lists(split):
            lists = passage_lists.choose(groups, grades, size=2, seed=0)
            if grades and next(lists, None) is None:
                raise ValueError(
                    f"{path}: none of the {len(set(groups))} queries "
                    f"({self.group_name!r}) of train has a relevant passage "
                    f"and one of a lower grade ({self.label_column!r}), so "
                    "there is no ranking to learn. Add rows, name another "
                    "--group_column, or use --ranking_loss=binary."
                )
        elif grades and len({grade > 0 for grade in grades}) < 2:
            which = "above 0, relevant" if any(grades) else "0"
            raise ValueError(
                f"{path}: all {len(grades)} grades ({self.label_column!r}) of "
                f"train are {which}, so there is nothing to learn. Add rows of "
                "both, or name another --label_column."
            )

    def examples(self, rows, split, encode, counts, seed) -> Iterator[dict]:
        """Yields an example for each row, or for each list of passages."""
        if not self.has_lists(split):
            return super().examples(rows, split, encode, counts, seed)
        return passage_lists.examples(
            list(rows), encode, counts, size=self.passages_per_query, seed=seed
        )


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
                f"passage; there is {','.join(self.text_column)}."
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

"""Queries with passages, --teacher -> scores of the passages to learn from."""

import dataclasses

from bert_tf.checkpoint import contents
from bert_tf.checkpoint.checkpoint import Checkpoint
from bert_tf.serving.predictor import Predictor
from bert_tf.workflows.configs import TeacherOptions


class Ranker:
    """Query and passages of rows -> the teacher's scores of the passages.

    Args:
      config: reads `teacher` and `eval_batch_size`; its other options of a
        teacher have no meaning for a ranking.

    Attributes:
      sha256: of the teacher's weights.

    Raises:
      ValueError: if the teacher does not score pairs, or another option is
        given.
    """

    def __init__(self, config):
        for field in dataclasses.fields(TeacherOptions):
            value = getattr(config, field.name)
            if field.name != "teacher" and value != field.default:
                raise ValueError(
                    f"--{field.name}: from a ranking, the differences of the "
                    "teacher's scores are learned, and nothing else. Omit the "
                    "flag."
                )
        given = Checkpoint.open(
            config.teacher,
            accept_tokenizer_differences=config.accept_tokenizer_differences,
        )
        if given.task != "regression" or given.vocabulary is None:
            raise ValueError(
                f"--teacher={config.teacher} is a model of {given.task}; "
                "vectors learn from a cross-encoder, which scores a query with "
                "a passage: one of run_ranking, or a folder of "
                "sentence-transformers' CrossEncoder."
            )
        self.sha256 = given.sha256()
        # Differences of logits are learned: those of sigmoids vanish.
        given.metadata.pop(contents.SCORE_ACTIVATION, None)
        self.predictor = Predictor(
            *(given.build(dtype="float32"), given.tokenizer([])),
            kind="ranking",
            batch_size=config.eval_batch_size,
        )

    def __call__(self, rows) -> list[list[float]]:
        """Returns the scores of the passages of each (query, passages)."""
        found = []
        for ranked in self.predictor(rows):
            scores = dict(zip(ranked.order, ranked.scores, strict=True))
            found.append([scores[i] for i in range(len(scores))])
        return found

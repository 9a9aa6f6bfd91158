"""Flags of exports -> which answers a SavedModel gives, and how."""

from collections.abc import Iterable

from absl import flags

from bert_tf.export import embedding_signatures

# Flags that say something of some kinds only.
_KINDS = {
    "top_k": ("fill_mask",),
    "pooling": ("sentence_embedding",),
    "layers": ("sentence_embedding",),
    "doc_stride": ("question_answering", "tagging"),
    "max_query_length": ("question_answering",),
    "n_best_size": ("question_answering",),
    "max_answer_length": ("question_answering",),
    "version_2_with_negative": ("question_answering",),
    "null_score_diff_threshold": ("question_answering",),
}


def define(values: flags.FlagValues, kinds: Iterable[str]) -> None:
    """Adds the flags that say which answers to export.

    Args:
      values: the script's flags.
      kinds: what there is beside auto.
    """
    flags.DEFINE_enum(
        "kind",
        "auto",
        ["auto", *kinds],
        "What `serving_default` answers; auto: what the model was trained for.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "top_k",
        5,
        "fill_mask: candidates for each [MASK].",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_enum(
        "pooling",
        "mean",
        embedding_signatures.POOLINGS,
        "sentence_embedding: the vector at [CLS], or the mean over all tokens "
        "without padding.",
        flag_values=values,
    )
    flags.DEFINE_list(
        "layers",
        ["-1"],
        "sentence_embedding: layers whose vectors are joined, such as -1,-2; "
        "-1 is the last.",
        flag_values=values,
    )
    _define_windows(values)


def check_kind(values: flags.FlagValues, kind: str) -> None:
    """Raises ValueError if a flag is given that says nothing of this kind."""
    for name, kinds in _KINDS.items():
        if values[name].present and kind not in kinds:
            raise ValueError(
                f"--{name}={values[name].value} is for --kind="
                f"{' or '.join(kinds)}, and this export is of kind {kind!r}. "
                "Leave it away."
            )


def _define_windows(values: flags.FlagValues) -> None:
    """Adds the flags that say how long texts are read, and answered."""
    as_trained = "; default: as model.json says, or else {}."
    flags.DEFINE_integer(
        "doc_stride",
        None,
        "question_answering: tokens from one window of a passage to the next"
        + as_trained.format(128)
        + " tagging: the same of a text, by default half of a window.",
        lower_bound=1,
        flag_values=values,
    )
    for name, default, text in (
        ("max_query_length", 64, "tokens at which questions are cut"),
        ("n_best_size", 20, "answers to each question"),
        ("max_answer_length", 30, "tokens of an answer"),
    ):
        flags.DEFINE_integer(
            name,
            None,
            f"question_answering: most {text}" + as_trained.format(default),
            lower_bound=1,
            flag_values=values,
        )
    flags.DEFINE_bool(
        "version_2_with_negative",
        None,
        "question_answering: whether a question may have no answer"
        + as_trained.format("no"),
        flag_values=values,
    )
    flags.DEFINE_float(
        "null_score_diff_threshold",
        None,
        "question_answering: no answer is given if it scores more than this "
        "above the best one" + as_trained.format("0"),
        flag_values=values,
    )

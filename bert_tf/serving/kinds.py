"""Settings of an export and a model's task -> the kind of SavedModel."""

import dataclasses
from collections.abc import Mapping

from bert_tf.checkpoint.options import CheckpointOptions
from bert_tf.model.sentence_embedding import POOLING_MODES
from tfrecords.options import MAX_SEQ_LENGTH, REQUIRED, option

# Task of the model -> kinds of export; the first is the default.
KINDS = {
    "pretraining": ("fill_mask", "encoder", "sentence_embedding"),
    "classification": ("classification", "encoder", "sentence_embedding"),
    "regression": ("regression", "encoder", "sentence_embedding"),
    "spans": ("question_answering", "encoder", "sentence_embedding"),
    "tagging": ("tagging", "encoder", "sentence_embedding"),
    "multiple_choice": ("multiple_choice", "encoder", "sentence_embedding"),
}
# Kind -> prefix of the names of the weights that compute its outputs.
WEIGHTS = {
    "classification": "classification/",
    "regression": "regression/",
    "question_answering": "spans/",
    "tagging": "tagging/",
    "multiple_choice": "multiple_choice/",
    "fill_mask": "masked_lm/",
    "encoder": "encoder/layer",
    "sentence_embedding": "encoder/layer",
}
TOP_K = 5  # Candidates for each [MASK], by default.
# The tokenizer alone, without a model.
PREPROCESSOR = "preprocessor"
# Kinds that read long texts in windows; others cut them.
IN_WINDOWS = ("question_answering", "tagging")
# Field of ExportConfig -> the only kinds that it applies to.
APPLIES_TO = {
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportConfig(CheckpointOptions):
    """Which model to export, where to, and its inference settings.

    For fields that are None, the help text gives the default.
    """

    model_dir: str = option(
        REQUIRED,
        "Folder of a run or of one of its checkpoints, or a checkpoint of any "
        "format that convert_checkpoint reads.",
        reads=True,
    )
    export_dir: str = option(
        REQUIRED, "Folder to write the export to.", writes="folder"
    )
    overwrite: bool = option(
        False, "Replace an existing export in --export_dir."
    )
    kind: str = option(
        "auto",
        "What `serving_default` computes; auto: the task that the model was "
        "trained for, or sentence_embedding of a folder of "
        "sentence-transformers; preprocessor: only the inputs of "
        "--kind=encoder, from text.",
        choices=("auto", *WEIGHTS, PREPROCESSOR),
    )
    max_seq_length: int | None = option(
        None,
        "Maximum tokens of a text; longer texts are truncated. Default: as in "
        "training.",
        at_least=5,
        at_most=MAX_SEQ_LENGTH,
    )
    precision: str | None = option(
        None,
        "Dtype of the matrix products and their weights; embeddings, LayerNorm "
        "and outputs are float32. Default: as in training, so that predictions "
        "equal those of the run.",
        choices=("float32", "bfloat16", "float16"),
    )
    weights_dtype: str | None = option(
        None,
        "bfloat16: all weights are stored in it, embeddings included and "
        "LayerNorm not, which is half the size of float32; with another "
        "--precision each request casts them. Default: as --precision, with "
        "embeddings in float32.",
        choices=("bfloat16",),
    )
    license: str | None = option(
        None,
        "Licence of the weights, for the model card: an identifier of Hugging "
        "Face's list, such as apache-2.0. Default: unknown.",
    )
    top_k: int | None = option(
        None,
        f"fill_mask: number of candidates for each [MASK]. Default: {TOP_K}.",
        at_least=1,
    )
    pooling: str | None = option(
        None,
        "sentence_embedding: cls, the vector at [CLS]; mean, max, "
        "mean_sqrt_len_tokens (the sum over the root of the length), "
        "weightedmean (by position) over all tokens except padding; or "
        "lasttoken. Default: that of a folder of sentence-transformers, whose "
        "further modules follow in any case; otherwise mean.",
        choices=POOLING_MODES,
    )
    layers: tuple[str, ...] | None = option(
        None,
        "sentence_embedding: layers whose vectors are concatenated, such as "
        "-1,-2. Default: -1, the last.",
    )
    doc_stride: int | None = option(
        None,
        "question_answering: tokens from the start of one window of a passage "
        "to the start of the next; default: from model.json, otherwise 128. "
        "tagging: the same for a text; default: from model.json, otherwise "
        "half a window.",
        at_least=1,
    )
    max_query_length: int | None = option(
        None,
        "question_answering: maximum tokens of a question; longer questions "
        "are truncated. Default: from model.json, otherwise 64.",
        at_least=1,
    )
    n_best_size: int | None = option(
        None,
        "question_answering: maximum number of answers to a question. "
        "Default: from model.json, otherwise 20.",
        at_least=1,
    )
    max_answer_length: int | None = option(
        None,
        "question_answering: maximum tokens of an answer. Default: from "
        "model.json, otherwise 30.",
        at_least=1,
    )
    version_2_with_negative: bool | None = option(
        None,
        "question_answering: whether a question may have no answer. Default: "
        "from model.json, otherwise false.",
    )
    null_score_diff_threshold: float | None = option(
        None,
        "question_answering: return no answer if the null score exceeds the "
        "score of the best answer by more than this. Default: from "
        "model.json, otherwise 0.",
    )


def find_kind(config: ExportConfig, metadata: Mapping, model) -> str:
    """Returns the kind of export: `config.kind`, or the default for "auto".

    A left-to-right model cannot fill masks, and its [CLS] attends only to
    itself.

    Args:
      config: settings of the export.
      metadata: content of the model's model.json.
      model: reads its `config`, and `sentence_embedding`: of a model that has
        one, as those of sentence-transformers do, it is the default.

    Raises:
      ValueError: if the model has no such head, or only a newly initialized
        one; or if a setting of `config` does not apply to the kind.
    """
    from bert_tf.checkpoint import contents

    task, model_config = metadata["task"], model.config
    untrained = contents.read_untrained(metadata, model_config)
    kinds = [
        kind
        for kind in KINDS[task]
        if _is_trained(kind, task, untrained, model_config)
        and not (model_config.is_causal and kind == "fill_mask")
    ]
    if model_config.is_causal and config.pooling == "cls":
        raise ValueError(
            "--pooling=cls does not fit a left-to-right model, whose [CLS] "
            "does not attend to the text. Use --pooling=mean."
        )
    if model_config.is_causal and config.kind == "fill_mask":
        raise ValueError(
            "--kind=fill_mask does not fit a left-to-right model, which "
            "predicts the next token; it can be exported as "
            f"{' or '.join(kinds)}."
        )
    if config.kind not in ("auto", *kinds):
        without = " without trained " * bool(untrained) + ", ".join(untrained)
        raise ValueError(
            f"--kind={config.kind} does not fit a model with task {task!r}"
            f"{without}; it can be exported as {' or '.join(kinds)}."
        )
    kind = config.kind
    if kind == "auto":
        kind = "sentence_embedding" if model.sentence_embedding else kinds[0]
    check_settings(config, kind)
    return kind


def check_settings(config: ExportConfig, kind: str) -> None:
    """Raises ValueError if a setting does not apply to a kind of export."""
    for name, applies_to in APPLIES_TO.items():
        value = getattr(config, name)
        if value is not None and kind not in applies_to:
            raise ValueError(
                f"--{name}={value} is for --kind={' or '.join(applies_to)}, "
                f"but the kind of this export is {kind!r}. Omit the flag."
            )
    for name in ("precision", "weights_dtype"):
        value = getattr(config, name)
        if value is not None and kind == PREPROCESSOR:
            raise ValueError(
                f"--{name}={value}: a preprocessor has no weights. Omit the "
                "flag."
            )


def _is_trained(kind, task, untrained, model_config) -> bool:
    """Returns whether no untrained weight affects the answers."""
    from bert_tf.checkpoint import contents

    prefixes = [WEIGHTS[kind]]
    if kind == KINDS[task][0] and contents.reads_pooler(task, model_config):
        prefixes.append(contents.POOLER)
    return not any(name.startswith(tuple(prefixes)) for name in untrained)

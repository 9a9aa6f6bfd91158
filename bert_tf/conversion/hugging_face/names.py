"""Names of transformers' BERT <-> names of ours: the rename table of a task.

As in modeling_bert.py. Older folders call a LayerNorm's weights gamma and beta,
and an encoder that was saved alone has no `bert.` before its names.
"""

from collections.abc import Collection

from bert_tf import config as bert_config
from bert_tf.conversion import renaming

# Theirs that are the same as another, in names of ours.
TIED = {
    "cls.predictions.decoder.weight": "encoder/embeddings/word_embeddings",
    "cls.predictions.decoder.bias": "masked_lm/bias",
}


def _dense(ours: str, theirs: str) -> list[renaming.Rename]:
    return [
        renaming.Rename(f"{ours}/kernel", f"{theirs}.weight", True),
        renaming.Rename(f"{ours}/bias", f"{theirs}.bias"),
    ]


def _norm(ours: str, theirs: str) -> list[renaming.Rename]:
    return [
        renaming.Rename(f"{ours}/gamma", f"{theirs}.LayerNorm.weight"),
        renaming.Rename(f"{ours}/beta", f"{theirs}.LayerNorm.bias"),
    ]


def _encoder_table(config: bert_config.BertConfig) -> list[renaming.Rename]:
    rows = [
        renaming.Rename(
            f"encoder/embeddings/{ours}", f"bert.embeddings.{theirs}.weight"
        )
        for ours, theirs in (
            ("word_embeddings", "word_embeddings"),
            ("position_embeddings", "position_embeddings"),
            ("type_embeddings", "token_type_embeddings"),
        )
    ]
    rows += _norm("encoder/embeddings/norm", "bert.embeddings")
    for i in range(config.num_hidden_layers):
        ours, theirs = f"encoder/layer_{i}", f"bert.encoder.layer.{i}"
        for part in ("query", "key", "value"):
            rows += _dense(
                f"{ours}/attention/{part}", f"{theirs}.attention.self.{part}"
            )
        rows += _dense(
            f"{ours}/attention/output_dense", f"{theirs}.attention.output.dense"
        )
        rows += _norm(f"{ours}/attention_norm", f"{theirs}.attention.output")
        rows += _dense(f"{ours}/intermediate", f"{theirs}.intermediate.dense")
        rows += _dense(f"{ours}/output_dense", f"{theirs}.output.dense")
        rows += _norm(f"{ours}/output_norm", f"{theirs}.output")
    return rows + _dense("encoder/pooler", "bert.pooler.dense")


def table(
    config: bert_config.BertConfig, task: str, num_labels: int = 0
) -> list[renaming.Rename]:
    """Returns the rename table of a task, by the names of today.

    Args:
      config: reads `num_hidden_layers`.
      task: a key of `models.TASK_MODELS`.
      num_labels: unused; the names are the same for any number of classes.
    """
    rows = _encoder_table(config)
    if task == "pretraining":
        rows += _dense("masked_lm/transform", "cls.predictions.transform.dense")
        rows += _norm("masked_lm/norm", "cls.predictions.transform")
        rows += [renaming.Rename("masked_lm/bias", "cls.predictions.bias")]
        return rows + _dense("next_sentence/dense", "cls.seq_relationship")
    head = "qa_outputs" if task == "spans" else "classifier"
    return rows + _dense(f"{task}/dense", head)


def as_named(row: renaming.Rename, names: Collection[str]) -> renaming.Rename:
    """Returns a row by the name that the same tensor has in a folder."""
    head, dot, last = row.theirs.rpartition(".")
    old = {"gamma": ".gamma", "beta": ".beta"}.get(row.ours.rpartition("/")[2])
    now = [row.theirs, head + old if old else row.theirs]
    now += [name.removeprefix("bert.") for name in now]
    now += [theirs for theirs, ours in TIED.items() if ours == row.ours]
    theirs = next((name for name in now if name in names), row.theirs)
    return row._replace(theirs=theirs)

"""transformers' BertForSequenceClassification: losses, gradients, F1 of labels.

Plain losses are those that the model computes from its `problem_type`; with
weights and smoothing, those of torch, which users of transformers call.
"""

import numpy as np
import pytest
import sklearn.metrics

from bert_tf.checkpoint.formats.hugging_face import pretrained
from bert_tf.tasks import glue
from bert_tf.tasks.texts.options import LabelledData
from tfrecords.tasks import glue_tables

PEER = "Hugging Face"
LABELS = ("calm", "glad", "rare")
WEIGHTS = ("calm:1", "glad:0.5", "rare:4")
IDS = np.array([0, 2, 1, 0], np.int32)
SEVERAL = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1], [1, 0, 0]], np.float32)
# Name -> our options, and theirs of torch's loss; empty for the model's own.
CASES = {
    "classes": ({}, {}),
    "weights of classes": ({"class_weights": WEIGHTS}, {"weight": None}),
    "smoothed classes": ({"label_smoothing": 0.1}, {"label_smoothing": 0.1}),
    "several labels": ({"threshold": "0.5"}, {}),
    "weights of several labels": (
        {"class_weights": WEIGHTS, "threshold": "0.5"},
        {"pos_weight": None},
    ),
}


def as_checkpoint(model, folder):
    model.save_pretrained(str(folder))
    return pretrained.read(str(folder))


def their_side(model, batch, labels, settings, folder):
    import torch

    names = ("input_word_ids", "input_mask", "input_type_ids")
    inputs = [torch.tensor(batch[name], dtype=torch.long) for name in names]
    labels = torch.tensor(labels)
    labels = labels.long() if labels.ndim == 1 else labels
    found = model(*inputs[:2], token_type_ids=inputs[2], labels=labels)
    loss = found.loss
    if settings:
        weights = torch.tensor([float(x.partition(":")[2]) for x in WEIGHTS])
        settings = {n: weights if x is None else x for n, x in settings.items()}
        name = "CrossEntropyLoss" if labels.ndim == 1 else "BCEWithLogitsLoss"
        loss = getattr(torch.nn, name)(**settings)(found.logits, labels)
    loss.backward()
    values = {"logits": found.logits, "label_loss": loss}
    values = {n: x.detach().float().numpy() for n, x in values.items()}
    # Saved as weights, gradients are renamed like weights.
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.grad)
    return values | {"gradients": as_checkpoint(model, folder).tensors}


@pytest.mark.parametrize("precision", ["float32"])
@pytest.mark.parametrize("case", CASES)
def test_losses_gradients_and_f1_are_equal(
    need, config, batch, precision, tmp_path, our_side, table, case
):
    need("torch")
    need("transformers")
    import torch
    import transformers

    options, settings = CASES[case]
    is_several = "several" in case
    torch.manual_seed(1)
    model = transformers.BertForSequenceClassification(
        transformers.BertConfig(
            **config.to_dict() | {"hidden_act": "gelu_new"},
            id2label=dict(enumerate(LABELS)),
            problem_type="multi_label_classification"
            if is_several
            else "single_label_classification",
        )
    ).eval()
    found = as_checkpoint(model, tmp_path / "weights")
    table_of_labels = glue_tables.own_task(
        "labels",
        files={},
        text_columns=("text",),
        labels=LABELS,
        multi_label=is_several,
    )
    task = glue.task_of(table_of_labels, LabelledData(**options))
    assert found.task == task.task and found.labels == LABELS
    labels = SEVERAL if is_several else IDS
    task.read_train(labels)

    def losses(outputs, inputs):
        target = {task.feature: labels}
        (mean,) = task.losses(outputs, inputs | target).values()
        return {"label_loss": mean.value()}

    ours = our_side(found, build=task.build_model, losses=losses)
    theirs = their_side(model, batch, labels, settings, tmp_path / "gradients")
    table.check(f"{PEER}, {case}", ours, theirs)
    if is_several:
        task.labels = {"dev": labels}
        theirs = 1 / (1 + np.exp(-theirs["logits"])) >= 0.5
        f1 = sklearn.metrics.f1_score(labels, theirs, average="micro")
        assert task.score("dev", ours)["micro_f1"] == f1

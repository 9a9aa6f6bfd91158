"""Setting -> a step of transformers' BERT on torch.

BertForPreTraining computes logits for every token; here its masked-LM head is
applied only to masked tokens, as in other peers. GELU is torch's tanh form, a
single kernel, instead of the several operations of "gelu_new". For bfloat16,
training uses autocast with float32 weights, inference bfloat16 weights.
"""

from benchmarks import work


def make(
    setting: work.Setting,
    attention: str = "sdpa",
    is_fused: bool = True,
    is_compiled: bool = False,
) -> work.Step:
    """Returns the step of transformers.

    Args:
      setting: task, sizes and precision.
      attention: "sdpa" or "eager".
      is_fused: whether AdamW is torch's "fused" or its "foreach" version.
      is_compiled: whether torch.compile compiles the model.
    """
    import torch

    model, logits = build(setting, attention)
    num_parameters = sum(weight.numel() for weight in model.parameters())
    if is_compiled:
        # Compiled once for each length of the batches.
        logits = torch.compile(logits, dynamic=False)
    if setting.is_training:
        run = _train_step(model.train(), logits, setting, is_fused)
    else:
        run = _forward(model.eval(), logits, setting)
    return work.Step(prepare, run, num_parameters)


def build(setting: work.Setting, attention: str = "sdpa"):
    """Returns the model, and a function of model and batch to logits."""
    import torch
    import transformers

    torch.manual_seed(1)
    config = transformers.BertConfig(
        **setting.config | {"hidden_act": "gelu_pytorch_tanh"},
        num_labels=work.NUM_CLASSES,
        attn_implementation=attention,
    )
    if setting.task == "pretraining":
        return transformers.BertForPreTraining(config), _pretraining_logits
    return transformers.BertForSequenceClassification(config), _class_logits


def prepare(batch):
    """Returns the arrays of a batch as tensors, on torch's default device."""
    import torch

    return {
        name: torch.tensor(
            x, dtype=torch.long if x.dtype.kind == "i" else torch.float32
        )
        for name, x in batch.items()
    }


def _inputs(batch):
    return {
        "input_ids": batch["input_word_ids"],
        "attention_mask": batch["input_mask"],
        "token_type_ids": batch["input_type_ids"],
    }


def _pretraining_logits(model, batch):
    """Returns logits [B, P, V] of masked tokens, and [B, 2]."""
    hidden, pooled = model.bert(**_inputs(batch), return_dict=False)[:2]
    positions = batch["masked_lm_positions"][:, :, None]
    masked = hidden.gather(1, positions.expand(-1, -1, hidden.shape[-1]))
    return model.cls(masked, pooled)


def _class_logits(model, batch):
    """Returns logits [B, C]."""
    return (model(**_inputs(batch)).logits,)


def loss_of(logits, batch):
    """Returns the loss, a scalar, of the logits of the function of `build`."""
    import torch

    cross_entropy = torch.nn.functional.cross_entropy
    if len(logits) == 1:
        return cross_entropy(logits[0].float(), batch["label_ids"])
    masked, sentence = logits
    each = cross_entropy(
        masked.flatten(0, 1).float(),
        batch["masked_lm_ids"].flatten(),
        reduction="none",
    )
    weights = batch["masked_lm_weights"].flatten()
    return (each * weights).sum() / weights.sum() + cross_entropy(
        sentence.float(), batch["next_sentence_labels"]
    )


def _train_step(model, logits, setting, is_fused):
    import torch

    # Weights that are vectors, of LayerNorm and biases, do not decay.
    groups = [
        {
            "params": [w for w in model.parameters() if (w.dim() > 1) == big],
            "weight_decay": 0.01 if big else 0.0,
        }
        for big in (True, False)
    ]
    optimizer = torch.optim.AdamW(
        groups,
        lr=setting.learning_rate,
        eps=1e-6,
        **({"fused": True} if is_fused else {"foreach": True}),
    )
    is_bfloat16 = setting.precision == "bfloat16"

    def run(batch):
        with torch.autocast("cpu", torch.bfloat16, enabled=is_bfloat16):
            found = logits(model, batch)
        loss = loss_of(found, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(loss.detach())

    return run


def _forward(model, logits, setting):
    import torch

    model = model.to(getattr(torch, setting.precision))

    def run(batch):
        with torch.inference_mode():
            return float(logits(model, batch)[0].flatten()[0])

    return run

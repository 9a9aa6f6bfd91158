"""transformers' BertForPreTraining with the erf and the tanh GELU."""

import numpy as np
import pytest

from bert_tf.checkpoint.formats.hugging_face import pretrained

PEER = "Hugging Face"


@pytest.fixture(params=["gelu", "gelu_new"])
def peer(need, config, request):
    """BertForPreTraining with random weights."""
    need("torch")
    need("transformers")
    import torch
    import transformers

    torch.manual_seed(1)
    values = config.to_dict() | {"hidden_act": request.param}
    model = transformers.BertForPreTraining(transformers.BertConfig(**values))
    # Only this implementation returns attention.
    model.set_attn_implementation("eager")
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return model.eval()


def as_checkpoint(model, folder):
    model.save_pretrained(str(folder))
    return pretrained.read(str(folder))


def their_side(model, batch, precision, folder):
    import torch

    def long(name):
        return torch.tensor(batch[name], dtype=torch.long)

    positions, used = (
        long("masked_lm_positions"),
        batch["masked_lm_weights"] > 0,
    )
    rows = torch.arange(len(positions))[:, None]
    labels = torch.full(batch["input_word_ids"].shape, -100)
    where = torch.tensor(used)
    labels[rows.expand_as(positions)[where], positions[where]] = long(
        "masked_lm_ids"
    )[where]
    with torch.autocast(
        "cpu", dtype=torch.bfloat16, enabled=precision == "bfloat16"
    ):
        found = model(
            input_ids=long("input_word_ids"),
            attention_mask=long("input_mask"),
            token_type_ids=long("input_type_ids"),
            labels=labels,
            next_sentence_label=long("next_sentence_labels"),
            output_hidden_states=True,
            output_attentions=True,
        )
        hidden = found.hidden_states[-1]
        pooled = model.bert.pooler(hidden)
    found.loss.backward()
    values = {
        "sequence_output": hidden,
        "pooled_output": pooled,
        "hidden_states": torch.stack(found.hidden_states),
        "attention": torch.stack(found.attentions),
        "masked_lm_logits": found.prediction_logits[rows, positions],
        "next_sentence_logits": found.seq_relationship_logits,
        "total_loss": found.loss,
    }
    values = {n: x.detach().float().numpy() for n, x in values.items()}
    # Saved as weights, gradients are renamed like weights.
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.grad)
    return values | {"gradients": as_checkpoint(model, folder).tensors}


def test_outputs_losses_and_gradients(
    peer, batch, precision, tmp_path, our_side, table
):
    found = as_checkpoint(peer, tmp_path / "weights")
    act = {"gelu": "gelu_erf", "gelu_new": "gelu"}[peer.config.hidden_act]
    assert found.config.hidden_act == act
    assert not found.missing() and not found.unused
    ours = our_side(found)
    ours["total_loss"] = np.asarray(
        ours["masked_lm_loss"] + ours["next_sentence_loss"]
    )
    theirs = their_side(peer, batch, precision, tmp_path / "gradients")
    table.check(f"{PEER}, {peer.config.hidden_act}", ours, theirs)

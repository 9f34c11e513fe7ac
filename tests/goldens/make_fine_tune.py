#!/usr/bin/env python3
"""Writes tests/goldens/fine_tune.txt with torch 2.13.0+cpu: chapters 6 and 7 and appendices D and E of the course with
a small GPT, in f32 and f64.

The model of make_gpt.py is created after torch.manual_seed(123). Ids and classes are functions of the index.

head: all parameters are frozen, the head is replaced by Linear(width, 3), which is drawn from the same generator, and the
last block and the last norm are trained: 5 steps of AdamW on the logits of the last token.
lora: all parameters are frozen, and LoRA is added to all layers, drawn after torch.manual_seed(7): A as a Linear's weight
and B zeros, as in peft. 6 steps of AdamW on all tokens, with linear warm-up, then half a cosine, and clipping to norm 0.25
after the warm-up, as in appendix D with other figures. Then it is merged.

One line per tensor: name value.. The name is dtype.case.tensor.
"""
import math
import pathlib

import torch
from torch.nn import functional as F

import make_gpt

torch.set_num_threads(1)
assert torch.__version__.startswith("2.13.0")
WIDTH, HEADS, CLASSES, RANK, ALPHA = 16, 2, 3, 4, 6.0
IDS = ((torch.arange(36) ** 2 * 7 + 3) % make_gpt.V).view(4, 9)
TARGETS = ((torch.arange(36) ** 3 * 5 + 1) % make_gpt.V).view(4, 9)
LABELS = torch.tensor([2, 0, 1, 1])


class Lora(torch.nn.Module):
    """LoRA on a Linear: its lora_A and lora_B are Linears without bias, as in peft."""

    def __init__(self, linear):
        super().__init__()
        self.linear = linear
        self.lora_A = torch.nn.Linear(linear.in_features, RANK, bias=False)
        self.lora_B = torch.nn.Parameter(torch.zeros(linear.out_features, RANK))

    def forward(self, x):
        return self.linear(x) + ALPHA / RANK * (x @ self.lora_A.weight.T @ self.lora_B.T)

    def merged(self):
        return self.linear.weight + ALPHA / RANK * (self.lora_B @ self.lora_A.weight)


def add_lora(module):
    for name, child in module.named_children():
        if isinstance(child, torch.nn.Linear):
            setattr(module, name, Lora(child))
        else:
            add_lora(child)


def forward(model, ids):
    """Model.forward with a head that is a module."""
    x = model.tok_emb(ids) + model.pos_emb(torch.arange(ids.shape[1]))
    hidden = model.final_norm(model.trf_blocks(x))
    return hidden, model.out_head(hidden)


def new_model():
    torch.manual_seed(123)
    model = make_gpt.Model(WIDTH, HEADS, True, 0.0, False)
    for parameter in model.parameters():
        parameter.requires_grad = False
    return model


def head():
    model, out = new_model(), {}
    out["hidden"] = forward(model, IDS)[0]
    model.out_head = torch.nn.Linear(WIDTH, CLASSES)
    out["weight"], out["bias"] = model.out_head.weight.clone(), model.out_head.bias.clone()
    for part in (model.trf_blocks[-1], model.final_norm):
        for parameter in part.parameters():
            parameter.requires_grad = True
    out["values"] = torch.tensor([sum(p.numel() for p in model.parameters() if p.requires_grad)])
    out["logits"] = forward(model, IDS)[1][:, -1, :]
    optim = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.1)
    losses = []
    for _ in range(5):
        optim.zero_grad()
        loss = F.cross_entropy(forward(model, IDS)[1][:, -1, :], LABELS)
        loss.backward()
        optim.step()
        losses.append(loss.item())
    out["losses"] = torch.tensor(losses)
    out["trained_logits"] = forward(model, IDS)[1][:, -1, :]
    out["trained_weight"] = model.out_head.weight
    out["trained_query"] = model.trf_blocks[1].att.W_query.weight
    out["frozen_query"] = model.trf_blocks[0].att.W_query.weight
    return out


def learning_rate(step, steps, warmup, initial, peak, minimum):
    """Appendix D, with global_step `step`."""
    if step < warmup:
        return initial + step * (peak - initial) / warmup
    progress = (step - warmup) / (steps - warmup)
    return minimum + (peak - minimum) * 0.5 * (1 + math.cos(math.pi * progress))


def lora():
    model, out = new_model(), {}
    out["base_logits"] = forward(model, IDS)[1]
    torch.manual_seed(7)
    add_lora(model)
    layers = [m for m in model.modules() if isinstance(m, Lora)]
    out["values"] = torch.tensor([sum(p.numel() for p in model.parameters() if p.requires_grad)])
    out["first_a"], out["head_a"] = layers[0].lora_A.weight.clone(), model.out_head.lora_A.weight.clone()
    optim = torch.optim.AdamW(model.parameters(), weight_decay=0.1)
    rates, losses, norms = [], [], []
    for step in range(6):
        for group in optim.param_groups:
            group["lr"] = learning_rate(step, 6, 2, 1e-4, 1e-2, 1e-5)
        rates.append(optim.param_groups[0]["lr"])
        optim.zero_grad()
        loss = F.cross_entropy(forward(model, IDS)[1].flatten(0, 1), TARGETS.flatten())
        loss.backward()
        if step > 2:
            norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.25).item())
        optim.step()
        losses.append(loss.item())
    out["rates"], out["losses"], out["norms"] = (torch.tensor(x, dtype=torch.float64) for x in (rates, losses, norms))
    out["logits"] = forward(model, IDS)[1]
    out["trained_a"], out["trained_b"] = layers[4].lora_A.weight, layers[4].lora_B
    out["merged"] = layers[4].merged()
    out["merged_head"] = model.out_head.merged()
    return out


def main():
    with open(pathlib.Path(__file__).with_name("fine_tune.txt"), "w") as file:
        for dtype, name in ((torch.float32, "f32"), (torch.float64, "f64")):
            torch.set_default_dtype(dtype)
            for case in (head, lora):
                for tensor, value in case().items():
                    print(f"{name}.{case.__name__}.{tensor}", *("%.17g" % v for v in value.flatten().tolist()), file=file)


if __name__ == "__main__":
    main()

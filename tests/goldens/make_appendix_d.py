#!/usr/bin/env python3
"""Writes tests/goldens/appendix_d.json with torch 2.13.0+cpu: what the cells of appendix D print on a CPU that the
course's notebook printed on another device, for tests/examples/figures.py.

    make_appendix_d.py BOOK [FILE]

BOOK is the folder of the course's data. The cells are run in the notebook's order, for each draws from the generator:
two cells walk 15 times through the training batches, and the next ones use their last batch. Cell 26 and 28: the
largest gradient of a model of seed 123, before and after its norm is clipped to 1. Cell 32: the training, of which the
file has the losses alone. It takes some minutes. With one thread and AVX2 instead of two and AVX-512 the same script
prints 3.191 at step 40 instead of 3.194, so figures.py compares these losses to 0.005.
"""
import json
import math
import pathlib
import sys

import tiktoken
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

import make_gpt

assert torch.__version__.startswith("2.13.0")
make_gpt.V, make_gpt.CONTEXT, make_gpt.LAYERS = 50257, 256, 12
PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
PASSES, INITIAL, PEAK, LEAST, DROPOUT = 15, 1e-5, 1e-3, 1e-5, 0.1


def tokenizer(merges):
    """GPT-2's, from its merges. The ids of single bytes follow the order of their printable characters."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    order = printable + [b for b in range(256) if b not in printable]
    byte_of = {chr(b if b in printable else 256 + i - len(printable)): b for i, b in enumerate(order)}
    tokens = [bytes([b]) for b in order]
    tokens += [bytes(byte_of[c] for c in line.replace(" ", "")) for line in merges.splitlines()[1:] if line]
    return tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks={t: i for i, t in enumerate(tokens)},
                             special_tokens={"<|endoftext|>": 50256})


def loader(bpe, text, training):
    ids = bpe.encode(text)
    starts = range(0, len(ids) - make_gpt.CONTEXT, make_gpt.CONTEXT)
    windows = [torch.tensor(ids[i:i + make_gpt.CONTEXT + 1]) for i in starts]
    return DataLoader([(w[:-1], w[1:]) for w in windows], batch_size=2, shuffle=training, drop_last=training)


def new_model():
    torch.manual_seed(123)
    return make_gpt.Model(768, 12, False, DROPOUT, False)


def loss_of(model, batch):
    return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())


def set_dropout(model, rate):
    for module in model.modules():
        if hasattr(module, "dropout"):
            module.dropout = rate


def evaluated(model, batches):
    """The loss of the first batch, without dropout."""
    set_dropout(model, 0.0)
    with torch.no_grad():
        loss = loss_of(model, next(iter(batches))).item()
    set_dropout(model, DROPOUT)
    return loss


def largest_gradient(model):
    return "%.4f" % max(p.grad.max().item() for p in model.parameters())


def rate_of(step, steps, warmup):
    if step < warmup:
        return INITIAL + step * (PEAK - INITIAL) / warmup
    return LEAST + (PEAK - LEAST) * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


def training(batches, validation):
    model = new_model()
    optim = torch.optim.AdamW(model.parameters(), lr=PEAK, weight_decay=0.1)
    steps = len(batches) * PASSES
    warmup, step, lines = int(0.2 * steps), 0, []
    for epoch in range(PASSES):
        for batch in batches:
            optim.param_groups[0]["lr"] = rate_of(step, steps, warmup)
            optim.zero_grad()
            loss_of(model, batch).backward()
            if step >= warmup:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optim.step()
            if step % 5 == 0:
                lines.append("Ep %d (Iter %06d): Train loss %.3f, Val loss %.3f" % (
                    epoch + 1, step, evaluated(model, batches), evaluated(model, validation)))
                print(lines[-1], flush=True)
            step += 1
    return "\n".join(lines)


def main():
    book = pathlib.Path(sys.argv[1])
    text = (book / "the-verdict.txt").read_text(encoding="utf-8")
    bpe = tokenizer((book / "vocab.bpe").read_text(encoding="utf-8"))
    split = int(0.9 * len(text))
    torch.manual_seed(123)
    batches, validation = loader(bpe, text[:split], True), loader(bpe, text[split:], False)
    for _ in range(2 * PASSES):
        for batch in batches:
            pass
    model = new_model()
    loss_of(model, batch).backward()
    figures = {"26": largest_gradient(model)}
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    figures["28"] = largest_gradient(model)
    print(figures, flush=True)
    del model
    figures["32"] = training(batches, validation)
    file = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).with_name("appendix_d.json"))
    file.write_text(json.dumps({"made with": "torch 2.13.0+cpu", "cells": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()

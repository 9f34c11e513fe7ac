#!/usr/bin/env python3
"""Writes tests/goldens/multihead_attention.txt with torch 2.13.0+cpu: torch.nn.MultiheadAttention, batch_first, as
self-attention and with keys and values of a longer sequence, in f64.

The module is created after torch.manual_seed(123); the library's _make must give the same state_dict. The inputs are
functions of the index. The loss is the sum of the outputs, each times a function of its index, so that no gradient is
symmetric.

One line per tensor: name value.. The name is case.tensor.
"""
import math
import pathlib

import torch

torch.set_num_threads(1)
assert torch.__version__.startswith("2.13.0")
BATCH, STEPS, WIDTH, HEADS, MEMORY = 2, 5, 6, 3, 4


def wave(shape, phase):
    count = math.prod(shape)
    return torch.tensor([math.sin(0.7 * i + phase) for i in range(count)], dtype=torch.float64).reshape(shape)


def run(bias, causal, memory):
    torch.manual_seed(123)
    module = torch.nn.MultiheadAttention(WIDTH, HEADS, bias=bias, batch_first=True, dtype=torch.float64)
    tensors = dict(module.state_dict())
    tensors = {name: value.clone() for name, value in tensors.items()}
    tensors["next_draw"] = torch.rand(1, dtype=torch.float64)
    x = wave((BATCH, STEPS, WIDTH), 0).requires_grad_()
    context = torch.cat([wave((BATCH, MEMORY, WIDTH), 2), x], 1) if memory else x
    mask = None
    if causal:
        keys = context.shape[1]
        mask = torch.ones(STEPS, keys, dtype=torch.bool).triu(keys - STEPS + 1)
    y, _ = module(x, context, context, attn_mask=mask, need_weights=False)
    (y * wave(y.shape, 1)).sum().backward()
    tensors["y"] = y.detach()
    tensors["dx"] = x.grad
    for name, parameter in module.named_parameters():
        tensors["d_" + name] = parameter.grad
    return tensors


with open(pathlib.Path(__file__).with_name("multihead_attention.txt"), "w") as file:
    for case, options in {"plain": (True, False, False), "causal": (True, True, False), "no_bias": (False, False, False),
                          "memory": (True, True, True)}.items():
        for name, value in run(*options).items():
            file.write("%s.%s %s\n" % (case, name, " ".join("%.17g" % v for v in value.flatten().tolist())))

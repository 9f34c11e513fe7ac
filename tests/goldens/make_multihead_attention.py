#!/usr/bin/env python3
"""Writes tests/goldens/multihead_attention.txt with torch 2.13.0+cpu: torch.nn.MultiheadAttention, batch_first, as
self-attention, with keys and values of a longer sequence, and with those of other sequences, in f64. Padded: the first
sequence has all keys, and the last LEFT keys of the second one are padding. The weights are those of each head.

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
BATCH, STEPS, WIDTH, HEADS, MEMORY, OTHER, LEFT = 2, 5, 6, 3, 4, 7, 2


def wave(shape, phase):
    count = math.prod(shape)
    return torch.tensor([math.sin(0.7 * i + phase) for i in range(count)], dtype=torch.float64).reshape(shape)


def run(bias, causal, memory, others=0, padded=False):
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
    key = wave((BATCH, OTHER, WIDTH), 3).requires_grad_() if others else context
    value = wave((BATCH, OTHER, WIDTH), 4).requires_grad_() if others == 2 else key
    padding = None
    if padded:
        padding = torch.zeros(BATCH, key.shape[1], dtype=torch.bool)
        padding[1, -LEFT:] = True
    y, _ = module(x, key, value, attn_mask=mask, key_padding_mask=padding, need_weights=False)
    tensors["weights"] = module(x, key, value, attn_mask=mask, key_padding_mask=padding, average_attn_weights=False)[1].detach()
    (y * wave(y.shape, 1)).sum().backward()
    tensors["y"] = y.detach()
    tensors["dx"] = x.grad
    if others:
        tensors["dkey"] = key.grad
    if others == 2:
        tensors["dvalue"] = value.grad
    for name, parameter in module.named_parameters():
        tensors["d_" + name] = parameter.grad
    return tensors


with open(pathlib.Path(__file__).with_name("multihead_attention.txt"), "w") as file:
    for case, options in {"plain": (True, False, False), "causal": (True, True, False), "no_bias": (False, False, False),
                          "memory": (True, True, True), "padded": (True, False, False, 0, True),
                          "padded_causal": (True, True, False, 0, True), "cross": (True, False, False, 1),
                          "cross_padded": (False, False, False, 1, True),
                          "key_and_value": (True, False, False, 2, True)}.items():
        for name, value in run(*options).items():
            file.write("%s.%s %s\n" % (case, name, " ".join("%.17g" % v for v in value.flatten().tolist())))

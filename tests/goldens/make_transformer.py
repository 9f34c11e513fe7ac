#!/usr/bin/env python3
"""Writes tests/goldens/transformer.txt with torch 2.13.0+cpu: torch.nn.TransformerEncoderLayer and
torch.nn.TransformerDecoderLayer, batch_first, post-norm and pre-norm, with padded sequences and with dropout, in f64.

The layer is created after torch.manual_seed(123); the library's _make must give the same state_dict. The weights and
biases of the norms are then set to functions of the index, because ones and zeros would hide a mistake. The inputs are
functions of the index, too, and the generator is seeded with 7 before the forward pass. The loss is the sum of the
outputs, each times a function of its index. Padded: the first sequence has all positions, and the last ones of the
second one are padding, PADDED of x and MEMORY_PADDED of the memory.

One line per tensor: name value.. The name is case.tensor.
"""
import math
import pathlib

import torch

torch.set_num_threads(1)
assert torch.__version__.startswith("2.13.0")
BATCH, STEPS, WIDTH, HEADS, HIDDEN, MEMORY, PADDED, MEMORY_PADDED = 2, 5, 6, 3, 7, 4, 2, 3

# decoder, norm_first, gelu, causal, padded, dropout
CASES = {
    "encoder": (False, False, False, False, False, 0.0),
    "encoder_padded": (False, False, True, False, True, 0.0),
    "encoder_norm_first": (False, True, True, True, True, 0.0),
    "encoder_dropout": (False, False, False, False, True, 0.3),
    "encoder_dropout_norm_first": (False, True, True, True, False, 0.2),
    "decoder": (True, False, False, True, False, 0.0),
    "decoder_padded": (True, False, True, True, True, 0.0),
    "decoder_norm_first": (True, True, False, False, True, 0.0),
    "decoder_dropout": (True, False, False, True, True, 0.3),
    "decoder_dropout_norm_first": (True, True, True, True, False, 0.2),
}


def wave(shape, phase):
    count = math.prod(shape)
    return torch.tensor([math.sin(0.7 * i + phase) for i in range(count)], dtype=torch.float64).reshape(shape)


def padding(length, padded, count):
    mask = torch.zeros(BATCH, length, dtype=torch.bool)
    mask[1, length - count:] = True
    return mask if padded else None


def run(decoder, norm_first, gelu, causal, padded, dropout):
    torch.manual_seed(123)
    kind = torch.nn.TransformerDecoderLayer if decoder else torch.nn.TransformerEncoderLayer
    layer = kind(WIDTH, HEADS, HIDDEN, dropout, "gelu" if gelu else "relu", batch_first=True, norm_first=norm_first,
                 dtype=torch.float64)
    tensors = {name: value.clone() for name, value in layer.state_dict().items()}
    tensors["next_draw"] = torch.rand(1, dtype=torch.float64)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.startswith("norm"):
                parameter.copy_(wave(parameter.shape, float(name[4])) + 2)
    x = wave((BATCH, STEPS, WIDTH), 0).requires_grad_()
    memory = wave((BATCH, MEMORY, WIDTH), 2).requires_grad_()
    mask = torch.ones(STEPS, STEPS, dtype=torch.bool).triu(1) if causal else None
    torch.manual_seed(7)
    if decoder:
        y = layer(x, memory, tgt_mask=mask, tgt_key_padding_mask=padding(STEPS, padded, PADDED),
                  memory_key_padding_mask=padding(MEMORY, padded, MEMORY_PADDED))
    else:
        y = layer(x, src_mask=mask, src_key_padding_mask=padding(STEPS, padded, PADDED))
    tensors["draw_after"] = torch.rand(1, dtype=torch.float64)
    (y * wave(y.shape, 1)).sum().backward()
    tensors["y"] = y.detach()
    tensors["dx"] = x.grad
    if decoder:
        tensors["dmemory"] = memory.grad
    for name, parameter in layer.named_parameters():
        tensors["d_" + name] = parameter.grad
    return tensors


with open(pathlib.Path(__file__).with_name("transformer.txt"), "w") as file:
    for case, options in CASES.items():
        for name, value in run(*options).items():
            file.write("%s.%s %s\n" % (case, name, " ".join("%.17g" % v for v in value.flatten().tolist())))

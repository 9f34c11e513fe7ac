#!/usr/bin/env python3
"""Writes small GPTs of the course, created and run by PyTorch 2.13, for tests/models/test_gpt.c: gpt/*.bin.

    python3 make_gpt.py FOLDER

Each file is a list of tensors: the length of the name and the name; the rank and the sizes (64-bit integers); the
values, little-endian, in the file's dtype. First the parameters as drawn from seed 123, in the order and under the names
of the state dict; then the logits, the loss, and "grad NAME" for each parameter. Dropout draws from seed 7, set before
the forward pass.
"""
import math
import struct
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

V, CONTEXT, LAYERS = 31, 12, 2

# name, dtype, GPT-2's initial values, width, heads, bias of the projections, dropout, tied head
FILES = [
    ("plain", torch.float32, False, 16, 2, False, 0.0, False),
    ("dropout", torch.float32, False, 16, 2, True, 0.1, False),
    ("tied", torch.float32, False, 9, 3, True, 0.0, True),
    ("plain_f64", torch.float64, False, 9, 3, False, 0.0, False),
    ("tied_f64", torch.float64, False, 9, 3, True, 0.1, True),
    ("gpt2_init", torch.float32, True, 9, 3, True, 0.0, True),
    ("gpt2_init_untied", torch.float32, True, 16, 2, False, 0.0, False),
]


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return self.scale * centred / torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-5) + self.shift


class Attention(nn.Module):
    def __init__(self, width, heads, bias, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.W_query, self.W_key, self.W_value = (nn.Linear(width, width, bias=bias) for _ in range(3))
        self.out_proj = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = batch, length, self.heads, width // self.heads
        q, k, v = (w(x).view(parts).transpose(1, 2) for w in (self.W_query, self.W_key, self.W_value))
        future = torch.ones(length, length).triu(1).bool()
        weights = torch.softmax((q @ k.transpose(2, 3)).masked_fill(future, -math.inf) / math.sqrt(parts[3]), -1)
        y = F.dropout(weights, self.dropout) @ v
        return self.out_proj(y.transpose(1, 2).reshape(batch, length, width))


class Gelu(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), Gelu(), nn.Linear(4 * width, width))

    def forward(self, x):
        return self.layers(x)


class Block(nn.Module):
    def __init__(self, width, heads, bias, dropout):
        super().__init__()
        self.att, self.ff = Attention(width, heads, bias, dropout), FeedForward(width)
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.dropout = dropout

    def forward(self, x):
        x = F.dropout(self.att(self.norm1(x)), self.dropout) + x
        return F.dropout(self.ff(self.norm2(x)), self.dropout) + x


class Model(nn.Module):
    def __init__(self, width, heads, bias, dropout, tied):
        super().__init__()
        self.tok_emb, self.pos_emb = nn.Embedding(V, width), nn.Embedding(CONTEXT, width)
        self.trf_blocks = nn.Sequential(*(Block(width, heads, bias, dropout) for _ in range(LAYERS)))
        self.final_norm = Norm(width)
        self.out_head = None if tied else nn.Linear(width, V, bias=False)
        self.dropout = dropout

    def forward(self, ids):
        x = self.tok_emb(ids) + self.pos_emb(torch.arange(ids.shape[1]))
        head = self.tok_emb if self.out_head is None else self.out_head
        return F.linear(self.final_norm(self.trf_blocks(F.dropout(x, self.dropout))), head.weight)


def initialize_as_gpt2(model):
    """Radford et al. 2019, section 2.3: the projections onto the residual path are scaled by 1/sqrt(2 layers)."""
    for name, parameter in model.named_parameters():
        onto_residual = name.endswith(("out_proj.weight", "ff.layers.2.weight"))
        if parameter.dim() > 1:
            nn.init.normal_(parameter, 0.0, 0.02 / math.sqrt(2 * LAYERS) if onto_residual else 0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)


def write(file, name, tensor):
    x = tensor.detach().contiguous()
    file.write(struct.pack("<q", len(name)) + name.encode() + struct.pack("<q", x.dim()))
    file.write(struct.pack("<%dq" % x.dim(), *x.shape) + x.numpy().tobytes())


def main():
    ids = (torch.arange(18) ** 2 * 7 + 3) % V
    targets = (torch.arange(18) ** 3 * 5 + 1) % V
    for name, dtype, gpt2_init, *configuration in FILES:
        torch.set_default_dtype(dtype)
        torch.manual_seed(123)
        model = Model(*configuration)
        if gpt2_init:
            initialize_as_gpt2(model)
        with open(Path(sys.argv[1]) / (name + ".bin"), "wb") as file:
            for key, parameter in model.named_parameters():
                write(file, key, parameter)
            torch.manual_seed(7)
            logits = model(ids.view(2, 9))
            loss = F.cross_entropy(logits.flatten(0, 1), targets)
            loss.backward()
            write(file, "logits", logits)
            write(file, "loss", loss)
            for key, parameter in model.named_parameters():
                write(file, "grad " + key, parameter.grad)


if __name__ == "__main__":
    main()

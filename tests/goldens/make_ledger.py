#!/usr/bin/env python3
"""Writes the ledger (tapegrad/ledger.h) of a small GPT in PyTorch 2.13, for tests/tools/test_ledger.c.

    python3 make_ledger.py > ledger.txt                            attention as one op
    python3 make_ledger.py elementary > ledger_elementary.txt      attention as the chapter's chain of ops

The model is the course's: seed 123 for the parameters, seed 7 before the forward pass, in training mode. Each step that
is one op in tapegrad is one line with that op's name. Draws are counted with the state of torch's generator, which has the
number of used words of 624; dropout takes two per value. Bits differ between libraries, so the checksum is absent.
"""
import math
import struct
import sys

import torch
from torch.nn import functional as F

V, CONTEXT, C, H, DROPOUT = 13, 6, 8, 2, 0.1


class Ledger:
    def __init__(self):
        self.number = self.position = 0
        print("tapegrad ledger 1")

    def note(self, op, y, draws=0):
        self.number += 1
        self.position += draws
        state = torch.get_rng_state().numpy().tobytes()
        used = struct.unpack_from("<Q", state, 16)[0]
        assert used % 624 == self.position % 624, "the draws of %s are not what the generator says" % op
        shape = ",".join(str(n) for n in y.shape) or "-"
        values = y.detach().double()
        print(self.number, op, "f32", shape, draws, self.position, "%.17g" % values.sum(), "%.17g" % values.abs().sum(), "-",
              sep="\t")
        return y

    def dropout(self, x):
        return self.note("dropout", F.dropout(x, DROPOUT), 2 * x.numel())


def make():
    """The parameters in the order in which the course draws them."""
    torch.manual_seed(123)
    linear = torch.nn.Linear
    return {"tok": torch.nn.Embedding(V, C), "pos": torch.nn.Embedding(CONTEXT, C), "q": linear(C, C, bias=False),
            "k": linear(C, C, bias=False), "v": linear(C, C, bias=False), "o": linear(C, C), "up": linear(C, 4 * C),
            "down": linear(4 * C, C), "head": linear(C, V, bias=False)}


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def attention(ledger, q, k, v, elementary):
    """Both forms compute and draw the same; the chain's steps are noted when it is the chain that tapegrad runs."""
    step = ledger.note if elementary else lambda op, y, draws=0: y
    scores = step("matmul", q @ k.transpose(2, 3))
    root = step("full", torch.tensor(math.sqrt(C // H)))
    scores = step("div", scores / root)
    scores = step("masked_fill", scores.masked_fill(torch.triu(torch.ones(5, 5), diagonal=1).bool(), -math.inf))
    weights = step("softmax", torch.softmax(scores, -1))
    draws = 2 * weights.numel()
    weights = step("dropout", F.dropout(weights, DROPOUT), draws)
    return ledger.note("matmul", weights @ v) if elementary else ledger.note("scaled_dot_product_attention", weights @ v, draws)


def main():
    elementary = sys.argv[1:] == ["elementary"]
    m = make()
    ids = torch.tensor([[1, 5, 12, 0, 3], [3, 7, 8, 2, 11]])
    targets = torch.tensor([[5, 12, 0, 3, 4], [7, 8, 2, 11, 6]])
    torch.manual_seed(7)
    ledger = Ledger()
    norm = lambda x: ledger.note("layer_norm", F.layer_norm(x, (C,)))
    through = lambda name, x: ledger.note("linear", m[name](x))
    heads = lambda x: x.view(2, 5, H, C // H).transpose(1, 2)

    x = ledger.note("embedding", m["tok"](ids))
    x = ledger.dropout(ledger.note("add", x + m["pos"](torch.arange(5))))
    n = norm(x)
    q, k, v = (heads(through(name, n)) for name in "qkv")
    y = attention(ledger, q, k, v, elementary)
    y = ledger.note("contiguous", y.transpose(1, 2).contiguous())
    x = ledger.note("add", ledger.dropout(through("o", y.view(2, 5, C))) + x)
    y = ledger.note("gelu_tanh", gelu(through("up", norm(x))))
    x = ledger.note("add", ledger.dropout(through("down", y)) + x)
    logits = through("head", norm(x))
    ledger.note("cross_entropy", F.cross_entropy(logits.flatten(0, 1), targets.flatten()))


if __name__ == "__main__":
    main()

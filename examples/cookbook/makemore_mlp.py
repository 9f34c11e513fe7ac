#!/usr/bin/env python3
"""makemore_mlp: names by a network that sees the vectors of the three characters before the next one (Bengio et al.
2003). Prints the loss before the training, after it, and on other names beside the lowest possible one, and names that
the network writes."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

import makemore_names as names
from makemore_names import CHARACTERS

NAMES, HELD_OUT, CONTEXT, WIDTH, HIDDEN, BATCH, STEPS, SHOWN = 1600, 400, 3, 8, 64, 32, 2000, 8


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(CHARACTERS, WIDTH)
        self.hidden = nn.Linear(CONTEXT * WIDTH, HIDDEN)
        self.head = nn.Linear(HIDDEN, CHARACTERS)

    def forward(self, ids):
        """ids (N,CONTEXT) -> logits (N,CHARACTERS)"""
        x = self.table(ids).flatten(1)
        return self.head(self.hidden(x).tanh())


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.manual_seed(123)
    windows, others = names.draw(NAMES, CONTEXT), names.draw(HELD_OUT, CONTEXT)
    model = Model()
    optim = torch.optim.SGD(model.parameters(), lr=0.2)

    print(f"loss {names.loss(model, windows):.3f} before, ", end="")
    for _ in range(STEPS):
        x, y = names.batch(BATCH, windows)
        loss = F.cross_entropy(model(x), y)
        optim.zero_grad()
        loss.backward()
        optim.step()
    print(f"{names.loss(model, windows):.3f} after, ", end="")
    print(f"of others {names.loss(model, others):.3f}; the grammar's {others.bound:.3f}")
    names.write(model, CONTEXT, SHOWN)


if __name__ == "__main__":
    main()

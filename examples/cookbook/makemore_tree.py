#!/usr/bin/env python3
"""makemore_tree: names by a tree of layers that sees eight characters, in the way of WaveNet (van den Oord et al.
2016). The first layer joins neighboring characters, the second one these pairs, and the third one the fours. Beside it
is a flat network with as many values, whose only layer joins all eight at once. Prints for each the number of values,
the loss, the loss on other names beside the lowest possible one, and names."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

import makemore_names as names
from makemore_names import CHARACTERS

NAMES, HELD_OUT, CONTEXT, WIDTH, DEPTH, BATCH, STEPS, SHOWN = 1600, 400, 8, 8, 3, 64, 1500, 6


class Model(nn.Module):
    def __init__(self, depth, joined, hidden):
        super().__init__()
        self.table = nn.Embedding(CHARACTERS, WIDTH)
        # how many neighbors each layer joins
        self.joined = joined
        self.layers, self.norms = nn.ModuleList(), nn.ModuleList()
        for i in range(depth):
            self.layers.append(nn.Linear(joined * (hidden if i else WIDTH), hidden, bias=False))
            self.norms.append(nn.BatchNorm1d(hidden))
        self.head = nn.Linear(hidden, CHARACTERS)

    def forward(self, ids):
        """ids (N,CONTEXT) -> logits (N,CHARACTERS)"""
        x = self.table(ids)
        for layer, norm in zip(self.layers, self.norms):
            # (N,T,C) -> (N,T / joined,joined C); the norm takes (N,C,T)
            x = x.reshape(len(x), -1, self.joined * x.shape[2])
            x = norm(layer(x).transpose(1, 2)).transpose(1, 2).tanh()
        return self.head(x.squeeze(1))


def show(name, depth, joined, hidden):
    torch.manual_seed(123)
    windows, others = names.draw(NAMES, CONTEXT), names.draw(HELD_OUT, CONTEXT)
    model = Model(depth, joined, hidden)
    optim = torch.optim.SGD(model.parameters(), lr=0.3)

    for _ in range(STEPS):
        x, y = names.batch(BATCH, windows)
        loss = F.cross_entropy(model(x), y)
        optim.zero_grad()
        loss.backward()
        optim.step()
    count, loss = sum(p.numel() for p in model.parameters()), names.loss(model, windows)
    print(f"{name}: {count} values, loss {loss:.3f}, ", end="")
    print(f"of others {names.loss(model, others):.3f} (the grammar's {others.bound:.3f}): ", end="")
    names.write(model, CONTEXT, SHOWN)


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    show("flat", 1, 8, 61)
    show("tree", DEPTH, 2, 32)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""makemore_batch_norm: a network whose weights are too large at first. So most values of tanh are at its ends, where
its slope is almost 0, and less is learned. Batch norm (Ioffe and Szegedy 2015) brings them back. While it trains, it
computes with the statistics of the batch. In evaluation it uses the running ones, so that it can write a single name.
Prints for the network without batch norm and with it the share of the last layer's values beyond +-0.97 before the
training, the loss after it, the loss on other names, and names."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

import makemore_names as names
from makemore_names import CHARACTERS

NAMES, HELD_OUT, CONTEXT, WIDTH, HIDDEN, LAYERS, BATCH, STEPS = 1600, 400, 3, 8, 48, 2, 64, 500


class Model(nn.Module):
    def __init__(self, has_norms):
        super().__init__()
        self.table = nn.Embedding(CHARACTERS, WIDTH)
        self.layers, self.norms = nn.ModuleList(), nn.ModuleList()
        for i in range(LAYERS):
            self.layers.append(nn.Linear(HIDDEN if i else CONTEXT * WIDTH, HIDDEN, bias=False))
            nn.init.normal_(self.layers[i].weight)
            self.norms.append(nn.BatchNorm1d(HIDDEN) if has_norms else nn.Identity())
        self.head = nn.Linear(HIDDEN, CHARACTERS)

    def hidden(self, ids):
        """ids (N,CONTEXT) -> the values of the last layer (N,HIDDEN)"""
        x = self.table(ids).flatten(1)
        for layer, norm in zip(self.layers, self.norms):
            x = norm(layer(x)).tanh()
        return x

    def forward(self, ids):
        return self.head(self.hidden(ids))


def show(has_norms):
    torch.manual_seed(123)
    windows, others = names.draw(NAMES, CONTEXT), names.draw(HELD_OUT, CONTEXT)
    model = Model(has_norms)
    optim = torch.optim.SGD(model.parameters(), lr=0.3)

    share = (model.hidden(windows.inputs).abs() > 0.97).float().mean().item()
    for _ in range(STEPS):
        x, y = names.batch(BATCH, windows)
        loss = F.cross_entropy(model(x), y)
        optim.zero_grad()
        loss.backward()
        optim.step()
    name, loss = "with" if has_norms else "without", names.loss(model, windows)
    print(f"{name}: {100 * share:.0f}% at the ends, loss {loss:.3f}, ", end="")
    print(f"of others {names.loss(model, others):.3f}: ", end="")
    names.write(model, CONTEXT, 4)


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    show(False)
    show(True)


if __name__ == "__main__":
    main()

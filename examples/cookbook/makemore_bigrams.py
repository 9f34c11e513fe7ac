#!/usr/bin/env python3
"""makemore_bigrams: names from the frequencies of pairs of characters, once counted, and once learned as a table of
logits. The two agree, because the counts are the minimum of the loss. Prints the losses of both on the names that they
know and on others, the lowest possible loss on these, and names of both from the same draws."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

import makemore_names as names
from makemore_names import CHARACTERS

NAMES, HELD_OUT, STEPS, SHOWN = 1600, 400, 300, 8


def table():
    """ids (N,1) -> logits (N,CHARACTERS), a row of the table each"""
    return nn.Sequential(nn.Embedding(CHARACTERS, CHARACTERS), nn.Flatten())


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.manual_seed(123)
    windows, others = names.draw(NAMES, 1), names.draw(HELD_OUT, 1)
    counted, learned = table(), table()

    # the counts begin with 0.1, so that no pair is impossible
    counts = torch.full((CHARACTERS, CHARACTERS), 0.1)
    pairs = F.one_hot(windows.targets, CHARACTERS).float()
    logits = counts.index_add(0, windows.inputs.squeeze(1), pairs).log()
    with torch.no_grad():
        counted[0].weight.copy_(logits)

    optim = torch.optim.SGD(learned.parameters(), lr=50)
    for _ in range(STEPS):
        loss = F.cross_entropy(learned(windows.inputs), windows.targets)
        optim.zero_grad()
        loss.backward()
        optim.step()
    for name, model in (("counted", counted), ("learned", learned)):
        loss = names.loss(model, windows)
        other_loss = names.loss(model, others)
        print(f"{name}: loss {loss:.3f}, of others {other_loss:.3f}: ", end="")
        torch.manual_seed(1)
        names.write(model, 1, SHOWN)
    print(f"the grammar: loss of others {others.bound:.3f}")


if __name__ == "__main__":
    main()

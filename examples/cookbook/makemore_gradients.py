#!/usr/bin/env python3
"""makemore_gradients: the gradients of a network by hand, from the loss back to the table: cross-entropy, linear
layers, tanh, batch norm and lookup. Prints for each parameter the length of its gradient, and whether backward computes
the same one, to 1e-5 of its largest value. Then the gradients by hand train the network. Prints its loss before and
after, and compares the gradients again."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

import makemore_names as names
from makemore_names import CHARACTERS

NAMES, CONTEXT, WIDTH, HIDDEN, BATCH, STEPS, EPS, RATE = 1600, 3, 8, 64, 32, 500, 1e-5, 0.3


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(CHARACTERS, WIDTH)
        self.hidden = nn.Linear(CONTEXT * WIDTH, HIDDEN, bias=False)
        self.norm = nn.BatchNorm1d(HIDDEN, eps=EPS, track_running_stats=False)
        self.head = nn.Linear(HIDDEN, CHARACTERS)

    def forward(self, ids):
        """ids (N,CONTEXT) -> logits (N,CHARACTERS)"""
        x = self.table(ids).flatten(1)
        return self.head(self.norm(self.hidden(x)).tanh())


@torch.no_grad()
def by_hand(model, ids, targets):
    """Returns the gradients of the parameters, without the tape's help; dx is the gradient of x."""
    table, hidden_weight, scale, shift, head_weight, head_bias = model.parameters()
    x = F.embedding(ids, table).flatten(1)
    h = F.linear(x, hidden_weight)
    centered = h - h.mean(0)
    inverse = ((centered * centered).mean(0) + EPS) ** -0.5
    normed = centered * inverse
    y = torch.tanh(normed * scale + shift)
    logits = F.linear(y, head_weight, head_bias)

    # the mean cross-entropy: the probabilities, less 1 for the target
    dlogits = logits.softmax(-1) - F.one_hot(targets, CHARACTERS)
    dlogits = dlogits / len(targets)
    dhead_bias = dlogits.sum(0)
    dhead_weight = dlogits.T @ y
    dy = dlogits @ head_weight
    # tanh has the slope 1 - tanh^2
    dy = dy - dy * (y * y)
    dshift = dy.sum(0)
    dscale = (dy * normed).sum(0)
    # batch norm: a value changes its channel's mean and variance, too
    dnormed = dy * scale
    by_variance = normed * (dnormed * normed).mean(0)
    dh = inverse * (dnormed - dnormed.mean(0) - by_variance)
    dhidden_weight = dh.T @ x
    # lookup: the gradients of all places that used a row add up
    dx = (dh @ hidden_weight).view(-1, WIDTH)
    dtable = torch.zeros(CHARACTERS, WIDTH).index_add(0, ids.flatten(), dx)
    return dtable, dhidden_weight, dscale, dshift, dhead_weight, dhead_bias


def compare(model, windows):
    """Compares the gradients by hand with those of backward, on a new batch."""
    x, y = names.batch(BATCH, windows)
    model.zero_grad()
    F.cross_entropy(model(x), y).backward()
    verdicts = []
    for (name, parameter), gradient in zip(model.named_parameters(), by_hand(model, x, y)):
        difference = (gradient - parameter.grad).abs().max()
        verdict = "same" if difference <= 1e-5 * gradient.abs().max() else "different"
        verdicts.append(f"{name} {gradient.norm().item():.3f} {verdict}")
    print(", ".join(verdicts))


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.manual_seed(123)
    windows = names.draw(NAMES, CONTEXT)
    model = Model()

    compare(model, windows)
    before = names.loss(model, windows)
    for _ in range(STEPS):
        x, y = names.batch(BATCH, windows)
        gradients = by_hand(model, x, y)
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients):
                parameter -= RATE * gradient
    print(f"loss {before:.3f} before, {names.loss(model, windows):.3f} after")
    compare(model, windows)


if __name__ == "__main__":
    main()

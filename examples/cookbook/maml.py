#!/usr/bin/env python3
"""maml: model-agnostic meta-learning (Finn et al. 2017). Each task is a sine wave of its own amplitude and phase, of
which ten points are seen. One step of gradient descent on these shall be enough to know the whole wave. What is learned
are the weights from which that step starts: the loss after the step is differentiated through the step, whose gradient
is a part of the graph. Prints the mean loss on new waves before and after a step, from the first weights and from the
learned ones."""
import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

SEEN, WIDTH, TASKS, STEPS, TESTS, RATE = 10, 40, 4, 500, 100, 0.05


def forward(w, x):
    """x (N,1) -> y (N,1), by three layers with the weights w[0], w[2], w[4] and the biases w[1], w[3], w[5]"""
    x = torch.tanh(F.linear(x, w[0], w[1]))
    x = torch.tanh(F.linear(x, w[2], w[3]))
    return F.linear(x, w[4], w[5])


def losses(w):
    """The losses of a new wave, y = amplitude sin(x + phase): before a step w - RATE dloss/dw, and after it."""
    amplitude = torch.empty(1).uniform_(0.1, 5)
    phase = torch.empty(1).uniform_(0, math.pi)
    x = torch.empty(2 * SEEN, 1).uniform_(-5, 5)
    y = amplitude * torch.sin(x + phase)
    # the step sees the first half of the points; the loss after it is that of the others
    before = F.mse_loss(forward(w, x[:SEEN]), y[:SEEN])
    slopes = torch.autograd.grad(before, w, create_graph=True)
    w = [weight - RATE * slope for weight, slope in zip(w, slopes)]
    return before, F.mse_loss(forward(w, x[SEEN:]), y[SEEN:])


def test(w, name):
    total_before = total_after = 0
    for _ in range(TESTS):
        before, after = losses(w)
        total_before += before.item()
        total_after += after.item()
    print(f"{name} weights: loss {total_before / TESTS:.2f}, after a step {total_after / TESTS:.2f}")


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.manual_seed(123)
    net = nn.Sequential(nn.Linear(1, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1))
    w = list(net.parameters())
    optim = torch.optim.Adam(w, lr=0.01)

    test(w, "first")
    for _ in range(STEPS):
        loss = sum(losses(w)[1] for _ in range(TASKS)) / TASKS
        optim.zero_grad()
        loss.backward()
        optim.step()
    test(w, "learned")


if __name__ == "__main__":
    main()

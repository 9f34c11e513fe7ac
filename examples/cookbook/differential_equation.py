#!/usr/bin/env python3
"""differential_equation: a network solves y'' = -y with y(0) = 0 and y'(0) = 1 (Raissi et al. 2019). The derivatives of
y with respect to x are two calls of grad. The loss is how far they are from the equation; it knows no solution. Prints
the loss of the last step, and the largest distance from the solution, which is sin(x)."""
import argparse
import math

import torch
from torch import nn

POINTS, WIDTH, STEPS = 64, 32, 1000


def derivative(y, x):
    """dy/dx (POINTS,1): each y depends on its own x alone, so the gradient of their sum has the derivative of each."""
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.manual_seed(123)
    net = nn.Sequential(nn.Linear(1, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
    optim = torch.optim.Adam(net.parameters(), lr=0.003)

    for _ in range(STEPS):
        x = torch.rand(POINTS, 1) * math.pi
        x.requires_grad_()
        # y = x + x^2 net(x) has the wanted y(0) and y'(0), whatever the network computes
        y = x + x * x * net(x)
        residual = derivative(derivative(y, x), x) + y
        loss = (residual ** 2).mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
    error = (y - x.sin()).abs().max()
    print(f"loss {loss.item():.4f}, largest error {error.item():.3f}")


if __name__ == "__main__":
    main()

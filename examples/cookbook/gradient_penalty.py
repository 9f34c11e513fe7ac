#!/usr/bin/env python3
"""gradient_penalty: the critic of a WGAN-GP (Gulrajani et al. 2017). A critic f whose slopes have a norm of at most 1,
and which is high at real points and low at fake ones, tells how far apart the two are: the mean way on which the ones
are moved to become the others (Wasserstein's distance). The penalty keeps the norm of the slope near 1, so its gradient
is a gradient of a gradient. Here the points are on circles of radius 1 and 3, whose distance is 2. A penalty of weight
10 lets the slope grow to 1 + 2 / (2 * 10) = 1.1, so the critic will tell 2.2. Prints what it tells in the last step,
and the mean norm of its slope."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

POINTS, WIDTH, STEPS, WEIGHT = 64, 64, 1000, 10


def circle(radius):
    """Points (POINTS,2) on a circle."""
    return F.normalize(torch.randn(POINTS, 2)) * radius


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.manual_seed(123)
    critic = nn.Sequential(nn.Linear(2, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH), nn.SiLU(),
                           nn.Linear(WIDTH, 1))
    optim = torch.optim.Adam(critic.parameters(), lr=0.002, betas=(0.5, 0.9))

    for _ in range(STEPS):
        real, fake = circle(3), circle(1)
        part = torch.rand(POINTS, 1)
        between = (fake + part * (real - fake)).requires_grad_()
        # the mean of f(real) - the mean of f(fake)
        distance = critic(real).mean() - critic(fake).mean()
        # slope (POINTS,2) = df/dx at points between the two; penalty = the mean of (|slope| - 1)^2
        slope, = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        norm = torch.linalg.vector_norm(slope, dim=-1)
        penalty = ((norm - 1) ** 2).mean()
        loss = WEIGHT * penalty - distance
        optim.zero_grad()
        loss.backward()
        optim.step()
    print(f"distance {distance.item():.3f}, slope {norm.mean().item():.3f}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""hessian_eigenvalue: the largest eigenvalue of the Hessian H of a small GPT's loss, by power iteration: v <- Hv /
|Hv|. The product Hv needs no H, which would have a billion values. Gradient descent of rate a is stable only along
directions whose curvature is below 2 / a. Training raises the largest curvature to that edge (Cohen et al. 2021).
Prints the loss and the largest eigenvalue, v . Hv for |v| = 1, during a training."""
import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

TEXT = ("The lamp turned slowly over the black water, and the keeper counted: one, two, three, dark. One, two, three,"
        " dark. He had counted it for thirty years.")
V, T, C, HEADS, LAYERS, TEXTS, ITERATIONS, STEPS, RATE = 128, 16, 32, 2, 2, 8, 20, 100, 0.2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.queries, self.keys, self.values = (nn.Linear(C, C, bias=False) for _ in range(3))
        self.out = nn.Linear(C, C)
        self.ff = nn.Sequential(nn.Linear(C, 4 * C), nn.GELU(approximate="tanh"), nn.Linear(4 * C, C))
        self.norm1, self.norm2 = nn.LayerNorm(C), nn.LayerNorm(C)

    def attention(self, x):
        """x (N,T,C) -> (N,T,C); F.scaled_dot_product_attention has no second derivative on a CPU"""
        q, k, v = (f(x).view(TEXTS, T, HEADS, C // HEADS).transpose(1, 2) for f in (self.queries, self.keys, self.values))
        scores = q @ k.transpose(2, 3) / math.sqrt(C // HEADS)
        future = torch.ones(T, T).triu(1).bool()
        y = scores.masked_fill(future, -torch.inf).softmax(-1) @ v
        return self.out(y.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.ff(self.norm2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(V, C), nn.Embedding(T, C)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(C)
        self.head = nn.Linear(C, V, bias=False)

    def forward(self, ids):
        """ids (N,T) -> logits (N,T,V)"""
        return self.head(self.norm(self.blocks(self.tokens(ids) + self.positions.weight)))


def dot(a, b):
    return sum((x * y).sum() for x, y in zip(a, b)).item()


def largest_eigenvalue(loss_of, w):
    v = [torch.randn_like(x) for x in w]
    for _ in range(ITERATIONS):
        norm = math.sqrt(dot(v, v))
        v = [x / norm for x in v]
        # Hv = d(g . v)/dw with the gradient g = dloss/dw
        gradients = torch.autograd.grad(loss_of(), w, create_graph=True)
        products = torch.autograd.grad(gradients, w, v)
        eigenvalue = dot(v, products)
        v = products
    return eigenvalue


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.manual_seed(123)
    model = GPT()
    w = list(model.parameters())
    optim = torch.optim.SGD(w, lr=RATE)
    ids = torch.tensor(list(TEXT.encode()))
    inputs, targets = ids[:TEXTS * T].view(TEXTS, T), ids[1:TEXTS * T + 1]

    def loss_of():
        return F.cross_entropy(model(inputs).flatten(0, 1), targets)

    print(f"stable below {2 / RATE:.1f}")
    for step in range(1, STEPS + 1):
        loss = loss_of()
        optim.zero_grad()
        loss.backward()
        optim.step()
        if step % (STEPS // 4) == 0:
            print(f"step {step}: loss {loss.item():.3f}, largest eigenvalue {largest_eigenvalue(loss_of, w):.2f}")


if __name__ == "__main__":
    main()

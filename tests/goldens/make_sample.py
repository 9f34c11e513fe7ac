#!/usr/bin/env python3
"""Writes sample.txt for tests/models/test_sample.c: draws of the next token with PyTorch 2.13.

    python3 make_sample.py > sample.txt

Each line: vocabulary, temperature, top_k (-1: all), top_p, then 40 ids (8 of the large vocabulary) drawn with one
generator of seed 123. The logits are the values of logits() in the test. top_p keeps the fewest most probable tokens whose
probabilities sum to at least p (Holtzman et al. 2020).
"""
import torch

SMALL = [(1, -1, 1), (0.5, -1, 1), (3, -1, 1), (1, 1, 1), (1, 5, 1), (2, 20, 1), (1, -1, 0.5), (1, -1, 0.05),
         (2, 10, 0.8), (1, 50, 0.999)]
LARGE = [(1, -1, 1), (0.7, 1000, 1), (1.5, -1, 0.9), (10, 30000, 0.5)]


def line(vocabulary, scale, draws, temperature, top_k, top_p):
    logits = torch.tensor([((i * 37) % vocabulary) * scale - 3 for i in range(vocabulary)])
    torch.manual_seed(123)
    ids = []
    for _ in range(draws):
        kept = logits.clone()
        if top_k > 0:
            kept[kept < torch.topk(kept, top_k).values[-1]] = -torch.inf
        p = torch.softmax(kept / temperature, 0)
        order = torch.argsort(p, descending=True, stable=True)
        before = torch.cumsum(p[order].double(), 0) - p[order].double()
        p[order[before >= top_p]] = 0
        ids.append(torch.multinomial(p, 1).item())
    print(vocabulary, temperature, top_k, top_p, *ids)


def main():
    for options in SMALL:
        line(50, 2.0**-3, 40, *options)
    for options in LARGE:
        line(50257, 2.0**-12, 8, *options)


if __name__ == "__main__":
    main()

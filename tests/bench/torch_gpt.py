#!/usr/bin/env python3
"""Runs the training step of tests/bench/gpt.c here and in PyTorch, in turn, and prints the times in ms, their ratio, and
the ratio of the best times. For development: it needs torch 2.13, and nothing in the build or the tests needs it.

    tests/bench/torch_gpt.py [--threads N] [--turns N] [--compiled] BENCH

BENCH is the program tests/bench of a release build; --compiled runs PyTorch's step by torch.compile. The model is GPT-2
small as the course's chapter 5 builds it: dropout, no bias of the queries, keys and values, and a head of its own.
"""
import argparse
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F
from torch import nn

B, T, C, V, H, LAYERS, DROPOUT = 2, 256, 768, 50257, 12, 12, 0.1


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.qkv, self.out = nn.Linear(C, 3 * C, bias=False), nn.Linear(C, C)
        self.up, self.down = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, H, C // H).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=DROPOUT, is_causal=True)
        x = x + F.dropout(self.out(mixed.transpose(1, 2).reshape(B, T, C)), DROPOUT)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")), DROPOUT)


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(V, C), nn.Embedding(T, C)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(C), nn.Linear(C, V, bias=False)

    def forward(self, ids):
        x = F.dropout(self.tokens(ids) + self.positions(torch.arange(T)), DROPOUT)
        return self.head(self.norm(self.blocks(x)))


def make_step(compiled):
    """Returns a function that runs one step."""
    model = GPT()
    forward = torch.compile(model) if compiled else model
    optim = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    inputs, targets = torch.randint(0, V, (2, B, T))

    def step():
        optim.zero_grad()
        F.cross_entropy(forward(inputs).view(B * T, V), targets.view(B * T)).backward()
        optim.step()

    return step


def seconds(run, rounds=3):
    """The times of some steps, after two that are not counted."""
    times = []
    for _ in range(2 + rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times[2:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--turns', type=int, default=5)
    parser.add_argument('--compiled', action='store_true')
    parser.add_argument('bench', metavar='BENCH')
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    step, ours, theirs = make_step(options.compiled), [], []
    bench = subprocess.Popen([options.bench, '--threads=%d' % options.threads, '--serve'], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    for _ in range(options.turns):
        theirs += seconds(step)
        time.sleep(0.05)  # torch's threads stop spinning
        bench.stdin.write('3\n')
        bench.stdin.flush()
        ours += [float(t) for t in bench.stdout.readline().split()]
    bench.stdin.close()
    a, b = statistics.median(ours), statistics.median(theirs)
    print('a step of GPT-2 small: %.0f ms, torch %.0f ms, ratio %.2f, of the best %.2f' %
          (1e3 * a, 1e3 * b, a / b, min(ours) / min(theirs)))


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
"""Goldens of the options of tg_scaled_dot_product_attention, by torch 2.13.0. Writes attention.txt beside itself, as
golden_file.py describes.

Options: causal, scale (-1: torch's default), grouped heads, the fourth input: 0 none, 1 lengths, 2 a mask of keys, 3 a
bias; the window, and whether the last input has the first keys.
"""
import os

import torch
import torch.nn.functional as F

import golden_file

assert torch.__version__.startswith("2.13.0")
torch.set_num_threads(1)
torch.manual_seed(29)
torch.set_default_dtype(torch.float64)
NOTHING, LENGTHS, MASK, BIAS = range(4)


def attention(causal, scale, grouped, kind, window, has_first):
    def call(q, k, v, *more):
        extra = more[0] if kind != NOTHING else None
        queries, keys = q.shape[-2], k.shape[-2]
        visible = torch.ones(queries, keys, dtype=torch.bool)
        if causal:
            visible = visible.tril(keys - queries)
        if window:
            visible = visible.triu(keys - queries + 1 - int(window))
        dims = max(q.dim(), k.dim(), v.dim())
        if has_first:
            after = torch.arange(keys) >= more[-1][..., None]
            visible = visible & (after if after.dim() == 2 else after.reshape(len(after), *[1] * (dims - 3), queries, keys))
        if kind == LENGTHS:
            extra = torch.arange(keys)[None, :] < extra[:, None]
        if kind in (LENGTHS, MASK):
            visible = visible & extra.reshape(len(extra), *[1] * (dims - 2), keys)
        mask = visible if kind != BIAS else extra + torch.zeros(visible.shape).masked_fill(~visible, -torch.inf)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=None if scale == -1 else scale,
                                              enable_gqa=bool(grouped))
    return call


def draw(*shape):
    return torch.randn(*shape)


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "attention.txt"), "w") as out:
        def case(options, q, k, v, *extra, window=0, first=()):
            first = [] if len(first) == 0 else [torch.tensor(first, dtype=torch.int32)]
            options = [float(o) for o in (*options, window, len(first))]
            golden_file.write(out, "attention", options, [draw(*q), draw(*k), draw(*v), *extra, *first],
                              attention(*options))

        def lengths(*values):
            return torch.tensor(values, dtype=torch.int32)

        def mask(*rows):
            return torch.tensor([[c == "1" for c in row] for row in rows])

        for scale in (0.0, 0.3, 2.0):
            case((0, scale, 0, NOTHING), (2, 3, 4), (2, 5, 4), (2, 5, 4))
        # lengths: all keys, one, none; a causal query may have no key of its own position
        case((0, -1, 0, LENGTHS), (3, 2, 4, 3), (3, 2, 5, 3), (3, 2, 5, 3), lengths(5, 1, 0))
        case((1, -1, 0, LENGTHS), (3, 2, 4, 3), (3, 2, 4, 3), (3, 2, 4, 3), lengths(4, 2, 0))
        case((1, 0.7, 0, LENGTHS), (2, 3, 4), (2, 6, 4), (2, 6, 4), lengths(6, 4))
        case((0, -1, 0, LENGTHS), (2, 1, 2, 2, 3), (2, 1, 2, 3, 3), (2, 1, 2, 3, 3), lengths(3, 2))
        # masks: holes, leading and trailing zeros, no key; causal rows before the first key
        case((0, -1, 0, MASK), (4, 2, 3, 3), (4, 2, 6, 3), (4, 2, 6, 3), mask("111111", "010110", "000000", "001000"))
        case((1, -1, 0, MASK), (4, 2, 4, 3), (4, 2, 4, 3), (4, 2, 4, 3), mask("1111", "0011", "0000", "1010"))
        case((1, -1, 0, MASK), (1, 66, 2), (1, 66, 2), (1, 66, 2), mask("0" * 3 + "1" * 50 + "0" * 10 + "101"))
        # broadcasting: of keys and values, of queries, and axes that are absent
        case((0, -1, 0, NOTHING), (2, 3, 4, 2), (2, 1, 5, 2), (1, 3, 5, 2))
        case((0, -1, 0, NOTHING), (1, 3, 4, 2), (2, 3, 5, 2), (2, 1, 5, 2))
        case((1, -1, 0, NOTHING), (4, 2), (2, 3, 5, 2), (3, 5, 2))
        case((0, -1, 0, LENGTHS), (1, 4, 2), (3, 5, 2), (5, 2), lengths(2, 0, 5))
        case((0, -1, 0, BIAS), (2, 3, 4, 2), (1, 1, 5, 2), (2, 1, 5, 2), draw(3, 4, 5))
        # grouped heads: two and three queries per key, one key for all, with a bias and with lengths
        case((0, -1, 1, NOTHING), (2, 4, 3, 2), (2, 2, 5, 2), (2, 2, 5, 2))
        case((1, -1, 1, NOTHING), (6, 3, 2), (2, 3, 2), (2, 3, 2))
        case((1, 0.5, 1, NOTHING), (2, 3, 3, 2), (2, 1, 5, 2), (2, 1, 5, 2))
        case((0, -1, 1, BIAS), (2, 4, 3, 2), (2, 2, 5, 2), (2, 2, 5, 2), draw(3, 5))
        case((0, -1, 1, BIAS), (2, 4, 3, 2), (2, 2, 5, 2), (2, 2, 5, 2), draw(2, 1, 3, 5))
        case((1, -1, 1, LENGTHS), (2, 6, 3, 2), (2, 3, 3, 2), (2, 3, 3, 2), lengths(1, 3))
        # rows of a bias that are large or -inf everywhere, in one tile of keys and in several
        far = torch.tensor([-1e30, -torch.inf, 1e30, 0.0])[:, None]
        case((0, -1, 0, BIAS), (2, 4, 3), (2, 5, 3), (2, 5, 3), far + draw(4, 5))
        case((1, -1, 0, BIAS), (2, 4, 3), (2, 5, 3), (2, 5, 3), far + torch.zeros(4, 5))
        case((0, 0.5, 1, BIAS), (2, 4, 4, 2), (2, 2, 90, 2), (2, 2, 90, 2), far + draw(2, 1, 4, 90))
        # windows: of one key, of several, of all; with keys from a cache; over tiles; with masks that leave no key
        for window in (1, 3, 9):
            case((1, -1, 0, NOTHING), (2, 5, 3), (2, 5, 3), (2, 5, 3), window=window)
        case((1, 0.7, 1, NOTHING), (2, 4, 3, 2), (2, 2, 7, 2), (2, 2, 7, 2), window=2)
        case((1, -1, 0, NOTHING), (1, 70, 2), (1, 140, 2), (1, 140, 2), window=20)
        case((1, -1, 0, BIAS), (2, 4, 3), (2, 6, 3), (2, 6, 3), draw(4, 6), window=3)
        case((1, -1, 0, MASK), (2, 2, 4, 3), (2, 2, 4, 3), (2, 2, 4, 3), mask("1001", "0110"), window=2)
        # first keys: of all sequences and of each; packed texts, padding on the left, no key; beside window, mask and bias
        case((1, -1, 0, NOTHING), (4, 3), (4, 3), (4, 3), first=[0, 0, 2, 2])
        case((0, -1, 0, NOTHING), (2, 3, 4, 2), (2, 1, 5, 2), (1, 3, 5, 2), first=[[0, 5, 4, 1], [2, 0, 0, 3]])
        case((1, -1, 0, NOTHING), (2, 4, 3), (2, 4, 3), (2, 4, 3), first=[[2, 2, 2, 2], [0, 1, 1, 0]])
        case((1, -1, 1, LENGTHS), (2, 4, 3, 2), (2, 2, 5, 2), (2, 2, 5, 2), lengths(4, 1), window=4,
             first=[[0, 1, 2], [0, 1, 2]])
        case((1, -1, 0, BIAS), (1, 3, 3), (2, 6, 3), (2, 6, 3), draw(3, 6), window=3, first=[[3, 0, 4], [0, 5, 6]])
        case((1, -1, 0, NOTHING), (1, 70, 2), (1, 70, 2), (1, 70, 2), first=[10 * (t // 10) for t in range(70)])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Goldens of the options of tg_scaled_dot_product_attention, by torch 2.13.0. Writes attention.txt beside itself, as
golden_file.py describes.

Options: causal, scale (-1: torch's default), grouped heads, and the fourth input: 0 none, 1 lengths, 2 a mask of keys, 3
a bias.
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


def attention(causal, scale, grouped, kind):
    def call(q, k, v, extra=None):
        queries, keys = q.shape[-2], k.shape[-2]
        visible = torch.ones(queries, keys, dtype=torch.bool)
        if causal:
            visible = visible.tril(keys - queries)
        dims = max(q.dim(), k.dim(), v.dim())
        if kind == LENGTHS:
            extra = torch.arange(keys)[None, :] < extra[:, None]
        if kind in (LENGTHS, MASK):
            visible = visible & extra.reshape(len(extra), *[1] * (dims - 2), keys)
        mask = visible if kind != BIAS else extra + torch.zeros(queries, keys).masked_fill(~visible, -torch.inf)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=None if scale == -1 else scale,
                                              enable_gqa=bool(grouped))
    return call


def draw(*shape):
    return torch.randn(*shape)


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "attention.txt"), "w") as out:
        def case(options, q, k, v, *extra):
            options = [float(o) for o in options]
            golden_file.write(out, "attention", options, [draw(*q), draw(*k), draw(*v), *extra], attention(*options))

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


if __name__ == "__main__":
    main()

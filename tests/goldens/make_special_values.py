#!/usr/bin/env python3
"""Goldens of bounds, losses and reductions at NaN, infinities, zeros and kinks, by torch 2.13.0. Writes
special_values.txt beside itself (golden_file.py)."""
import itertools
import math
import os
import warnings

import torch
import torch.nn.functional as F

import golden_file

warnings.simplefilter("ignore")
torch.set_default_dtype(torch.float64)
NAN, INF = math.nan, math.inf
VALUES = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5, -0.5]
ROWS = torch.tensor([[1.0, 2, 3], [NAN, 1, 2], [INF, 1, 2], [-INF, 1, 2], [INF, -INF, 1], [-INF] * 3, [INF] * 3,
                     [NAN] * 3, [0.0] * 3, [5.0] * 3])


def products(count):
    return [torch.tensor(column) for column in zip(*itertools.product(VALUES, repeat=count))]


def bounds(case):
    a, b = products(2)
    case("clamp_low", [], [a, b], lambda x, low: torch.clamp(x, min=low))
    case("clamp_high", [], [a, b], lambda x, high: torch.clamp(x, max=high))
    case("clamp_both", [], products(3), torch.clamp)


def losses(case):
    a, b = products(2)
    case("mse", [], [a, b], lambda x, t: F.mse_loss(x, t, reduction="none"))
    case("l1", [], [a, b], lambda x, t: F.l1_loss(x, t, reduction="none"))
    for number in (0.0, 1.0, 2.5):
        case("smooth_l1", [number], [a, b], lambda x, t: F.smooth_l1_loss(x, t, reduction="none", beta=number))
    case("huber", [1.0], [a, b], lambda x, t: F.huber_loss(x, t, reduction="none", delta=1.0))
    for log_target in (False, True):
        case("kl_div", [log_target], [a, b], lambda x, t: F.kl_div(x, t, reduction="none", log_target=log_target))
    case("hinge_embedding", [0.5], [a, b], lambda x, t: F.hinge_embedding_loss(x, t, 0.5, reduction="none"), [1])
    for margin in (0.0, 1.0):
        case("margin_ranking", [margin], products(3),
             lambda x, y, t: F.margin_ranking_loss(x, y, t, margin, reduction="none"))
    a, b = [torch.tensor(column) for column in zip(*itertools.product(VALUES, (0.0, 0.25, 1.0, NAN)))]
    case("bce", [], [a, b], lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"))
    case("bce_pos_weight", [], [a, b, torch.tensor(2.5)], lambda x, t, p: F.binary_cross_entropy_with_logits(
        x, t, reduction="none", pos_weight=p.detach()), [2])
    pairs = list(itertools.product(range(len(ROWS)), repeat=2))
    first, second = ROWS[[p[0] for p in pairs]], ROWS[[p[1] for p in pairs]]
    third = ROWS[[(3 * p[0] + p[1]) % len(ROWS) for p in pairs]]
    case("cosine_similarity", [], [first, second], lambda a, b: F.cosine_similarity(a, b, 1, 1e-8))
    for target in (1.0, -1.0, 0.0):
        case("cosine_embedding", [], [first, second, torch.full((len(pairs),), target)],
             lambda a, b, t: F.cosine_embedding_loss(a, b, t, reduction="none"), [2])
    for p, swap in ((2.0, 0), (2.0, 1), (1.0, 1), (3.0, 0)):
        case("triplet_margin", [p, swap], [first, second, third],
             lambda a, b, c: F.triplet_margin_loss(a, b, c, 1.0, p, 0.0, bool(swap), reduction="none"))


def reductions(case):
    for x, correction in itertools.product((ROWS, ROWS[:, :1], torch.empty(2, 0)), (-1, 0, 1, 2, 3, 4)):
        case("var", [correction], [x], lambda x: torch.var(x, 1, correction=correction))
        case("std", [correction], [x], lambda x: torch.std(x, 1, correction=correction))
    case("amax", [], [ROWS], lambda x: torch.amax(x, 1))
    case("logsumexp", [], [ROWS], lambda x: torch.logsumexp(x, 1))
    case("softmax", [], [ROWS], lambda x: torch.softmax(x, 1))
    case("log_softmax", [], [ROWS], lambda x: torch.log_softmax(x, 1))
    for p in (1.0, 2.0, INF):
        case("norm", [p], [ROWS], lambda x: torch.linalg.vector_norm(x, p, 1))


def products_of_nothing(case):
    for rows, width, out in itertools.product((0, 2), (0, 3), (0, 4)):
        inputs = [torch.ones(rows, width), torch.ones(out, width), torch.arange(out) / 4.0]
        case("linear_bias", [], inputs, F.linear)
        case("linear", [], inputs[:2], F.linear)


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "special_values.txt"), "w") as out:
        def case(*arguments):
            golden_file.write(out, *arguments)
        for family in (bounds, losses, reductions, products_of_nothing):
            family(case)


if __name__ == "__main__":
    main()

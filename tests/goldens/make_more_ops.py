#!/usr/bin/env python3
"""Goldens of ops over their options (tests/ops/test_options.c), by torch 2.13.0. Writes more_ops.txt beside itself
(golden_file.py). Axes of reductions are one axis, or 9 for all; the option after it is whether axes are kept."""
import math
import os

import torch
import torch.nn.functional as F

import golden_file

torch.manual_seed(22)
torch.set_default_dtype(torch.float64)
SHAPES = [(2, 3), (5,), (1,), (), (2, 1, 4), (0, 3)]
NAN, INF = float("nan"), float("inf")


def draw(*shape):
    return torch.randn(shape)


def ids(high, *shape):
    return torch.randint(0, high, shape)


def binary(case):
    for a, b in (((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2,)), ((0, 3), (3,))):
        case("logical_and", [], [ids(2, *a).bool(), ids(2, *b).bool()], torch.logical_and)
        case("logical_or", [], [ids(2, *a), ids(2, *b)], torch.logical_or)
        case("logical_not", [], [ids(2, *a)], torch.logical_not)
    x = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 0.5])
    low, high = torch.tensor([-1.0, -1, 1, 1, 3, 0, 0.5]), torch.tensor([1.0, 1, 2, 1, 1, 2, 0.5])
    case("clamp_both", [], [x, low, high], torch.clamp)
    case("clamp_low", [], [x, low], lambda x, low: torch.clamp(x, min=low))
    case("clamp_high", [], [x, high], lambda x, high: torch.clamp(x, max=high))
    case("clamp_both", [], [draw(2, 3), draw(3) - 1, draw(2, 1) + 1], torch.clamp)
    case("clamp_both", [], [torch.tensor([1.0, NAN, 1.0]), torch.tensor([0.0, 0.0, 2.0]), torch.tensor([2.0, 2.0, INF])],
         torch.clamp)


def reductions(case):
    for shape, axis, keep in (((2, 3, 4), 1, 0), ((2, 3, 4), 9, 0), ((2, 3, 4), 0, 1), ((5,), 0, 1), ((3, 1), 1, 0),
                              ((), 9, 0), ((3, 0), 0, 0)):
        x, where = draw(*shape), None if axis == 9 else axis
        kept = bool(keep) and where is not None
        every = tuple(range(len(shape))) if where is None else where
        case("amin", [axis, keep], [x], lambda x: torch.amin(x, every, kept))
        case("logsumexp", [axis, keep], [x * 4], lambda x: torch.logsumexp(x, every, kept))
        for correction in (0, 1):
            case("std", [axis, keep, correction], [x], lambda x: torch.std(x, where, correction=correction, keepdim=kept))
        for p in (1.0, 2.0, 3.0, 1.5, 0.5, INF):
            case("norm", [axis, keep, p], [x], lambda x: torch.linalg.vector_norm(x, p, where, kept))
        for values in (ids(2, *shape).bool(), ids(3, *shape), ids(2, *shape).double().detach()):
            kind = "_float" if values.is_floating_point() else ""
            case("any" + kind, [axis, keep], [values], lambda x: torch.any(x.detach().bool(), where, kept) if where is not
                 None else torch.any(x.detach().bool()), [0])
            case("all" + kind, [axis, keep], [values], lambda x: torch.all(x.detach().bool(), where, kept) if where is not
                 None else torch.all(x.detach().bool()), [0])
        if where is not None:
            case("sum_integers", [axis, keep], [ids(9, *shape) - 4], lambda x: x.sum(where, kept))
            case("sum_integers", [axis, keep], [ids(2, *shape).bool()], lambda x: x.sum(where, kept))
            if shape[where]:
                case("argmin", [axis, keep], [x], lambda x: torch.argmin(x.detach(), where, kept), [0])
                case("argmin", [axis, keep], [ids(9, *shape)], lambda x: torch.argmin(x, where, kept))
                case("argmax", [axis, keep], [ids(99, *shape)], lambda x: torch.argmax(x, where, kept))
    ties = torch.tensor([[1.0, 3.0, 3.0, -3.0], [0.0, 0, 0, 0], [2.0, -2.0, 1.0, -2.0]])
    case("amin", [1, 0], [ties], lambda x: torch.amin(x, 1))
    for p in (1.0, 2.0, 3.0, 1.5, INF):
        if p != INF:
            case("norm", [1, 0, p], [ties], lambda x: torch.linalg.vector_norm(x, p, 1))
    case("norm", [1, 0, INF], [ties[[0, 2]]], lambda x: torch.linalg.vector_norm(x, INF, 1))
    case("std", [1, 0, 1], [ties[[0, 2]]], lambda x: torch.std(x, 1))
    far = torch.tensor([[-INF, 1.0, 2.0], [500.0, 499.0, -500.0], [-800.0, -801.0, -802.0]])
    case("logsumexp", [1, 0], [far], lambda x: torch.logsumexp(x, 1))


def orders(case):
    for shape, axis in (((3, 6), 1), ((6, 3), 0), ((2, 4, 2), 1), ((1,), 0), ((0, 3), 1), ((3, 0), 1)):
        x = draw(*shape)
        for smallest in (0, 1):
            case("sort", [axis, smallest], [x], lambda x: torch.sort(x, dim=axis, descending=not smallest, stable=True).values)
            case("sort_ids", [axis, smallest], [x], lambda x: torch.sort(x.detach(), dim=axis, descending=not smallest, stable=True).indices,
                 [0])
            for k in range(min(shape[axis], 3)):
                case("topk", [k, axis, smallest], [x], lambda x: torch.topk(x, k, axis, not smallest).values)
        case("cumsum", [axis], [x], lambda x: torch.cumsum(x, axis))
    ties = torch.tensor([2.0, 1, 2, NAN, 1, -INF, NAN, 2, INF, 0, -0.0])
    for smallest in (0, 1):
        case("sort_ids", [0, smallest], [ties], lambda x: torch.sort(x.detach(), dim=0, descending=not smallest, stable=True).indices, [0])
        case("sort", [0, smallest], [ties], lambda x: torch.sort(x, dim=0, descending=not smallest, stable=True).values)
    case("cumsum", [0], [draw(3)[0]], lambda x: torch.cumsum(x, 0))


def movements(case):
    x = draw(2, 3, 4)
    for axis in (0, 1, 2):
        case("flip", [axis], [x], lambda x: torch.flip(x, [axis]))
    case("flip_all", [], [x], lambda x: torch.flip(x, [0, 1, 2]))
    case("flip", [0], [draw(0, 3)], lambda x: torch.flip(x, [0]))
    case("flip", [0], [ids(9, 4)], lambda x: torch.flip(x, [0]))
    for shape, times in (((2, 3), (2, 3)), ((2, 3), (1, 2)), ((2, 3), (3, 1)), ((3,), (2, 2)), ((2, 1, 3), (1, 2, 2)),
                         ((), (3,)), ((2,), (0,)), ((2, 3), (2, 1, 2)), ((0, 3), (2, 2)), ((), ())):
        case("repeat", [len(times), *times], [draw(*shape)], lambda x: x.repeat(times))
        case("repeat", [len(times), *times], [ids(9, *shape)], lambda x: x.repeat(times))
    for axis, at, source in ((0, (4, 3), (4, 3)), (1, (2, 5), (2, 5)), (1, (1, 2), (1, 2)), (0, (0, 3), (0, 3))):
        case("scatter_add", [axis], [draw(2, 3), ids((2, 3)[axis], *at), draw(*source)],
             lambda x, i, s: torch.scatter_add(x, axis, i, s))
    case("scatter_add", [1], [draw(2, 3, 2), ids(3, 2, 4, 2), draw(2, 4, 2)], lambda x, i, s: torch.scatter_add(x, 1, i, s))
    for axis, shape in ((0, (2, 3)), (1, (2, 3)), (1, (2, 3, 2)), (0, (3,))):
        source = list(shape)
        source[axis] = 4
        case("index_add", [axis], [draw(*shape), ids(shape[axis], 4), draw(*source)],
             lambda x, i, s: torch.index_add(x, axis, i, s))
    for values in (ids(99, 2, 4) - 50, ids(2, 2, 4).bool()):
        case("gather", [1], [values, ids(4, 2, 3)], lambda x, i: torch.gather(x, 1, i))
        case("index_select", [1], [values, ids(4, 5)], lambda x, i: torch.index_select(x, 1, i))
        case("where", [], [ids(2, 2, 4).bool(), values, values[:1]], torch.where)
        case("where", [], [ids(2, 4).bool(), values, values[:, :1]], torch.where)
        case("cat", [], [values, values[:, :1]], lambda a, b: torch.cat([a, b], 1))
    case("masked_fill", [7.0], [ids(99, 2, 4) - 50, ids(2, 4).bool()], lambda x, m: x.masked_fill(m, 7))
    case("layer_norm", [], [draw(2, 3, 5)], lambda x: F.layer_norm(x, (5,)))
    case("layer_norm_weight", [], [draw(2, 3, 5), draw(5)], lambda x, w: F.layer_norm(x, (5,), w))
    case("layer_norm_bias", [], [draw(2, 3, 5), draw(5)], lambda x, b: F.layer_norm(x, (5,), None, b))


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "more_ops.txt"), "w") as out:
        def case(name, options, inputs, function, constants=()):
            golden_file.write(out, name, options, inputs, function, constants)
        for family in (binary, reductions, orders, movements):
            family(case)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Goldens of the ops at the edges of their domains, by torch 2.13.0: NaN, infinities, both zeros, denormals, numbers
near the largest, ties, kinks and empty tensors. Writes values.txt beside itself.

The format is that of ops.txt (make_ops.py). A case's line ends with two more words: the dtype in which torch computed it and for
which the case is, and the tolerance of the results (EXACT, COARSE; else "close"). For accurate_cases torch computes in
double from float values. A result without gradient has no cotangent. Floats are written in decimal or
in hexadecimal, whichever is shorter.

One case is left out, because torch's result depends on its code path: the order of equal values in topk.
"""
import itertools
import os
import re

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
NAN, INF = float("nan"), float("inf")

# Results that are copies, or one rounding: bit for bit, the signs of zeros included.
EXACT = {"add", "sub", "mul", "div", "maximum", "minimum", "maximum_detached", "minimum_detached", "add_scalar",
         "mul_scalar", "neg", "sqrt", "relu", "abs", "clamp", "eq", "ne", "lt", "le",
         "gt", "ge", "where", "masked_fill", "mask_out", "tril", "triu", "max", "max_all", "max_outer", "argmax",
         "max_none", "topk", "embedding", "index_select", "gather", "one_hot"}
# Formulas that subtract from a number near 1: right to some roundings of 1.
COARSE = {"tanh", "gelu", "gelu_tanh", "silu", "softmax", "softmax_last", "log_softmax", "cross_entropy",
          "cross_entropy_none", "smooth_none", "layer_norm"}

NAMES = {torch.float64: "f64", torch.float32: "f32", torch.int64: "i32", torch.bool: "u8"}


def cases(dtype):
    f32 = dtype == torch.float32
    tiny, small, large = (1e-40, 2e-38, 1.5e38) if f32 else (1e-310, 3e-308, 8e307)

    def real(*values):
        return torch.tensor(values, dtype=dtype)

    def none(*shape):
        return torch.zeros(shape, dtype=dtype)

    def mask(*values):
        return torch.tensor(values, dtype=torch.bool)

    def ids(*values):
        return torch.tensor(values, dtype=torch.int64)

    def pairs(left, right):
        return [real(*column) for column in zip(*itertools.product(left, right))]

    special = [NAN, INF, -INF, -0.0, 0.0, tiny, -tiny, small, large, -large]
    ordinary = [1.0, -1.0, 0.5, -0.75, 3.0, -3.0, 20.0, -20.0]
    edges = real(*special, *ordinary)
    both = pairs([NAN, INF, -INF, -0.0, 0.0, tiny, large, -3.0], [NAN, INF, -INF, -0.0, 0.0, tiny, large, 1.5])

    yield "add", both, torch.add
    yield "sub", both, torch.sub
    yield "mul", both, torch.mul
    yield "div", both, torch.div
    yield "pow", pairs([NAN, INF, -INF, -0.0, 0.0, 1.0, -1.0, 0.5, -2.0, large],
                       [NAN, INF, -INF, 0.0, -0.0, 1.0, 2.0, 3.0, -1.0, 0.5, -0.5, 1.5]), torch.pow
    yield "maximum", both, torch.maximum
    yield "minimum", both, torch.minimum
    yield "add_scalar 1.5", [edges], lambda x: x + 1.5
    yield "mul_scalar 1.5", [edges], lambda x: x * 1.5
    yield "div_scalar 1.5", [edges], lambda x: x / 1.5
    yield "pow_scalar 1.5", [edges], lambda x: x ** 1.5
    yield "pow_scalar 0.5", [edges], lambda x: x ** 0.5
    yield "pow_scalar -0.5", [edges], lambda x: x ** -0.5
    yield "pow_scalar 2", [edges], lambda x: x ** 2
    yield "pow_scalar -1", [edges], lambda x: x ** -1
    yield "pow_scalar 0", [edges], lambda x: x ** 0
    for name in ("neg", "exp", "log", "sqrt", "tanh", "sigmoid", "relu", "abs"):
        yield name, [edges], getattr(torch, name)
    yield "exp", [real(-87.0, -90.0, -103.0, -110.0, 88.0, 89.0, -708.0, -740.0, -746.0, 709.0, 710.0)], torch.exp
    yield "gelu", [edges], F.gelu
    yield "gelu_tanh", [edges], lambda x: F.gelu(x, approximate="tanh")
    yield "silu", [edges], F.silu
    yield "clamp -0.5 0.75", [torch.cat([edges, real(-0.5, 0.75)])], lambda x: torch.clamp(x, -0.5, 0.75)
    yield "clamp -inf 0.5", [edges], lambda x: torch.clamp(x, -INF, 0.5)
    yield "clamp 3 3", [edges], lambda x: torch.clamp(x, 3.0, 3.0)

    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        yield name, pairs([NAN, INF, -0.0, tiny, 1.5], [NAN, -INF, 0.0, -tiny, 1.5]), getattr(torch, name)
        yield name, [ids(2**31 - 1, 2**31 - 2, -(2**31)), ids(2**31 - 1, 2**31 - 1, 2**31 - 1)], getattr(torch, name)
    some = mask(True, False, True, False, True, False)
    odd = real(NAN, NAN, -0.0, INF, 1.0, tiny)
    yield "where", [some, odd, odd.flip(0)], torch.where
    yield "masked_fill", [odd, some], lambda x, m: x.masked_fill(m, -7.0)
    yield "mask_out", [odd, some], lambda x, m: x.masked_fill(m, -INF)
    square = real(-0.0, NAN, INF, NAN, -0.0, -INF, -INF, tiny, -0.0).reshape(3, 3)
    yield "tril", [square], lambda x: torch.tril(x, 1), square.flip(1)
    yield "triu", [square], lambda x: torch.triu(x, -1), square.flip(1)
    yield "triu", [torch.stack([square, square.T])], lambda x: torch.triu(x, -1)

    rows = real(NAN, 1.0, 2.0, 5.0, 5.0, 5.0, INF, INF, 1.0, -INF, -INF, -INF, -0.0, 0.0, -1.0, -INF, 3.0, 3.0,
                1.0, NAN, 2.0)
    rows = rows.reshape(7, 3)
    yield "max", [rows], lambda x: torch.amax(x, 1)
    yield "max_all", [rows[1:6]], lambda x: torch.amax(x)
    yield "max_outer", [rows[:6].T.reshape(3, 2, 3)], lambda x: torch.amax(x, (0, 2))
    yield "sum_none", [rows[2:6]], lambda x: x.sum(())
    yield "mean_none", [rows[2:6]], lambda x: x.mean(())
    yield "max_none", [rows[1:6]], lambda x: torch.amax(x, ())
    yield "var_none", [rows[2:3]], lambda x: torch.var(x, ())
    yield "sum_last", [rows], lambda x: x.sum(1)
    yield "mean_last", [rows], lambda x: x.mean(1)
    yield "var_last", [rows], lambda x: x.var(1)
    yield "var_biased", [rows], lambda x: x.var(1, correction=0)
    one = real(3.0, -0.5, NAN).reshape(3, 1)
    yield "sum_last", [one], lambda x: x.sum(1)
    yield "mean_last", [one], lambda x: x.mean(1)
    yield "max", [one], lambda x: torch.amax(x, 1)
    yield "var_last", [one], lambda x: x.var(1)
    yield "var_biased", [one], lambda x: x.var(1, correction=0)
    yield "max_all", [real(2.0).reshape(())], torch.amax
    yield "argmax", [torch.cat([rows, real(1.0, NAN, NAN, 2.0, 7.0, 7.0).reshape(2, 3)])], lambda x: torch.argmax(x, 1)
    yield "argmax", [one], lambda x: torch.argmax(x, 1)
    yield "topk", [real(1.0, NAN, INF, -INF, 0.5, 2.0, -INF, -1.0, 3.0, -2.0, NAN, 0.0).reshape(2, 6)], \
        lambda x: torch.topk(x, 3, 1).values

    scores = real(-INF, 0.0, 1.0, -INF, -INF, -INF, NAN, 0.0, 1.0, INF, 0.0, 1.0, 1e4, 1e4, 9990.0, -1e4, -1e4, 0.0,
                  large, large, 1.0, -large, -large, -large, tiny, 0.0, -0.0, 50.0, -60.0, 0.0).reshape(-1, 3)
    yield "softmax_last", [scores], lambda x: torch.softmax(x, 1)
    yield "softmax", [scores.T.reshape(1, 3, -1)], lambda x: torch.softmax(x, 1)
    yield "softmax_last", [one], lambda x: torch.softmax(x, 1)
    yield "log_softmax", [scores], lambda x: torch.log_softmax(x, -1)
    yield "log_softmax", [one], lambda x: torch.log_softmax(x, -1)
    third = ids(*[2] * scores.shape[0])
    first = ids(*[0] * scores.shape[0])
    for t in (first, third):
        yield "cross_entropy_none", [scores, t], lambda x, t: F.cross_entropy(x, t, reduction="none")
        yield "smooth_none", [scores, t], lambda x, t: F.cross_entropy(x, t, reduction="none", label_smoothing=0.25)
        yield "nll_none", [scores, t], lambda x, t: F.nll_loss(x, t, reduction="none")
    yield "cross_entropy", [scores[4:6], ids(-100, -100)], F.cross_entropy
    yield "cross_entropy", [scores[4:6], ids(-100, 1)], F.cross_entropy
    yield "cross_entropy", [real(3.0, -1e4).reshape(2, 1), ids(0, 0)], F.cross_entropy
    yield "nll_loss", [scores[4:6], ids(-100, -100)], F.nll_loss
    yield "mse_loss", both, F.mse_loss
    yield "mse_none", both, lambda a, b: F.mse_loss(a, b, reduction="none")

    constant = real(*[0.0] * 4, *[-0.0] * 4, *[1024.0] * 4, *[tiny] * 4, 1.0, NAN, 2.0, 3.0, INF, 1.0, 2.0, 3.0)
    constant = constant.reshape(6, 4)
    weight, bias = real(1.0, -2.0, 0.5, 0.0), real(0.25, 0.0, -1.0, 3.0)
    yield "layer_norm", [constant[:4], weight, bias], lambda x, w, b: F.layer_norm(x, (4,), w, b, 1e-5)
    yield "layer_norm", [constant[4:], weight, bias], lambda x, w, b: F.layer_norm(x, (4,), w, b, 1e-5)
    yield "layer_norm", [one[:2], real(2.0), real(0.5)], lambda x, w, b: F.layer_norm(x, (1,), w, b, 1e-5)
    yield "rms_norm", [constant[:4], weight], lambda x, w: F.rms_norm(x, (4,), w, 1e-5)
    yield "embedding", [square, ids(2, 0, 0)], lambda w, i: F.embedding(i, w)
    yield "index_select", [square.reshape(1, 3, 3), ids(2, 0, 2)], lambda x, i: torch.index_select(x, 1, i)
    yield "gather", [square, ids([2, 0], [1, 1])], lambda x, i: torch.gather(x, 1, i)

    for name in ("neg", "exp", "log", "sqrt", "tanh", "sigmoid", "relu", "abs"):
        yield name, [none(2, 0)], getattr(torch, name)
    yield "gelu", [none(0, 3)], F.gelu
    yield "gelu_tanh", [none(0)], lambda x: F.gelu(x, approximate="tanh")
    yield "silu", [none(0)], F.silu
    yield "clamp -0.5 0.75", [none(0)], lambda x: torch.clamp(x, -0.5, 0.75)
    for name in ("add", "sub", "mul", "div", "pow", "maximum", "minimum"):
        yield name, [none(0, 3), real(1.0, 2.0, 3.0)], getattr(torch, name)
        yield name, [real(1.0), none(2, 0)], getattr(torch, name)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        yield name, [none(0, 3), real(1.0, 2.0, 3.0)], getattr(torch, name)
    yield "add_scalar 1.5", [none(0)], lambda x: x + 1.5
    yield "where", [mask(True), none(0), real(2.0)], torch.where
    yield "masked_fill", [none(3, 0), mask([True], [False], [True])], lambda x, m: x.masked_fill(m, -7.0)
    for shape in ((0, 3), (3, 0), (0, 2, 3)):
        yield "tril", [none(*shape)], lambda x: torch.tril(x, 1)
        yield "triu", [none(*shape)], lambda x: torch.triu(x, -1)
        yield "softmax_last", [none(*shape)], lambda x: torch.softmax(x, -1)
        yield "log_softmax", [none(*shape)], lambda x: torch.log_softmax(x, -1)
        yield "sum_last", [none(*shape)], lambda x: x.sum(-1)
        yield "mean_last", [none(*shape)], lambda x: x.mean(-1)
        yield "var_last", [none(*shape)], lambda x: x.var(-1)
        yield "sum_all", [none(*shape)], lambda x: x.sum()
        yield "mean_all", [none(*shape)], lambda x: x.mean()
        yield "transpose 0 -1", [none(*shape)], lambda x: x.transpose(0, -1)
        yield "slice_pair", [none(*shape)], lambda x: x[..., 1:2]
    yield "softmax", [none(2, 0, 3)], lambda x: torch.softmax(x, 1)
    yield "sum", [none(0, 2, 3)], lambda x: x.sum((0, 2))
    yield "mean", [none(2, 0, 3)], lambda x: x.mean(1, keepdim=True)
    yield "max", [none(0, 3)], lambda x: torch.amax(x, 1)
    yield "argmax", [none(0, 3)], lambda x: torch.argmax(x, 1)
    yield "topk", [none(0, 4)], lambda x: torch.topk(x, 3, 1).values
    yield "topk_none", [real(1.0, 2.0).reshape(1, 2)], lambda x: torch.topk(x, 0, 1).values
    yield "reshape_none", [none(0, 4)], lambda x: x.reshape(2, 0, 3)
    yield "expand_none", [real(1.0, 2.0)], lambda x: x.expand(0, 2)
    yield "cat", [none(2, 0), real(1.0, 2.0).reshape(2, 1)], lambda a, b: torch.cat([a, b], 1)
    yield "cat", [none(0, 2), none(0, 3)], lambda a, b: torch.cat([a, b], 1)
    yield "stack", [none(0, 3), none(0, 3)], lambda a, b: torch.stack([a, b], 1)
    yield "gather", [none(2, 0), ids([], [])], lambda x, i: torch.gather(x, 1, i)
    yield "gather", [square, ids([], [], [])], lambda x, i: torch.gather(x, 1, i)
    yield "index_select", [none(2, 3), ids()], lambda x, i: torch.index_select(x, 1, i)
    yield "matmul", [none(2, 0), none(0, 3)], torch.matmul
    yield "matmul", [none(0, 3), real(1.0, 2.0, 3.0)], torch.matmul
    yield "matmul", [none(0, 2, 3), none(3, 4)], torch.matmul
    yield "matmul", [none(4, 2, 0), none(0, 3)], torch.matmul
    yield "matmul", [none(0), none(0)], torch.matmul
    yield "linear_map_bias", [none(0, 2), real(1.0, 2.0).reshape(1, 2), real(3.0)], F.linear
    yield "embedding", [square, ids()], lambda w, i: F.embedding(i, w)
    yield "embedding", [none(0, 3), ids([], [])], lambda w, i: F.embedding(i, w)
    yield "embedding", [none(3, 0), ids(1, 2)], lambda w, i: F.embedding(i, w)
    for shape in ((0, 2), (2, 0)):
        no_ids = torch.zeros(shape, dtype=torch.int64)
        yield "embedding_by_frequency", [square, no_ids], lambda w, i: F.embedding(i, w, scale_grad_by_freq=True)
    yield "bag_mean", [square, torch.zeros((0, 2), dtype=torch.int64)], lambda w, i: F.embedding_bag(i, w, mode="mean")
    yield "bag_max", [square, torch.zeros((0, 2), dtype=torch.int64)], lambda w, i: F.embedding_bag(i, w, mode="max")
    yield "bag_offsets", [square, ids(), ids(0, 0)], lambda w, i, o: F.embedding_bag(i, w, o, mode="mean")
    yield "attention", [none(0, 2, 3), none(0, 2, 3), none(0, 2, 3)], \
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    yield "attention_elementary", [none(0, 2, 3), none(0, 2, 3), none(0, 2, 3)], \
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    yield "permute", [none(2, 0, 3)], lambda x: x.permute(2, 0, 1)
    yield "select 1 -1", [none(0, 2, 3)], lambda x: x.select(1, -1)
    yield "layer_norm", [none(0, 4), weight, bias], lambda x, w, b: F.layer_norm(x, (4,), w, b, 1e-5)
    yield "rms_norm", [none(0, 4), weight], lambda x, w: F.rms_norm(x, (4,), w, 1e-5)
    yield "cross_entropy", [none(0, 3), ids()], F.cross_entropy
    yield "cross_entropy_none", [none(0, 3), ids()], lambda x, t: F.cross_entropy(x, t, reduction="none")
    yield "nll_loss", [none(0, 3), ids()], F.nll_loss
    yield "mse_loss", [none(0, 3), none(0, 3)], F.mse_loss
    yield "mse_none", [none(0, 3), none(0, 3)], lambda a, b: F.mse_loss(a, b, reduction="none")
    yield "one_hot", [ids()], lambda i: F.one_hot(i, 5).to(dtype)
    yield "one_hot", [ids([4], [0])], lambda i: F.one_hot(i, 5).to(dtype)


def accurate_cases():
    def real(*values):
        return torch.tensor(values, dtype=torch.float32).double()

    yield "sum_last", [real(3e38, 1e38, -3e38).reshape(1, 3)], lambda x: x.sum(1)
    yield "sum_last", [real(1e8, 1.0, -1e8, 0.25).reshape(1, 4)], lambda x: x.sum(1)
    yield "mean_last", [torch.arange(300).float().mul(0.1).add(1e4).double().reshape(1, 300)], lambda x: x.mean(1)
    yield "var_last", [real(1e4, 10001.0, 10002.0).reshape(1, 3)], lambda x: x.var(1)
    large = real(10000.0, 9999.5, 9998.25, 9990.0, -1e4, -10001.0, -1e4, -10003.5, 12345.0, 12345.0, 12345.0, 12344.5)
    large = torch.cat([large.reshape(3, 4), real(30.0, -30.0, 15.0, 0.0, 0.5, 0.25, 1.0, 2.0).reshape(2, 4)])
    targets = torch.tensor([1, 3, 0, 1, 2])
    yield "softmax_last", [large], lambda x: torch.softmax(x, 1)
    yield "log_softmax", [large[:3]], lambda x: torch.log_softmax(x, -1)
    yield "cross_entropy", [large, targets], F.cross_entropy
    yield "cross_entropy_none", [large, targets], lambda x, t: F.cross_entropy(x, t, reduction="none")
    yield "cross_entropy", [torch.arange(200).remainder(97).float().mul(0.37).add(1e4).double().reshape(2, 100),
                            torch.tensor([7, 99])], F.cross_entropy
    rows = real(1000000.1, 1000001.0, 1000002.5, 1e-3, -1e-3, 2e-3).reshape(2, 3)
    yield "layer_norm", [rows, real(1.0, -2.0, 0.5), real(0.25, 0.0, -1.0)], \
        lambda x, w, b: F.layer_norm(x, (3,), w, b, 1e-5)


def line(x, dtype, out):
    values = [min(repr(float(v)), re.sub(r"\.?0*p", "p", float(v).hex()), key=len) for v in x.flatten().tolist()]
    print(NAMES[dtype if x.is_floating_point() else x.dtype], x.dim(), *x.shape, *values, file=out)


def rule(name):
    return "exact" if name in EXACT else "coarse" if name in COARSE else "close"


def write(name, inputs, function, seed, dtype, out):
    inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    y = function(*inputs)
    name, *options = name.split()
    print("op", name, len(inputs), *options, NAMES[dtype], rule(name), file=out)
    results = [y]
    if y.requires_grad:
        if seed is None:
            seed = torch.arange(1, y.numel() + 1, dtype=y.dtype).remainder(7).sub(2.5).mul(0.5).reshape(y.shape)
        y.backward(seed)
        results = [seed, y] + [x.grad for x in inputs if x.requires_grad]
    for x in inputs + results:
        line(x.detach(), dtype, out)


def main():
    with open(os.path.join(HERE, "values.txt"), "w") as out:
        for dtype in (torch.float64, torch.float32):
            for name, inputs, function, *seed in cases(dtype):
                write(name, inputs, function, seed[0] if seed else None, dtype, out)
        for name, inputs, function in accurate_cases():
            write(name, inputs, function, None, torch.float32, out)


if __name__ == "__main__":
    main()

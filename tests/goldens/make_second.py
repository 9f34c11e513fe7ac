#!/usr/bin/env python3
"""Goldens of gradients of gradients, by torch 2.13.0 in double. Writes second.txt beside itself.

A case is a line "steps ORDERS INPUTS STEPS...". A step is a call and its operands: "sum:1:0 0" has the options 1 and 0,
and the operand 0. Operands are the inputs, and after them the results of earlier steps; "-" is an operand left out.
Then come lines of tensors: the inputs; a gradient dy of the last result; the gradient of each input (c64: a float
without one). For each higher order come factors, one tensor for each gradient of the order before, and the gradients of
the sum of gradients times factors with respect to each input and to dy. A tensor: DTYPE RANK SIZES... VALUES...
Values have 12 digits. Inputs, dy and factors are floats, so that a computation in float begins with the same numbers.
"""
import math
import os

import torch
import torch.nn.functional as F

import golden_file

torch.set_default_dtype(torch.float64)
REDUCTIONS = ["mean", "sum", "none", "batchmean"]
ORDER = [True, False]  # descending: largest first, smallest first


def axes(x, axis):
    """A number for a list of axes: 9 is all of them, 8 the first and the last."""
    return {9: list(range(x.dim())), 8: [0, -1]}.get(axis, axis)


def over(function):
    return lambda x, axis, keep: function(x, axes(x, axis), bool(keep))


def attention(q, k, v, bias, mask, causal, grouped, scale, elementary, window=0, first=None):
    if grouped:
        k, v = [x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v)]
    scores = q @ k.transpose(-1, -2) * (scale if scale >= 0 else q.shape[-1] ** -0.5)
    scores = scores if bias is None else scores + bias
    hidden = torch.zeros(scores.shape[-2:], dtype=torch.bool)
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1 + scores.shape[-1] - scores.shape[-2])
    if window:
        hidden = hidden | torch.ones_like(hidden).tril(scores.shape[-1] - scores.shape[-2] - window)
    if first is not None:
        before = torch.arange(scores.shape[-1]) < first[..., None]
        hidden = hidden | (before if first.dim() == 1 else before.reshape(
            len(first), *[1] * (scores.dim() - 3), *before.shape[1:]))
    if mask is not None and mask.dtype == torch.int64:
        mask = torch.arange(scores.shape[-1]) < mask[:, None]
    if mask is not None:
        hidden = hidden | ~mask.view(mask.shape[0], *[1] * (scores.dim() - 2), mask.shape[1])
    hidden = hidden.expand(scores.shape)
    weights = scores.masked_fill(hidden.all(-1, True), 0).masked_fill(hidden & ~hidden.all(-1, True), -math.inf)
    return torch.softmax(weights, -1).masked_fill(hidden.all(-1, True), 0) @ v


def rotary(x, start, neighbors, positions=None):
    width = x.shape[-1]
    if width % 2:
        raise ValueError("an odd width")
    positions = torch.arange(x.shape[-2]) if positions is None else positions
    angles = (start + positions)[..., None] * 10000 ** (-torch.arange(0, width, 2) / width)
    angles = angles if angles.dim() < 3 else angles.reshape(len(angles), *[1] * (x.dim() - 3), *angles.shape[1:])
    a, b = (x[..., 0::2], x[..., 1::2]) if neighbors else x.chunk(2, -1)
    pair = [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()]
    return torch.stack(pair, -1).flatten(-2) if neighbors else torch.cat(pair, -1)


def classes(function):
    def call(x, targets, weight, ignored, reduction, *smoothing):
        options = {"label_smoothing": smoothing[0]} if smoothing else {}
        y = function(x.reshape(-1, x.shape[-1]), targets.reshape(-1), weight, ignore_index=ignored,
                     reduction=REDUCTIONS[reduction], **options)
        return y.reshape(targets.shape) if reduction == 2 else y
    return call


def embedding(ids, table, padding, by_frequency):
    y = F.embedding(ids, table)
    if padding >= 0:
        y = torch.where((ids == padding)[..., None], y.detach(), y)
    if by_frequency:
        share = 1 / torch.bincount(ids.flatten(), minlength=len(table))[ids][..., None]
        y = (y * share) + (y * (1 - share)).detach()
    return y


def layer_norm(x, weight, bias):
    """torch's own has no second derivative without a weight."""
    y = (x - x.mean(-1, True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    return y * (1 if weight is None else weight) + (0 if bias is None else bias)


def dropout(x, p):
    torch.manual_seed(5)
    return F.dropout(x, p)


CALLS = {
    "remainder": torch.remainder, "clamp_tensor": torch.clamp, "clamp": torch.clamp, "pow_scalar": torch.pow,
    "add_scalar": torch.add, "mul_scalar": torch.mul, "div_scalar": torch.div, "where": torch.where,
    "masked_fill": torch.masked_fill, "leaky_relu": F.leaky_relu, "elu": F.elu, "gelu": F.gelu, "silu": F.silu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "softplus": F.softplus, "log_sigmoid": F.logsigmoid,
    "dropout": dropout, "cast_back": lambda x: x.float().double(),
    "sum": over(torch.sum), "mean": over(torch.mean), "amax": over(torch.amax), "amin": over(torch.amin),
    "logsumexp": over(torch.logsumexp),
    "var": lambda x, axis, keep, c: torch.var(x, axes(x, axis), correction=c, keepdim=bool(keep)),
    "std": lambda x, axis, keep, c: torch.std(x, axes(x, axis), correction=c, keepdim=bool(keep)),
    "norm": lambda x, axis, keep, p: torch.linalg.vector_norm(x, p, axes(x, axis), bool(keep)),
    "topk": lambda x, k, axis, order: x.sort(stable=True, dim=axis, descending=ORDER[order]).values.narrow(axis, 0, k),
    "sort": lambda x, axis, order: x.sort(stable=True, dim=axis, descending=ORDER[order]).values,
    "reshape": lambda x, *sizes: x.reshape(sizes), "permute": lambda x, *order: x.permute(order),
    "slice": lambda x, axis, begin, end, step: x[(slice(None),) * axis + (slice(begin, end, step),)],
    "flip": lambda x, axis: x.flip(axes(x, axis)), "repeat": lambda x, *times: x.repeat(times),
    "expand": lambda x, *sizes: x.expand(sizes), "contiguous": torch.clone,
    "cat2": lambda a, b, axis: torch.cat([a, b], axis), "cat3": lambda a, b, c, axis: torch.cat([a, b, c], axis),
    "stack2": lambda a, b, axis: torch.stack([a, b], axis),
    "gather": lambda x, ids, axis: x.gather(axis, ids),
    "index_select": lambda x, ids, axis: x.index_select(axis, ids),
    "scatter_add": lambda x, ids, source, axis: x.scatter_add(axis, ids, source[tuple(map(slice, ids.shape))]),
    "index_add": lambda x, ids, source, axis: x.index_add(axis, ids, source),
    "embedding": embedding, "linear": F.linear,
    "layer_norm": layer_norm,
    "rms_norm": lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-5), "rotary": rotary,
    "rotary_at": lambda x, positions, start, neighbors: rotary(x, start, neighbors, positions), "attention": attention,
    "near": lambda q, k, v, first, causal, window, elementary: attention(
        q, k, v, None, None, causal, 0, -1.0, elementary, window, first),
    "cross_entropy": classes(F.cross_entropy), "nll_loss": classes(F.nll_loss),
    "mse_loss": lambda a, b, r: F.mse_loss(a, b, reduction=REDUCTIONS[r]),
    "binary": lambda x, y, w, p, r: F.binary_cross_entropy_with_logits(x, y, w, pos_weight=p,
                                                                       reduction=REDUCTIONS[r]),
}


def run(steps, values):
    """Returns the result of the last step."""
    values, words = list(values), steps.split()
    while words:
        name, *options = words.pop(0).split(":")
        operands = []
        while words and not words[0][0].isalpha():
            word = words.pop(0)
            operands.append(None if word == "-" else values[int(word)])
        options = [float(o) if not o.lstrip("-").isdigit() else int(o) for o in options]
        values.append(CALLS.get(name, getattr(torch, name, None))(*operands, *options))
    return values[-1]


def factors_of(x):
    """Random numbers with few digits."""
    return torch.randint(-12, 13, x.shape).add(0.5).div(4)


def gradients(orders, steps, inputs):
    """Returns the tensors of a case behind its inputs, in their order."""
    values = [x.double() if x.is_floating_point() else x for x in inputs]
    leaves = [v.requires_grad_() for x, v in zip(inputs, values) if x.dtype == torch.float64]
    y = run(steps, values)
    dy = factors_of(y).requires_grad_()
    outputs, factors, tensors = [y], [dy], [dy]
    for order in range(orders):
        used = [i for i, x in enumerate(outputs) if x.requires_grad]
        found = torch.autograd.grad([outputs[i] for i in used], leaves, [factors[i] for i in used], create_graph=True,
                                    allow_unused=True) if used else [None] * len(leaves)
        outputs = [torch.zeros_like(x) + (0 if g is None else g) for g, x in zip(found, leaves)]
        leaves = leaves if order else leaves + [dy]
        factors = [factors_of(x) for x in outputs] if order + 1 < orders else []
        tensors += outputs + factors
    return tensors


def write(out, orders, steps, inputs):
    print("steps", orders, len(inputs), steps, file=out)
    names = {**golden_file.NAMES, torch.float32: "c64"}
    for x in inputs + [x.detach() for x in gradients(orders, steps, [x.clone() for x in inputs])]:
        print(names[x.dtype], x.dim(), *x.shape, *[f"{v:.12g}" for v in x.flatten().tolist()], file=out)


# ---- inputs ----


def real(*shape):
    return torch.randn(shape).mul(64).round().add(0.5).div(64)


def positive(*shape):
    return real(*shape).abs() + 0.25


def distinct(*shape):
    count = math.prod(shape)
    return torch.randperm(count).sub(count // 2).mul(0.25).add(0.0625).reshape(shape)


def constant(*shape):
    return positive(*shape).float()


def ids(high, *shape):
    return torch.randint(0, high, shape)


def mask(*shape):
    return torch.arange(math.prod(shape)).remainder(3).eq(1).reshape(shape)


TIES = torch.tensor([[1.0, 3.0, 3.0, -2.0], [0.5, 0.5, 0.5, 0.5], [4.0, 0.0, -1.0, 0.0]])
KINKS = torch.tensor([-2.5, -1.0, -0.5, 0.0, 0.5, 0.75, 1.0, 2.5])


def cases_of_values():
    """Calls that work value by value."""
    for name in "neg exp sin cos abs sign round floor tanh sigmoid relu gelu gelu_tanh silu log_sigmoid".split():
        yield name + " 0", [real(2, 3)]
        yield name + " 0", [KINKS.clone()]
        yield f"transpose:0:1 0 {name} 1 mul 2 1", [real(2, 3)]
    for name in ["log", "sqrt"]:
        yield name + " 0", [positive(2, 3)]
        yield f"expand:2:3 0 {name} 1", [positive(1, 3)]
    for name in ["leaky_relu:0.25", "leaky_relu:-0.5", "elu:1.0", "elu:0.5", "softplus:1.0:20.0", "softplus:2.0:1.25",
                 "clamp:-0.5:0.75", "add_scalar:1.5", "mul_scalar:-1.5", "div_scalar:1.5", "pow_scalar:2.0",
                 "pow_scalar:3.0", "pow_scalar:1.0", "pow_scalar:0.0", "cast_back", "dropout:0.25"]:
        yield name + " 0", [KINKS.clone()]
        yield f"permute:1:0 0 {name} 1 mul 2 2", [real(2, 3)]
    for power in ["0.5", "-0.5", "-2.0", "-1.0", "1.5", "2.5", "4.0"]:
        yield f"pow_scalar:{power} 0", [positive(2, 3)]
    for name in ["add", "sub", "mul", "div", "maximum", "minimum", "remainder", "pow"]:
        first, second = (positive if name == "pow" else distinct), (real if name == "pow" else positive)
        yield name + " 0 1", [first(2, 3), second(2, 3)]
        yield name + " 0 1", [first(2, 3), second(3)]
        yield name + " 0 1", [first(2, 1), second(1, 3)]
        yield name + " 0 1", [first(), second(2, 2)]
        yield name + " 0 1", [first(2, 2, 2), second(2, 1)]
        yield f"{name} 0 0", [positive(4)]
        yield f"transpose:0:1 0 {name} 2 1", [first(2, 3), second(3, 1)]
    for name in ["maximum", "minimum"]:
        yield name + " 0 1", [TIES.clone(), TIES.flip(0).clone()]
    for operands in ["0 1 2", "0 1 -", "0 - 1"]:
        count = 3 - operands.count("-")
        yield "clamp_tensor " + operands, [KINKS.clone(), torch.full((8,), -0.5), torch.full((8,), 0.75)][:count]
        yield "clamp_tensor " + operands, [real(3, 2), -positive(2), positive(3, 1)][:count]
    yield "where 0 1 2", [mask(2, 3), real(2, 3), real(2, 3)]
    yield "where 0 1 2", [mask(3), real(2, 1), real(1)]
    yield "where 0 1 1", [mask(2, 3), real(2, 3)]
    yield "masked_fill:-7.0 0 1", [real(2, 3), mask(3)]
    yield "mul 0 0 masked_fill:2.0 2 1", [real(2, 3), mask(2, 1)]
    for name in ["tril:0", "tril:-1", "triu:1", "triu:-1"]:
        yield name + " 0", [real(2, 3, 2)]
        yield f"mul 0 0 {name} 1", [real(3, 3)]


def cases_of_reductions():
    for axis in ["9:0", "8:1", "1:0", "-1:1", "0:0"]:
        for name in ["sum", "mean", "amax", "amin", "logsumexp"]:
            yield f"{name}:{axis} 0", [distinct(2, 3, 2)]
        for name in ["var", "std"]:
            yield f"{name}:{axis}:1 0", [real(2, 3, 2)]
        for power in ["1.0", "2.0", "2.5", "inf"]:
            yield f"norm:{axis}:{power} 0", [distinct(2, 3, 2)]
    for name in ["sum", "mean", "logsumexp"]:
        yield f"transpose:0:1 0 {name}:0:1 1 mul 2 2", [real(2, 3)]
        yield f"{name}:0:0 0", [real()]
    for name in ["amax", "amin"]:
        yield f"{name}:1:0 0", [TIES.clone()]
        yield f"{name}:9:0 0", [TIES.clone()]
    yield "var:1:0:0 0", [real(2, 4)]
    yield "std:0:1:0 0", [real(3, 2)]
    yield "norm:1:0:inf 0", [TIES.clone()]
    for axis in ["0", "1", "-1"]:
        yield f"cumsum:{axis} 0", [real(3, 4)]
        yield f"sort:{axis}:0 0 mul 1 1", [distinct(3, 2)]
        yield f"sort:{axis}:1 0", [distinct(2, 2, 2)]
        yield f"topk:2:{axis}:0 0", [distinct(3, 3)]
        yield f"topk:1:{axis}:1 0 mul 1 1", [distinct(2, 3)]
    yield "transpose:0:1 0 cumsum:0 1 mul 2 1", [real(2, 3)]
    yield "sort:1:1 0", [TIES.clone()]


def cases_of_shapes():
    for name in ["reshape:3:4", "reshape:-1", "transpose:0:2", "permute:2:0:1", "slice:1:0:3:2", "slice:0:1:2:1",
                 "flip:1", "flip:9", "select:1:-1", "select:0:1", "unsqueeze:1", "contiguous", "repeat:2:1:1",
                 "repeat:2:1:2:1"]:
        yield f"{name} 0", [real(2, 3, 2)]
        yield f"mul 0 0 {name} 1 mul 2 2", [real(2, 3, 2)]
    yield "transpose:0:1 0 reshape:6 1 mul 2 2", [real(2, 3)]
    yield "transpose:0:1 0 contiguous 1 mul 2 2", [real(2, 3)]
    yield "expand:2:3:4 0 mul 1 1", [real(3, 1)]
    yield "expand:2:-1:2 0", [real(2, 1, 2)]
    yield "squeeze:1 0 mul 1 1", [real(2, 1, 3)]
    for axis in "01":
        yield f"cat2:{axis} 0 1", [real(2, 3), real(2, 3)]
        yield f"mul 0 1 cat3:{axis} 0 2 0", [real(2, 2), real(2)]
        yield f"stack2:{axis} 0 1", [real(2, 3), real(2, 3)]
        yield f"stack2:{axis} 0 0 mul 1 1", [real(2, 3)]
        yield f"gather:{axis} 0 1", [real(3, 3), ids(3, 2, 3)]
        yield f"mul 0 0 gather:{axis} 2 1", [real(3, 2), ids(2, 3, 2)]
        yield f"index_select:{axis} 0 1", [real(3, 3), ids(3, 4)]
        yield f"mul 0 0 index_select:{axis} 2 1", [real(3, 2), ids(2, 3)]
        yield f"scatter_add:{axis} 0 1 2", [real(3, 3), ids(3, 2, 3), real(2, 3)]
        yield f"mul 0 2 scatter_add:{axis} 3 1 2", [real(3, 3), ids(3, 2, 2), real(3, 3)]
        yield f"index_add:{axis} 0 1 2", [real(3, 3), ids(3, 3), real(3, 3)]
        yield f"mul 0 2 index_add:{axis} 3 1 3", [real(3, 3), ids(3, 3), real(3)]
    for options in ["-1:0", "2:0", "-1:1", "2:1"]:
        yield f"embedding:{options} 0 1", [torch.tensor([[4, 2, 4], [0, 2, 4]]), real(5, 2)]
        yield f"mul 1 1 embedding:{options} 0 2 mul 3 3", [torch.tensor([2, 1, 1]), real(3, 2)]


def cases_of_products():
    for a, b in [((2, 3), (3, 2)), ((2, 2, 3), (3, 2)), ((2, 3), (2, 3, 2)), ((2, 1, 2, 3), (2, 3, 2)), ((3,), (3,)),
                 ((3,), (2, 3, 2)), ((2, 2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3,))]:
        yield "matmul 0 1", [real(*a), real(*b)]
    yield "transpose:0:1 0 matmul 0 1", [real(2, 3)]
    yield "matmul 0 0 matmul 1 0", [real(2, 2)]
    yield "linear 0 1 2", [real(2, 3), real(2, 3), real(2)]
    yield "linear 0 1 -", [real(2, 3), real(2, 3)]
    yield "linear 0 1 2", [real(2, 2, 3), real(2, 3), real(2)]
    yield "linear 0 1 -", [real(3), real(2, 3)]
    yield "linear 0 0 -", [real(2, 3)]
    for name in ["softmax", "log_softmax"]:
        yield f"{name}:1 0", [real(2, 3)]
        yield f"{name}:0 0", [real(3, 2)]
        yield f"{name}:1 0", [real(2, 3, 2)]
        yield f"{name}:0 0", [real()]
        yield f"transpose:0:1 0 {name}:-1 1 mul 2 1", [real(2, 3)]
    for operands in ["0 1 2", "0 - 1", "0 1 -", "0 - -"]:
        count = 3 - operands.count("-")
        yield "layer_norm " + operands, [real(2, 4), real(4), real(4)][:count]
        yield f"mul 0 0 layer_norm {count}{operands[1:]}", [real(2, 2, 3), real(3), real(3)][:count]
    yield "rms_norm 0 1", [real(2, 4), real(4)]
    yield "rms_norm 0 1", [real(2, 2, 3), real(3)]
    yield "rms_norm 0 0", [real(3)]
    for options in ["0:0", "5:0", "0:1", "3:1"]:
        yield f"rotary:{options} 0", [real(2, 3, 4)]
        yield f"mul 0 0 rotary:{options} 1 mul 2 2", [real(2, 4)]


def cases_of_positions():
    """Behind all others, whose random numbers stay."""
    for options in ["0:0", "3:1"]:
        yield f"rotary_at:{options} 0 1", [real(2, 3, 4), torch.tensor([2, 0, 7])]
        yield f"mul 0 0 rotary_at:{options} 2 1 mul 3 3", [real(2, 2, 2, 4), torch.tensor([[0, 0], [4, 1]])]
    for path in "01":
        q, k, v = real(2, 3, 2), real(2, 4, 2), real(2, 4, 2)
        yield f"near:1:2:{path} 0 1 2 -", [q, k, v]
        yield f"near:0:0:{path} 0 1 2 3", [q, k, v, torch.tensor([2, 0, 4])]
        yield f"near:1:3:{path} 0 1 2 3", [q, k, v, torch.tensor([[2, 2, 2], [0, 1, 2]])]


def cases_of_attention():
    for path in "01":
        q, k, v, square = real(2, 3, 2), real(2, 4, 2), real(2, 4, 2), real(3, 2)
        yield f"attention:0:0:-1.0:{path} 0 1 2 - -", [q, k, v]
        yield f"attention:1:0:-1.0:{path} 0 1 2 - -", [q, k, v]
        yield f"attention:1:0:0.5:{path} 0 0 0 - -", [square]
        yield f"attention:0:0:0.5:{path} 0 1 2 3 -", [q, k, v, real(3, 4)]
        yield f"attention:1:0:-1.0:{path} 0 1 2 3 -", [q, k, v, real(2, 3, 4)]
        yield f"attention:0:0:-1.0:{path} 0 1 2 3 -", [q, k, v, real(3, 4).float()]
        yield f"attention:0:0:-1.0:{path} 0 1 2 - 3", [q, k, v, ~mask(2, 4)]
        yield f"attention:1:0:-1.0:{path} 0 1 2 - 3", [q, k, v, torch.tensor([3, 0])]
        yield f"attention:0:0:-1.0:{path} 0 1 2 3 4", [q, k, v, real(1, 3, 4), torch.tensor([1, 4])]
        yield f"attention:0:1:-1.0:{path} 0 1 2 - -", [real(4, 2, 2), real(2, 3, 2), real(2, 3, 2)]
        yield f"attention:1:1:0.7:{path} 0 1 1 - -", [real(1, 2, 2, 2), real(1, 1, 2, 2)]
        yield f"attention:0:0:-1.0:{path} 0 1 2 - -", [real(2, 1, 2, 2), real(2, 3, 2), real(3, 2)]
        yield f"attention:0:0:0.0:{path} 0 1 2 - -", [square, real(2, 2), real(2, 2)]


def cases_of_losses():
    targets = torch.tensor([[2, 0, -100], [1, 1, 2]])
    for reduction in "012":
        for name in ["cross_entropy:-100:R:0.0", "cross_entropy:1:R:0.0", "cross_entropy:-100:R:0.25",
                     "nll_loss:-100:R"]:
            name = name.replace("R", reduction)
            counted = targets if "-100" in name else targets.clamp(0)
            yield f"{name} 0 1 -", [real(2, 3, 3), counted]
            yield f"{name} 0 1 2", [real(2, 3, 3), counted, constant(3)]
        yield f"mul 0 0 cross_entropy:-100:{reduction}:0.0 2 1 -", [real(2, 3), torch.tensor([2, 0])]
        yield f"mse_loss:{reduction} 0 1", [real(2, 3), real(2, 3)]
        for name in ["- -", "2 -", "- 2", "2 3"]:
            factors = [constant(2, 3), constant(3)][:2 - name.count("-")]
            yield f"binary:{reduction} 0 1 {name}", [real(2, 3), torch.rand(2, 3).mul(64).round() / 64, *factors]
        yield f"binary:{reduction} 0 1 - -", [KINKS.clone(), torch.rand(8).mul(64).round().div(64).float()]


def cases_of_third_order():
    yield "tanh 0", [real(2, 3)]
    yield "exp 0", [real(3)]
    yield "softmax:1 0", [real(2, 3)]
    yield "matmul 0 1 matmul 3 2", [real(2, 2), real(2, 2), real(2, 2)]
    yield "layer_norm 0 1 2", [real(2, 3), real(3), real(3)]
    yield "logsumexp:1:0 0", [real(2, 3)]
    yield "gelu 0", [real(3)]
    yield "pow 0 1", [positive(3), real(3)]
    yield "attention:1:0:-1.0:0 0 1 2 - -", [real(2, 2), real(2, 2), real(2, 2)]


def main():
    torch.manual_seed(41)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "second.txt"), "w") as out:
        for part in [cases_of_values, cases_of_reductions, cases_of_shapes, cases_of_products, cases_of_attention,
                     cases_of_losses]:
            for steps, inputs in part():
                write(out, 2, steps, inputs)
        with torch.random.fork_rng():  # beside the random numbers of the others
            torch.manual_seed(43)
            third = list(cases_of_third_order())
        for steps, inputs in third:
            write(out, 3, steps, inputs)
        for steps, inputs in cases_of_positions():
            write(out, 2, steps, inputs)


if __name__ == "__main__":
    main()

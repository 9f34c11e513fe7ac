"""The golden files of calls with options (tests/ops/goldens.h): values and gradients by torch 2.13.0, in double.

A case: "op NAME INPUTS OPTIONS...", where the options are numbers, then one line per tensor: the inputs, the cotangent,
the result, and the gradient of each float input; without a gradient only the inputs and the result. A tensor: DTYPE RANK
SIZES... VALUES..., floats in decimal or in hexadecimal, whichever is shorter. All inputs are rounded to float first, so
that a computation in float begins with the same numbers.
"""
import re

import torch

NAMES = {torch.float64: "f64", torch.float32: "f32", torch.int64: "i32", torch.int32: "i32", torch.uint8: "u8",
         torch.bool: "u8"}


def text(value):
    return min(repr(float(value)), re.sub(r"\.?0*p", "p", float(value).hex()), key=len)


def line(x, out):
    print(NAMES[x.dtype], x.dim(), *x.shape, *[text(v) for v in x.flatten().tolist()], file=out)


def write(out, name, options, inputs, function, constants=()):
    """Writes a case. `constants` are the indices of float inputs that torch does not differentiate: their gradient is
    zero. Cotangents have few digits."""
    inputs = [x.float().double() if x.is_floating_point() else x for x in inputs]
    inputs = [x.clone().requires_grad_(x.is_floating_point() and i not in constants) for i, x in enumerate(inputs)]
    y = function(*inputs)
    print("op", name, len(inputs), *[text(o) for o in options], file=out)
    results = [y]
    if y.requires_grad:
        seed = torch.arange(1, y.numel() + 1, dtype=y.dtype).remainder(7).sub(2.5).mul(0.5).reshape(y.shape)
        y.backward(seed)
        results = [seed, y] + [torch.zeros_like(x) if x.grad is None else x.grad for x in inputs
                               if x.is_floating_point()]
    for x in inputs + results:
        line(x.detach(), out)

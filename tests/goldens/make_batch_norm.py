#!/usr/bin/env python3
"""Goldens of torch 2.13.0's BatchNorm1d in double: three batches in training, then one in evaluation. Writes
batch_norm.txt beside itself, one line per tensor: "CASE TENSOR VALUES..." The inputs are those of test_batch_norm.c:

    x       value i of batch s is ((7 i + 5 s + i^2) % 19) / 8 - 1
    weight  1 + c / 4 of channel c;  bias c / 2 - 1
    dy      (i % 5 - 2) / 2
"""
import os

import torch

torch.set_default_dtype(torch.float64)
CASES = {
    "rows": ((6, 3), dict()),
    "lines": ((4, 3, 5), dict(momentum=0.3, eps=1e-3)),
    "bare": ((5, 2), dict(affine=False)),
    "batch": ((5, 2), dict(track_running_stats=False)),
    "pair": ((1, 2, 2), dict(momentum=1.0)),
}


def batch(s, shape):
    i = torch.arange(torch.Size(shape).numel())
    return (((7 * i + 5 * s + i * i) % 19) / 8 - 1).reshape(shape).requires_grad_()


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "batch_norm.txt"), "w") as out:
        for name, (shape, options) in CASES.items():
            norm = torch.nn.BatchNorm1d(shape[1], **options)
            if norm.affine:
                channels = torch.arange(shape[1])
                norm.weight.data = 1 + channels / 4
                norm.bias.data = channels / 2 - 1
            for s in range(4):
                norm.train(s < 3)
                norm.zero_grad()
                x = batch(s, shape)
                y = norm(x)
                y.backward(((torch.arange(x.numel()) % 5 - 2) / 2).reshape(shape))
                tensors = {"y": y, "dx": x.grad}
                if norm.affine:
                    tensors |= {"dweight": norm.weight.grad, "dbias": norm.bias.grad}
                if norm.running_mean is not None:
                    tensors |= {"mean": norm.running_mean, "var": norm.running_var}
                for what, tensor in tensors.items():
                    print(f"{name}{s}", what, *[repr(v) for v in tensor.flatten().tolist()], file=out)


main()

#!/usr/bin/env python3
"""Goldens of draws into tensors that are not contiguous, by torch 2.13.0 on CPU. Writes memory_order.txt beside itself.

A case is one line: METHOD, the rank, the base's sizes, the step of a slice along its last axis, the size to which its
axis 1 is expanded (0: it is not), the permutation of its axes, and then the values of that view after the method, in the
row-major order of its shape. Each case begins with the seed 7. Dropout is applied to ones, with p = 0.3.
"""
import os

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
METHODS = {"uniform": lambda v: v.uniform_(-1, 2), "normal": lambda v: v.normal_(0.5, 2),
           "bernoulli": lambda v: v.bernoulli_(0.3), "randint": lambda v: v.random_(0, 100),
           "dropout": lambda v: F.dropout(v, 0.3)}
VIEWS = [((2, 3, 4), 1, 0, (2, 0, 1)), ((4, 5, 2), 1, 0, (1, 2, 0)), ((3, 2, 5), 1, 0, (0, 2, 1)),
         ((4, 10), 2, 0, (0, 1)), ((4, 10), 3, 0, (1, 0)), ((3, 1, 4), 1, 0, (2, 1, 0)), ((2, 3), 2, 0, (1, 0)),
         ((2, 1, 3, 4), 1, 0, (3, 1, 0, 2)), ((6, 1, 5), 1, 4, (2, 0, 1)), ((3, 1, 2), 1, 2, (1, 2, 0)),
         ((3, 1, 2), 1, 5, (0, 2, 1))]


def main():
    with open(os.path.join(HERE, "memory_order.txt"), "w") as out:
        for name, method in METHODS.items():
            for shape, step, expanded, permutation in VIEWS:
                if expanded and name != "dropout":  # torch fills no tensor that repeats values
                    continue
                view = torch.ones(shape)[..., ::step]
                if expanded:
                    sizes = list(shape)
                    sizes[1] = expanded
                    view = view.expand(sizes)
                torch.manual_seed(7)
                result = method(view.permute(permutation))
                values = [float(v).hex() for v in result.flatten().tolist()]
                print(name, len(shape), *shape, step, expanded, *permutation, *values, file=out)


if __name__ == "__main__":
    main()

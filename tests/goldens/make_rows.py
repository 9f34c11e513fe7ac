#!/usr/bin/env python3
"""Goldens of the rows of tests/rows that have an expression of PyTorch, by torch 2.13.0. Writes rows.txt beside itself
(golden_file.py).

    tests/goldens/make_rows.py PROGRAM       PROGRAM is tests/rows_list of a build

Each list of options is called with random inputs, with numbers at which functions of one or two values change, and with
NaN, infinities, both zeros and kinks. Ops that move values are called with floats and integers of the row's shapes.
"""
import itertools
import json
import math
import os
import subprocess
import sys
import warnings

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "bench"))
import golden_file
import torch_ops

warnings.simplefilter("ignore")
torch.manual_seed(22)
torch.set_default_dtype(torch.float64)
NAN, INF = math.nan, math.inf
SPECIAL = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5, -0.5]
EDGES = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, -2.5, 1.0, -1.0, 30.0, -30.0, 19.75, 100.0, -100.0]
PAIRS = [7.0, -7.0, 6.0, 0.0, 5.5, 2.0, -2.0, 3.0, 0.75]
SHAPES = {1: [((2, 3),), ((5,),), ((1,),), ((),), ((2, 1, 4),), ((0, 3),)],
          2: [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((4, 2, 3), (2, 1)), ((), (2,)), ((0, 3), (3,))]}


def draw(kind, shape):
    x = torch.randn(shape) * 2
    return {"real": x, "distinct": x, "positive": x.abs() + 0.2, "nonzero": x + 0.2 * x.sign()}[kind]


def every(values, count):
    return [torch.tensor(column) for column in zip(*itertools.product(values, repeat=count))]


def one_at_a_time(function):
    """Vectors of torch's CPU code treat a NaN differently from the code for what remains of a row, and from GPUs."""
    return lambda *x: torch.cat([function(*parts) for parts in zip(*[value.split(1) for value in x])])


def main():
    lines = subprocess.run([sys.argv[1]], capture_output=True, text=True, check=True).stdout.splitlines()
    with open(os.path.join(HERE, "rows.txt"), "w") as out:
        for row in map(json.loads, lines):
            count = len(row["inputs"])
            for options in (row["options"] or [""]) + row["edges"]:
                function = torch_ops.function_of(row["torch"], count, options)
                name, numbers = row["op"].removeprefix("tg_"), [float(number) for number in options.split()]
                if row["moves"]:
                    for shape in row["shapes"]:
                        sizes = [int(size) for size in shape.split(",") if size != "-"]
                        golden_file.write(out, name, numbers, [torch.randn(sizes)], function)
                        golden_file.write(out, name, numbers, [torch.randint(-9, 9, sizes)], function)
                    continue
                for shapes in SHAPES[count]:
                    inputs = [draw(kind, shape) for kind, shape in zip(row["inputs"], shapes)]
                    golden_file.write(out, name, numbers, inputs, function)
                golden_file.write(out, name, numbers, every(EDGES if count == 1 else PAIRS, count), function)
                golden_file.write(out, name, numbers, every(SPECIAL, count), one_at_a_time(function))


if __name__ == "__main__":
    main()

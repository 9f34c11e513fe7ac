#!/usr/bin/env python3
"""Goldens of tg_format: str(tensor) by torch 2.13.0. Writes print.txt beside itself.

A case: a line "case DTYPE RANK SIZES... COUNT VALUES...", values as hexadecimal floats, then the lines of the text, each with
a "|" in front.
"""
import os

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
INF, NAN = float("inf"), float("nan")


def cases():
    torch.manual_seed(7)
    f = torch.float32
    yield torch.tensor(0.95440, dtype=f)
    yield torch.tensor(3.0, dtype=f)
    yield torch.tensor(1e-7, dtype=f)
    yield torch.tensor(NAN, dtype=f)
    yield torch.tensor([], dtype=f)
    yield torch.empty(0, 3)
    yield torch.empty(2, 0, 4)
    yield torch.tensor([1.0, 2.0, -3.0])
    yield torch.tensor([1.0, 2.5, -0.0])
    yield torch.tensor([-0.0, 0.0])
    yield torch.tensor([INF, 1.0, -INF])
    yield torch.tensor([INF, 1.5, NAN])
    yield torch.tensor([NAN, NAN])
    yield torch.tensor([1e-5, 1.0, 2.0])
    yield torch.tensor([1e9, 1.0])
    yield torch.tensor([1e9, 1.5])
    yield torch.tensor([123456.789, 0.001])
    yield torch.tensor([1000.5, 1.0])
    yield torch.tensor([1001.0, 1.5, 0.5])
    yield torch.tensor([99999.96, 1.0])
    yield torch.tensor([0.9544, 0.2, -11.25])
    yield torch.tensor([[0.2899, -INF], [0.4656, 0.1723]])
    for shape in [(6, 3), (2, 3, 4), (2, 1, 2, 3), (1, 1, 1, 1, 2), (30,), (3, 25), (1000,), (1001,), (7, 150),
                  (1, 1, 1, 1, 1, 1, 2, 2)]:
        yield torch.randn(shape)
        yield torch.randn(shape, dtype=torch.float64) * 1e3
        yield torch.randint(-5, 60000, shape)
        yield torch.arange(torch.Size(shape).numel()).reshape(shape).float()
    yield torch.tensor([[40, 367], [2885, 1464]])
    yield torch.tensor([[1, 0], [0, 1]], dtype=torch.uint8)
    yield torch.tensor([], dtype=torch.int64)
    yield torch.tensor(7)


def main():
    names = {torch.float32: "f32", torch.float64: "f64", torch.int64: "i32", torch.uint8: "u8"}
    with open(os.path.join(HERE, "print.txt"), "w") as out:
        for x in cases():
            values = [float(v).hex() for v in x.flatten().tolist()]
            print("case", names[x.dtype], x.dim(), *x.shape, x.numel(), *values, file=out)
            text = x
            if x.dtype == torch.float64:
                torch.set_default_dtype(torch.float64)
            text = str(x).replace(", dtype=torch.uint8", "").replace(", dtype=torch.int64", "")
            torch.set_default_dtype(torch.float32)
            for line in text.split("\n"):
                print("|" + line, file=out)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Goldens of dropout: torch.nn.functional.dropout, torch 2.13.0 on CPU, which takes two outputs of the generator
per value (x86 wheels before 2.7 draw from MKL). Writes dropout.txt beside itself.

One line per call, all on one generator: DTYPE TRAINING P COUNT, the mask in hexadecimal (the first value in the lowest
bit), then the first values of the result and of the gradient. x[i] = (i mod 13 - 6.5) / 3, and the result's gradient is
(i mod 5 - 2.5) / 7. The last line is the generator's next output after all calls:
torch.empty((), dtype=torch.int64).random_().
"""
import os

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = [1, 7, 511, 512, 513, 5000]
SHOWN = 9


def texts(values):
    return [float(v).hex() for v in values[:SHOWN].tolist()]


def main():
    torch.manual_seed(123)
    with open(os.path.join(HERE, "dropout.txt"), "w") as out:
        calls = [(True, p, n) for p in (0.1, 0.5, 1 / 3, 0.999) for n in SIZES]
        calls += [(True, 0.0, 7), (True, 1.0, 513), (False, 0.5, 513), (True, 0.5, 0), (True, 0.25, 17)]
        calls += [(False, 1.0, 3)]
        for dtype in (torch.float32, torch.float64):
            for training, p, n in calls:
                x = ((torch.arange(n, dtype=dtype) % 13 - 6.5) / 3).requires_grad_()
                y = F.dropout(x, p, training)
                y.backward((torch.arange(n, dtype=dtype) % 5 - 2.5) / 7)
                mask = sum((v != 0) << i for i, v in enumerate(y.tolist()))
                name = "f32" if dtype == torch.float32 else "f64"
                print(name, int(training), p.hex(), n, f"{mask:x}", *texts(y.detach()), *texts(x.grad), file=out)
        print(torch.empty((), dtype=torch.int64).random_().item(), file=out)


if __name__ == "__main__":
    main()

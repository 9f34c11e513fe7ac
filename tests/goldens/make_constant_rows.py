#!/usr/bin/env python3
"""Goldens of normalizations, variances, softmax and norms of rows of equal values, of rows with a mean far from 0, and
of one value, by torch 2.13.0. Writes constant_rows.txt beside itself (golden_file.py)."""
import os

import torch
import torch.nn.functional as F

import golden_file

torch.set_default_dtype(torch.float64)


def weights_of(width):
    at = torch.arange(width)
    return 1 + at.remainder(5) / 4.0, at.remainder(3) / 2.0 - 0.5


def functions(case, x):
    width = x.shape[-1]
    weight, bias = weights_of(width)
    case("layer_norm", [], [x, weight, bias], lambda x, w, b: F.layer_norm(x, (width,), w, b, 1e-5))
    case("rms_norm", [], [x, weight], lambda x, w: F.rms_norm(x, (width,), w, 1e-5))
    case("softmax", [], [x], lambda x: torch.softmax(x, -1))
    case("log_softmax", [], [x], lambda x: torch.log_softmax(x, -1))
    case("logsumexp", [], [x], lambda x: torch.logsumexp(x, -1))
    case("cross_entropy", [], [x, torch.tensor([width // 2])], F.cross_entropy)
    case("norm", [], [x], lambda x: torch.linalg.vector_norm(x, 2, -1))
    case("cosine_similarity", [], [x, weight[None]], lambda a, b: F.cosine_similarity(a, b, -1, 1e-8))
    for correction in (0, 1) if width > 1 else (0,):
        case("var", [correction], [x], lambda x: torch.var(x, -1, correction=correction))
        case("std", [correction], [x], lambda x: torch.std(x, -1, correction=correction))


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "constant_rows.txt"), "w") as out:
        def case(*arguments):
            golden_file.write(out, *arguments)
        for width in (1, 55, 300):
            functions(case, torch.full((1, width), 100.3))
        for width in (55, 192):
            functions(case, 1e4 + (torch.arange(width) * 37).remainder(64).sub(32).div(64)[None])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Goldens of tg_rotary's options, by torch 2.13.0 and transformers 5.24.0, whose inverse frequencies the cases with
float angles have. Writes rotary.txt beside itself, as golden_file.py describes.

Options: start, neighbors, base, position_scale, ntk_factor, llama3_factor, low_frequency_factor, high_frequency_factor,
original_context, float_angles, and whether the second input has the positions.
"""
import math
import os

import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

import golden_file

assert torch.__version__.startswith("2.13.0")
torch.manual_seed(31)
torch.set_default_dtype(torch.float64)
DEFAULTS = {"start": 0, "neighbors": 0, "base": 10000, "scale": 1, "ntk": 1, "factor": 1, "low": 1, "high": 4,
            "context": 8192, "floats": 0}


def transformers_frequencies(width, base, scale, factor, low, high, context):
    """inv_freq of transformers, in float."""
    parameters = {"rope_theta": base, "rope_type": "default"}
    if factor != 1:
        parameters.update(rope_type="llama3", factor=factor, low_freq_factor=low, high_freq_factor=high,
                          original_max_position_embeddings=int(context))
    elif scale != 1:
        parameters.update(rope_type="linear", factor=scale)
    config = LlamaConfig(hidden_size=2 * width, num_attention_heads=2, head_dim=width, rope_parameters=parameters,
                         max_position_embeddings=2 ** 20)
    torch.set_default_dtype(torch.float32)
    frequencies = LlamaRotaryEmbedding(config).inv_freq
    torch.set_default_dtype(torch.float64)
    return frequencies


def frequencies_in_double(width, base, scale, ntk, factor, low, high, context):
    """The same formulas in double, and with NTK-aware scaling, which transformers has for growing contexts alone."""
    base *= ntk ** (width / max(width - 2, 1))
    found = []
    for i in range(width // 2):
        frequency = base ** (-2 * i / width) / scale
        turns = context * frequency / (2 * math.pi)
        if factor != 1 and turns < low:
            frequency /= factor
        elif factor != 1 and turns <= high:
            smooth = (turns - low) / (high - low)
            frequency = (1 - smooth) * frequency / factor + smooth * frequency
        found.append(frequency)
    return torch.tensor(found)


def rotary(start, neighbors, base, scale, ntk, factor, low, high, context, floats):
    def call(x, positions=None):
        width = x.shape[-1]
        positions = start + (torch.arange(x.shape[-2]) if positions is None else positions.long())
        if floats:
            assert ntk == 1
            inverse = transformers_frequencies(width, base, scale, factor, low, high, context)
            angles = (positions.float()[..., None] * inverse).double()
        else:
            inverse = frequencies_in_double(width, base, scale, ntk, factor, low, high, context)
            angles = positions[..., None] * inverse
        if angles.dim() == 3:
            angles = angles.reshape(angles.shape[0], *[1] * (x.dim() - 3), *angles.shape[1:])
        cosines, sines = angles.cos(), angles.sin()
        if floats:
            cosines, sines = cosines.float().double(), sines.float().double()
        a, b = (x[..., 0::2], x[..., 1::2]) if neighbors else x.chunk(2, -1)
        pair = [a * cosines - b * sines, a * sines + b * cosines]
        return torch.stack(pair, -1).flatten(-2) if neighbors else torch.cat(pair, -1)
    return call


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "rotary.txt"), "w") as out:
        def case(shape, positions=None, **options):
            options = [float(o) for o in (DEFAULTS | options).values()]
            inputs = [torch.randn(*shape)] + ([] if positions is None else [torch.tensor(positions).int()])
            golden_file.write(out, "rotary", options + [len(inputs) - 1.0], inputs, rotary(*options))

        llama = {"base": 500000, "factor": 8, "context": 64}
        case((3, 4), start=2)
        case((2, 2, 3, 6), neighbors=1, base=100, scale=3, ntk=2, start=1)
        case((2, 5, 12), **llama)
        case((5, 12), **llama, neighbors=1, low=0.5, high=7, start=30)
        for options in ({"factor": 32}, {"factor": 8, "context": 100, "low": 1.5, "high": 5}):
            case((2, 24), **{**llama, **options}, floats=1, start=9000)
        case((2, 16), floats=1, start=8190)
        case((2, 16), floats=1, base=1000000, scale=8, start=100000)
        # positions of all sequences, and of each: padding on the left, packed texts, far ones
        case((2, 4, 6), [3, 0, 3, 9])
        case((4, 2), [1, 1, 0, 7], start=2)
        case((2, 5, 4), [[0, 0, 0, 1, 2], [0, 1, 0, 1, 2]])
        case((3, 2, 2, 4), [[5, 6], [0, 0], [2, 1]], neighbors=1, start=4)
        case((2, 2, 3, 8), [[0, 40, 8192], [70000, 1, 131071]], **llama, floats=1)


if __name__ == "__main__":
    main()

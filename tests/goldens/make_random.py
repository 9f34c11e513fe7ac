#!/usr/bin/env python3
"""Writes random/streams.txt: outputs of PyTorch's CPU generator, for the tests of the generator in tests/base.

    python3 make_random.py          needs torch 2.13 on x86-64 with AVX2, numpy, and the libm that torch runs on

The calls of each stream are those of the C test, in the same order. The file has, for each stream,

    NAME BYTES COUNT STRIDE STORED DIGEST
    VALUE ...

BYTES is the size of a value, COUNT the number of values, STORED the number of values in the file (the first, and every
STRIDE-th after it, as the hex of their bits), and DIGEST is FNV-1a (64 bits) over all values, low byte first. Names that
end in _generic come from the kernels that torch runs with ATEN_CPU_CAPABILITY=default. The stream `libm` identifies the
libm: if it differs, streams that use libm are compared only by their stored values.
"""
import ctypes
import os
import subprocess
import sys

import numpy as np
import torch

GENERIC = os.environ.get("ATEN_CPU_CAPABILITY") == "default"
SIZES = [16, 17, 31, 32, 100, 127, 128, 129, 1000, 1039, 100003]
RANGES = [(0, 2), (0, 50257), (-7, 9), (0, 2**28 - 1), (0, 2**28), (0, 2**28 + 1), (0, 2**32 - 1), (0, 2**32),
          (-2**40, 2**41), (-2**62, 2**62), (-2**63, 2**63 - 1)]
SEEDS = [0, 1, 123, -1, -5, 2**32 + 7, 2**63 - 1, 67280421310721]
PROBABILITIES = [0.0, 1.0, 0.9, 0.1, 0.5, 1 / 3, 2.0**-53, 1 - 2.0**-53]
F32, F64, I64 = torch.float32, torch.float64, torch.int64


def digest(values):
    state = 0xcbf29ce484222325
    for byte in values.tobytes():
        state = (state ^ byte) * 0x100000001b3 % 2**64
    return state


def write(name, parts, libm=False):
    values = np.concatenate([part.numpy() if torch.is_tensor(part) else part for part in parts])
    assert sys.byteorder == "little"
    size = values.dtype.itemsize
    stored = min(2000 if libm else 32, len(values))
    stride = len(values) // stored if libm else 1
    bits = values.view("u%d" % size)[: stored * stride : stride]
    print("%s%s %d %d %d %d %016x" % (name, "_generic" if GENERIC else "", size, len(values), stride, stored,
                                      digest(values)))
    for begin in range(0, stored, 12):
        print(" ".join("%x" % int(value) for value in bits[begin : begin + 12]))


def fresh(dtype, count):
    return torch.empty(count, dtype=dtype)


def uniforms(dtype):
    torch.manual_seed(123)
    return [fresh(dtype, 100003).uniform_(-0.1, 0.37), fresh(dtype, 17).uniform_(0, 1),
            fresh(dtype, 1000).uniform_(1.0, 1.0000001), fresh(dtype, 1000).uniform_(1.0, 1.0 + 2.0**-52)]


def large_normals(dtype):
    torch.manual_seed(123)
    return [fresh(dtype, count).normal_(0.3, 1.7) for count in SIZES]


def mixed_normals():
    """Small fills of both dtypes with large ones among them: the waiting normal passes through all."""
    torch.manual_seed(123)
    parts = {F32: [], F64: []}
    for i in range(40000):
        dtype = F64 if i % 3 == 0 else F32
        count = 16 + i % 7 if i % 10 == 9 else 1 + i % 15
        parts[dtype].append(fresh(dtype, count).normal_(-0.7, 0.02))
    return parts


def exponentials(dtype):
    torch.manual_seed(123)
    return [fresh(dtype, 70001).exponential_(rate) for rate in (1.0, 0.7)]


def weights(dtype, count):
    return torch.tensor([i * 7919 % 1009 for i in range(count)], dtype=dtype)  # some are 0


def multinomials(dtype):
    torch.manual_seed(123)
    parts = [torch.multinomial(weights(dtype, 40), 7) for _ in range(10000)]
    parts += [torch.multinomial(weights(dtype, 50257), 1, replacement) for replacement in (False, True)]
    parts += [torch.multinomial(weights(dtype, 50257), draws) for draws in (2, 700, 900)]
    parts += [torch.multinomial(weights(dtype, 40), 39)]  # all that are not 0
    parts += [torch.multinomial(weights(dtype, 50257), 100000, True), torch.multinomial(weights(dtype, 3), 10000, True)]
    return parts


def states():
    parts = []
    torch.manual_seed(-1)
    parts.append(torch.get_rng_state())
    for count in (1, 2, 621, 1, 623, 1000):
        torch.rand(count)
        parts.append(torch.get_rng_state())
    for _ in range(2):
        torch.randn(3)
        parts.append(torch.get_rng_state())
    return parts


def libm():
    library = ctypes.CDLL("libm.so.6")
    for function in (library.log1p, library.log, library.sin, library.cos):
        function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double]
    for function in (library.logf, library.sinf, library.cosf):
        function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    values = []
    for k in range(1, 32768):
        x, angle = k / 32768, k / 5215
        values += [library.log1p(-x), library.log(x), library.sin(angle), library.cos(angle), library.logf(x),
                   library.sinf(angle), library.cosf(angle)]
    return [np.array(values)]


def both_profiles():
    write("uniform_f32", uniforms(F32))
    write("uniform_f64", uniforms(F64))
    write("normal_f32", large_normals(F32), libm=GENERIC)
    write("normal_f64", large_normals(F64), libm=True)
    mixed = mixed_normals()
    write("normal_mixed_f32", mixed[F32], libm=True)
    write("normal_mixed_f64", mixed[F64], libm=True)


def one_profile():
    write("libm", libm())
    write("u32", [np.frombuffer(np.random.RandomState(123).bytes(4 * 100003), dtype=np.uint32)])
    torch.manual_seed(123)
    write("int64", [fresh(I64, 100003).random_()])
    parts = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        parts.append(torch.rand(700))
    write("seeds", parts)
    torch.manual_seed(123)
    write("randint", [torch.randint(low, high, (20001,)) for low, high in RANGES])
    torch.manual_seed(123)
    write("randperm", [torch.randperm(count) for count in (0, 1, 2, 3, 10, 1000, 100003)])
    torch.manual_seed(123)
    torch.rand(1)  # from here on a pair of outputs lies across two blocks of the engine
    write("bernoulli", [fresh(torch.uint8, 30001).bernoulli_(p) for p in PROBABILITIES])
    write("exponential_f32", exponentials(F32), libm=True)
    write("exponential_f64", exponentials(F64), libm=True)
    write("multinomial_f32", multinomials(F32))
    write("multinomial_f64", multinomials(F64))
    write("torch_state", states())


def main():
    assert torch.__version__.startswith("2.13."), torch.__version__
    if GENERIC:
        assert torch.backends.cpu.get_cpu_capability() == "DEFAULT"
        both_profiles()
        return
    assert torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "random", "streams.txt")
    with open(path, "w") as file:
        sys.stdout = file
        print("# Made by make_random.py, which describes the form, with torch %s." % torch.__version__)
        one_profile()
        both_profiles()
        file.flush()
        environment = dict(os.environ, ATEN_CPU_CAPABILITY="default")
        subprocess.run([sys.executable, os.path.abspath(__file__)], stdout=file, env=environment, check=True)


main()

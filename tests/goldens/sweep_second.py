#!/usr/bin/env python3
"""Random compositions of calls, with their first and second derivatives beside PyTorch's (make_second.py).

    tests/goldens/sweep_second.py PROGRAM [COUNT [SEED]]       PROGRAM is tests/grad_test_second of a build

A composition is STEPS calls that read inputs and earlier results. It is drawn again if its results are large or not
finite, or if small changes of its inputs change a gradient much: then it is near a kink, or rounding decides.
"""
import collections
import random
import re
import subprocess
import sys
import tempfile

import torch

from make_second import constant, gradients, ids, mask, positive, real, run, write

STEPS, LARGEST, MOST_VALUES = 5, 1e3, 48
OF_ONE = ("neg exp log sqrt sin cos abs sign round floor tanh sigmoid relu gelu gelu_tanh silu log_sigmoid contiguous "
          "leaky_relu:0.25 elu:0.5 softplus:2.0:20.0 clamp:-0.5:0.75 add_scalar:1.5 mul_scalar:-0.5 div_scalar:1.5 "
          "pow_scalar:2.0 pow_scalar:3.0 pow_scalar:-1.0 pow_scalar:0.5 dropout:0.25 reshape:-1 flip:9").split()
OF_TWO = ("add sub mul div maximum minimum remainder pow mse_loss:0 mse_loss:2 binary:2").split()
OVER_AXES = "sum mean amax amin logsumexp var std norm".split()
ALONG_AXIS = "softmax log_softmax cumsum sort topk flip select slice".split()
SHAPED = ("transpose permute unsqueeze repeat expand tril triu masked_fill where clamp_tensor cat stack gather "
          "index_select scatter_add index_add embedding matmul linear layer_norm rms_norm rotary rotary_at attention "
          "near cross_entropy nll_loss").split()


def draw_other(shape):
    """A shape that broadcasts to this one."""
    kept = [size if random.random() < 0.8 else 1 for size in shape]
    return kept[random.randrange(len(kept) + 1):] if random.random() < 0.3 else kept


def draw_step(x):
    """Returns the call and its operands: "x" for x, which is first if it is not named, "any" for another float, "same"
    for one of this shape, new inputs, and None."""
    name = random.choice(random.choice([OF_ONE, OF_TWO, OVER_AXES, ALONG_AXIS, SHAPED, SHAPED]))
    rank, shape = x.dim(), x.shape
    axis = random.randrange(max(rank, 1))
    other = random.choice(["any", random.choice([real, positive])(*draw_other(shape))])
    if name in OF_ONE:
        return name, []
    if name in OF_TWO:
        is_loss = ":" in name
        return name, [random.choice(["same", real(*shape)]) if is_loss else other] + [None] * 2 * (name == "binary:2")
    if name in OVER_AXES:
        options = {"var": f":{random.randrange(2)}", "std": ":0",
                   "norm": random.choice([":1.0", ":2.0", ":3.0", ":inf"])}
        return f"{name}:{random.choice([axis, axis, axis, 9])}:{random.randrange(2)}{options.get(name, '')}", []
    if rank == 0:
        return random.choice(["expand:2:3", "expand:4", "softmax:0", "cumsum:0"]), []
    size = shape[axis]
    if name in ALONG_AXIS:
        order = random.randrange(2)
        options = {"sort": f"{axis}:{order}", "topk": f"{random.randint(1, size)}:{axis}:{order}",
                   "select": f"{axis}:{random.randrange(size)}",
                   "slice": f"{axis}:{random.randrange(size)}:{size}:{random.choice([1, 2])}"}
        return f"{name}:{options.get(name, axis)}", []
    if name in ["cat", "stack"]:
        return f"{name}2:{axis}", [random.choice(["same", real(*shape)])]
    if name in ["gather", "scatter_add"]:
        return f"{name}:{axis}", [ids(size, *shape)] + [random.choice(["same", real(*shape)])] * (name == "scatter_add")
    if name in ["index_select", "index_add"]:
        source = real(*shape[:axis], 3, *shape[axis + 1:])
        return f"{name}:{axis}", [ids(size, 3)] + [source] * (name == "index_add")
    rows, width = shape[:-1], shape[-1]
    return {
        "transpose": lambda: (f"transpose:{axis}:{random.randrange(rank)}", []),
        "permute": lambda: ("permute:" + ":".join(map(str, random.sample(range(rank), rank))), []),
        "unsqueeze": lambda: (f"unsqueeze:{axis}", []),
        "repeat": lambda: ("repeat" + ":1" * axis + ":2" + ":1" * (rank - 1 - axis), []),
        "expand": lambda: ("expand:2" + ":-1" * rank, []),
        "tril": lambda: (f"tril:{random.randint(-1, 1)}", []), "triu": lambda: (f"triu:{random.randint(-1, 1)}", []),
        "masked_fill": lambda: ("masked_fill:0.5", [mask(*draw_other(shape))]),
        "where": lambda: ("where", [mask(*shape), "x", other]),
        "clamp_tensor": lambda: ("clamp_tensor", random.choice([[other, None], [None, other]])),
        "embedding": lambda: (f"embedding:{random.choice([-1, 0])}:{random.randrange(2)}", [ids(shape[0], 2, 2), "x"]),
        "matmul": lambda: ("matmul", [random.choice(["any", real(width, 2), real(width)])]),
        "linear": lambda: ("linear", [real(3, width), random.choice([None, real(3)])]),
        "layer_norm": lambda: ("layer_norm", [random.choice([None, real(width)]), random.choice([None, real(width)])]),
        "rms_norm": lambda: ("rms_norm", [real(width)]),
        "rotary": lambda: (f"rotary:{random.randrange(4)}:{random.randrange(2)}", []),
        "attention": lambda: (f"attention:{random.randrange(2)}:0:-1.0:{random.randrange(2)}", random.choice(
            [["same", "same", None, None], [real(*shape), real(*shape), None, None],
             ["same", real(*shape), real(shape[-2], shape[-2]), None]])),
        "rotary_at": lambda: (f"rotary_at:0:{random.randrange(2)}", [ids(9, shape[-2])]),
        "near": lambda: (f"near:1:{random.randrange(4)}:{random.randrange(2)}", random.choice(
            [["same", "same", None], [real(*shape), real(*shape), ids(shape[-2], shape[-2])]])),
        "cross_entropy": lambda: (f"cross_entropy:-100:{random.randrange(3)}:{random.choice([0.0, 0.25])}",
                                  [ids(width, *rows), random.choice([None, constant(width)])]),
        "nll_loss": lambda: (f"nll_loss:-100:{random.randrange(3)}", [ids(width, *rows), None]),
    }[name]()


def as_double(x):
    return x.double() if x.is_floating_point() else x


def words(call, operands):
    return " ".join([call, *["-" if o is None else str(o) for o in operands]])


def draw_composition():
    """Returns the steps and the inputs."""
    values = [random.choice([real, positive])(*random.choices([1, 2, 3, 4], k=random.randint(1, 3)))]
    is_input, steps = [True], []
    while len(steps) < STEPS:
        floats = [i for i, x in enumerate(values) if x.dtype == torch.float64]
        at = floats[-1] if random.random() < 0.8 else random.choice(floats)
        x = values[at]
        try:
            call, drawn = draw_step(x)
            known, operands = list(values), []
            for operand in drawn if any(isinstance(o, str) and o == "x" for o in drawn) else ["x", *drawn]:
                if isinstance(operand, torch.Tensor):
                    operands.append(len(known))
                    known.append(operand)
                else:
                    same = [i for i in floats if values[i].shape == x.shape]
                    choices = {"x": [at], "any": floats, "same": same, None: [None]}
                    operands.append(random.choice(choices[operand]))
            y = run(words(call, operands), [as_double(v) for v in known])
        except (RuntimeError, IndexError, ValueError):
            continue
        if 0 < y.numel() <= MOST_VALUES and y.dim() <= 3 and y.isfinite().all() and y.abs().max() < LARGEST:
            is_input += [True] * (len(known) - len(values)) + [False]
            values = known + [y]
            steps.append((call, operands))
    order = sorted(range(len(values)), key=lambda i: not is_input[i])  # the inputs come first
    text = " ".join(words(call, [None if o is None else order.index(o) for o in operands]) for call, operands in steps)
    return text, [values[i] for i in order if is_input[i]]


def is_steady(steps, inputs, seed):
    """Whether the gradients are finite, and near those of inputs that are a little different."""
    found = []
    for change in [0, 1e-12, 1e-12]:
        moved = [x * (1 + change * torch.rand(x.shape).sub(0.5)) if x.dtype == torch.float64 else x.clone()
                 for x in inputs]
        torch.manual_seed(seed)  # the same factors
        found.append([x.detach() for x in gradients(2, steps, moved)])
    return all(a.isfinite().all() and (a - b).abs().max() <= 1e-8 * a.abs().max().clamp(1e-3)
               for other in found[1:] for a, b in zip(found[0], other))


def main():
    count, seed = [int(n) for n in (sys.argv[2:] + ["2000", "1"][len(sys.argv) - 2:])]
    random.seed(seed)
    torch.manual_seed(seed)
    used, refused = collections.Counter(), 0
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as out:
        while used.total() < count * STEPS:
            steps, inputs = draw_composition()
            factors = random.randrange(1 << 30)
            if is_steady(steps, inputs, factors):
                torch.manual_seed(factors)
                write(out, 2, steps, inputs)
                used.update(word.split(":")[0] for word in steps.split() if word[0].isalpha())
            else:
                refused += 1
        out.flush()
        result = subprocess.run([sys.argv[1], out.name], capture_output=True, text=True)
    print(result.stderr, end="")
    print(re.search(r"\d+ cases.*", result.stdout + result.stderr)[0], f"({refused} drawn again), {len(used)} calls:",
          *[f"{name} {n}" for name, n in used.most_common()])
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())

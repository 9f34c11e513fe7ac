#!/usr/bin/env python3
"""Goldens of the ops: values and gradients by torch 2.13.0, in double. Writes ops.txt beside itself.

A case: "op NAME INPUTS OPTIONS...", then one line per tensor: the inputs, the cotangent, the result, and the gradient of each float
input. A tensor: DTYPE RANK SIZES... VALUES..., values as hexadecimal floats.
"""
import os

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
torch.manual_seed(11)
torch.set_default_dtype(torch.float64)


def draw(*shape):
    return torch.randn(*shape)


def positive(*shape):
    return torch.rand(*shape) + 0.2


def ids(high, *shape):
    return torch.randint(0, high, shape)


MASK = torch.tensor([[True, False, True], [False, False, True]])
TARGETS = torch.tensor([[2, 0, -100], [4, 4, 1]])

CASES = [
    ("add", [draw(2, 3), draw(3)], torch.add), ("sub", [draw(2, 1), draw(1, 3)], torch.sub),
    ("mul", [draw(4, 2, 3), draw(2, 1)], torch.mul), ("div", [draw(2, 3), positive(3)], torch.div),
    ("pow", [positive(2, 3), draw(3)], torch.pow), ("maximum", [draw(2, 3), draw(2, 3)], torch.maximum),
    ("maximum", [torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0])], torch.maximum),
    ("minimum", [torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0])], torch.minimum),
    ("minimum", [draw(2, 3), draw(1)], torch.minimum),
    ("add_scalar 1.5", [draw(3)], lambda x: x + 1.5), ("mul_scalar 1.5", [draw(3)], lambda x: x * 1.5),
    ("div_scalar 1.5", [draw(3)], lambda x: x / 1.5), ("pow_scalar 1.5", [draw(3).abs()], lambda x: x ** 1.5),
    ("neg", [draw(5)], torch.neg), ("exp", [draw(5)], torch.exp), ("log", [positive(5)], torch.log),
    ("sqrt", [positive(5)], torch.sqrt), ("tanh", [draw(5)], torch.tanh), ("sigmoid", [draw(5) * 4], torch.sigmoid),
    ("relu", [torch.tensor([-1.0, 0.0, 2.0])], torch.relu), ("gelu", [draw(5) * 2], F.gelu),
    ("gelu_tanh", [draw(5) * 2], lambda x: F.gelu(x, approximate="tanh")), ("silu", [draw(5) * 2], F.silu),
    ("abs", [torch.tensor([-1.5, 0.0, 2.0])], torch.abs),
    ("clamp -0.5 0.75", [torch.tensor([-2.0, -0.5, 0.1, 0.75, 3.0])], lambda x: torch.clamp(x, -0.5, 0.75)),
    ("where", [MASK, draw(2, 3), draw(3)], torch.where),
    ("masked_fill", [draw(2, 3), MASK], lambda x, m: x.masked_fill(m, -7.0)),
    ("tril", [draw(2, 3, 4)], lambda x: torch.tril(x, 1)), ("triu", [draw(2, 3, 4)], lambda x: torch.triu(x, -1)),
    ("sum", [draw(2, 3, 4)], lambda x: x.sum((0, 2))), ("mean", [draw(2, 3, 4)], lambda x: x.mean(1, keepdim=True)),
    ("max", [torch.tensor([[1.0, 3.0, 3.0], [4.0, 2.0, 1.0]])], lambda x: torch.amax(x, 1)),
    ("var", [draw(2, 3, 4)], lambda x: x.var((0, 2))), ("topk", [draw(3, 6)], lambda x: torch.topk(x, 3, 1).values),
    ("reshape", [draw(2, 6)], lambda x: x.reshape(3, 4)), ("transpose 0 2", [draw(2, 3, 4)], lambda x: x.transpose(0, 2)),
    ("permute", [draw(2, 3, 4)], lambda x: x.permute(2, 0, 1)), ("slice", [draw(2, 7)], lambda x: x[:, 1:6:2]),
    ("select 1 -1", [draw(2, 3, 4)], lambda x: x.select(1, -1)), ("expand", [draw(2, 1, 3)], lambda x: x.expand(4, 2, 5, 3)),
    ("cat", [draw(2, 3), draw(2, 1)], lambda a, b: torch.cat([a, b], 1)),
    ("stack", [draw(2, 3), draw(2, 3)], lambda a, b: torch.stack([a, b], 1)),
    ("gather", [draw(2, 4), ids(4, 2, 3)], lambda x, i: torch.gather(x, 1, i)),
    ("index_select", [draw(2, 4, 3), torch.tensor([3, 0, 3])], lambda x, i: torch.index_select(x, 1, i)),
    ("matmul", [draw(2, 3), draw(3, 4)], torch.matmul), ("matmul", [draw(5, 2, 3), draw(3, 4)], torch.matmul),
    ("matmul", [draw(2, 1, 2, 3), draw(4, 3, 2)], torch.matmul), ("matmul", [draw(3), draw(2, 3, 4)], torch.matmul),
    ("matmul", [draw(2, 3, 4), draw(4)], torch.matmul), ("matmul", [draw(4), draw(4)], torch.matmul),
    ("embedding", [draw(5, 3), torch.tensor([[4, 1], [4, 0]])], lambda w, i: F.embedding(i, w)),
    ("embedding_by_frequency", [draw(5, 3), torch.tensor([[4, 1, 4], [4, 0, 1]])],
     lambda w, i: F.embedding(i, w, scale_grad_by_freq=True)),
    ("bag_mean", [draw(5, 3), torch.tensor([[4, 1, 4], [4, 0, 1]])], lambda w, i: F.embedding_bag(i, w, mode="mean")),
    ("bag_max", [draw(5, 3), torch.tensor([[4, 1, 4], [4, 0, 1]])], lambda w, i: F.embedding_bag(i, w, mode="max")),
    ("bag_padded", [draw(5, 3), torch.tensor([[4, 1, 4], [4, 4, 4]])],
     lambda w, i: F.embedding_bag(i, w, mode="mean", padding_idx=4)),
    ("bag_padded_max", [draw(5, 3), torch.tensor([[4, 1, 3], [4, 4, 4]])],
     lambda w, i: F.embedding_bag(i, w, mode="max", padding_idx=4)),
    ("bag_weighted", [draw(5, 3), torch.tensor([[4, 1, 4], [4, 0, 1]]), draw(2, 3)],
     lambda w, i, s: F.embedding_bag(i, w, mode="sum", per_sample_weights=s)),
    ("bag_offsets", [draw(5, 3), torch.tensor([4, 1, 4, 2, 0]), torch.tensor([0, 3, 3, 4])],
     lambda w, i, o: F.embedding_bag(i, w, o, mode="mean")),
    ("bag_offsets_sum", [draw(5, 3), torch.tensor([4, 1, 4, 2, 0]), torch.tensor([0, 0, 2]), draw(5)],
     lambda w, i, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s)),
    ("embedding_padded", [draw(5, 3), torch.tensor([[4, 1], [4, 0]])], lambda w, i: F.embedding(i, w, padding_idx=4)),
    ("softmax", [draw(2, 3, 4)], lambda x: torch.softmax(x, 1)),
    ("log_softmax", [draw(2, 3, 4) * 3], lambda x: torch.log_softmax(x, -1)),
    ("layer_norm", [draw(2, 3, 5), draw(5), draw(5)], lambda x, w, b: F.layer_norm(x, (5,), w, b, 1e-5)),
    ("rms_norm", [draw(2, 19), draw(19)], lambda x, w: F.rms_norm(x, (19,), w, 1e-5)),
    ("cross_entropy", [draw(2, 3, 5), TARGETS], lambda x, t: F.cross_entropy(x.flatten(0, 1), t.flatten())),
    ("cross_entropy_smooth", [draw(2, 3, 5), TARGETS],
     lambda x, t: F.cross_entropy(x.flatten(0, 1), t.flatten(), label_smoothing=0.1, reduction="sum")),
    ("cross_entropy_none", [draw(2, 3, 5), TARGETS],
     lambda x, t: F.cross_entropy(x.flatten(0, 1), t.flatten(), reduction="none").reshape(t.shape)),
    ("nll_loss", [draw(2, 3, 5), TARGETS], lambda x, t: F.nll_loss(x.flatten(0, 1), t.flatten())),
    ("mse_loss", [draw(2, 3), draw(2, 3)], F.mse_loss),
    ("attention", [draw(2, 5, 3) for _ in range(3)],
     lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
    ("attention_elementary", [draw(2, 2, 4, 3) for _ in range(3)],
     lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
    ("attention_cross", [draw(2, 3, 4), draw(2, 5, 4), draw(2, 5, 4), draw(3, 5)], F.scaled_dot_product_attention),
]


def line(x, out):
    names = {torch.float64: "f64", torch.int64: "i32", torch.bool: "u8"}
    print(names[x.dtype], x.dim(), *x.shape, *[float(v).hex() for v in x.flatten().tolist()], file=out)


def main():
    with open(os.path.join(HERE, "ops.txt"), "w") as out:
        for name, inputs, function in CASES:
            inputs = [x.clone().requires_grad_(x.dtype == torch.float64) for x in inputs]
            y = function(*inputs)
            seed = torch.randn(y.shape)
            y.backward(seed)
            name, *options = name.split()
            print("op", name, len(inputs), *options, file=out)
            for x in [*inputs, seed, y] + [x.grad for x in inputs if x.requires_grad]:
                line(x.detach(), out)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A PyTorch twin of the adapters of CS336's first assignment: writes cs336.npz beside itself, by torch 2.13.0 and
tiktoken, for the programs of examples/cs336.

    make_cs336.py COURSE BOOK

COURSE is the folder with the course's tests, fixtures and snapshots, BOOK the one with GPT-2's vocab.bpe. The tests of
the course that load its weights, model.pt, get seeded weights here, which examples/cs336/test_model.h draws likewise.
The inputs are those of conftest.py. Of token ids only the number and a checksum are written. Where the course has a
snapshot, the twin is compared with it first.
"""
import math
import os
import re
import sys

import numpy
import tiktoken
import torch
import torch.nn.functional as F

assert torch.__version__.startswith("2.13.0")
COURSE, BOOK = sys.argv[1:]
HERE = os.path.dirname(os.path.abspath(__file__))
LAYERS, HEADS, THETA = 3, 4, 10000.0
VOCABULARY, WIDTH, HIDDEN = 10000, 64, 128


def read(name):
    with open(os.path.join(COURSE, name), encoding="utf-8", newline="") as file:
        return file.read()


def value_of(file, test, name):
    """The tensor or the text that a test of the course assigns to a name."""
    body = read(file).split(f"def {test}(")[1].split("\ndef ")[0]
    if found := re.search(rf'{name} = "(.*)"', body):
        return found[1]
    return eval(re.search(rf"{name} = (torch\.tensor\([^()]*\))", body)[1])


# ---- the model ----

def weights(vocabulary, width, hidden):
    """The state of a new model after seed 336: cut normal values, and norms of 1."""
    torch.manual_seed(336)
    square, wide, norm = (width, width), (hidden, width), (width,)
    shapes = {"token_embeddings": (vocabulary, width)}
    for i in range(LAYERS):
        for name, shape in {"attn.q_proj": square, "attn.k_proj": square, "attn.v_proj": square,
                            "attn.output_proj": square, "ln1": norm, "ffn.w1": wide, "ffn.w2": wide[::-1],
                            "ffn.w3": wide, "ln2": norm}.items():
            shapes[f"layers.{i}.{name}"] = shape
    shapes.update(ln_final=norm, lm_head=(vocabulary, width))
    state = {}
    for name, shape in shapes.items():
        std = 1.0 if name == "token_embeddings" else math.sqrt(2 / sum(shape))
        state[name] = torch.ones(shape)
        if len(shape) == 2:
            torch.nn.init.trunc_normal_(state[name], 0, std, -3 * std, 3 * std)
    return state


def swiglu(w, x):
    return F.linear(F.silu(F.linear(x, w["ffn.w1"])) * F.linear(x, w["ffn.w3"]), w["ffn.w2"])


def rope(x):
    """The rotation as a product of complex numbers."""
    frequencies = THETA ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    angles = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * frequencies
    pairs = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2).float()


def attention(w, x, rotates):
    q, k, v = (F.linear(x, w[f"attn.{name}_proj"]).unflatten(-1, (HEADS, -1)).transpose(1, 2) for name in "qkv")
    if rotates:
        q, k = rope(q), rope(k)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return F.linear(y.transpose(1, 2).flatten(-2), w["attn.output_proj"])


def rms_norm(x, weight):
    return F.rms_norm(x, weight.shape, weight, 1e-5)


def block(w, x):
    x = x + attention(w, rms_norm(x, w["ln1"]), True)
    return x + swiglu(w, rms_norm(x, w["ln2"]))


def layer(state, i):
    prefix = f"layers.{i}."
    return {name.removeprefix(prefix): x for name, x in state.items() if name.startswith(prefix)}


def language_model(state, ids):
    x = F.embedding(ids, state["token_embeddings"])
    for i in range(LAYERS):
        x = block(layer(state, i), x)
    return F.linear(rms_norm(x, state["ln_final"]), state["lm_head"])


def seeded(seed, draw, *arguments):
    torch.manual_seed(seed)
    return draw(*arguments)


def compare_with_snapshots(x):
    """The parts that need no weights give the course's snapshots."""
    q, k, v = (seeded(s, torch.randn, 4, n, WIDTH) for s, n in ((1, 12), (2, 16), (3, 16)))
    mask = seeded(5, torch.randn, 4, 12, 16) > 0.5
    for name, y in {"test_rope": rope(x),
                    "test_scaled_dot_product_attention": F.scaled_dot_product_attention(q, k, v, mask)}.items():
        snapshot = numpy.load(os.path.join(COURSE, "snapshots", name + ".npz"))["array"]
        numpy.testing.assert_allclose(y.numpy(), snapshot, rtol=1e-4, atol=1e-6, err_msg=name)


def model_tests():
    x = seeded(4, torch.randn, 4, 12, WIDTH)
    ids = seeded(6, torch.randint, 0, VOCABULARY, (4, 12))
    compare_with_snapshots(x)
    state = weights(VOCABULARY, WIDTH, HIDDEN)
    for weight in state.values():
        if weight.dim() == 1:
            weight.uniform_(0.5, 1.5)
    first = layer(state, 0)
    return {
        "test_linear": F.linear(x, first["ffn.w1"]),
        "test_embedding": F.embedding(ids, state["token_embeddings"]),
        "test_swiglu": swiglu(first, x),
        "test_rmsnorm (all rows)": rms_norm(x, state["layers.1.ln1"]),
        "test_multihead_self_attention": attention(first, x, False),
        "test_multihead_self_attention_with_rope": attention(first, x, True),
        "test_transformer_block": block(first, x),
        "test_transformer_lm": language_model(state, ids)[..., ::157],
        "test_transformer_lm_truncated_input": language_model(state, ids[:, :6])[..., ::157],
    }


# ---- functions and trainings ----

def function_tests():
    silu, softmax, entropy = "test_silu_matches_pytorch", "test_softmax_matches_pytorch", "test_cross_entropy"
    x = value_of("test_nn_utils.py", softmax, "x")
    logits = value_of("test_nn_utils.py", entropy, "inputs").view(-1, 5)
    targets = value_of("test_nn_utils.py", entropy, "targets").view(-1)
    parts = [torch.zeros(5, 5).requires_grad_(i < 5) for i in range(6)]
    torch.cat(parts).sum().backward()
    torch.nn.utils.clip_grad_norm_(parts, 0.01)
    return {
        silu: F.silu(value_of("test_model.py", silu, "x")),
        softmax: F.softmax(x, -1),
        softmax + " (x + 100)": F.softmax(x + 100, -1),
        entropy: F.cross_entropy(logits, targets),
        entropy + " (1000 x)": F.cross_entropy(1000 * logits, targets),
        "test_gradient_clipping": torch.cat([p.grad for p in parts[:5]]),
    }


def network_test():
    """The weights of the last layer after ten steps of the course's test of checkpoints."""
    torch.manual_seed(42)
    sizes = (100, 200, 100, 10)
    layers = [torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]
    optimizer = torch.optim.AdamW([p for part in layers for p in part.parameters()], lr=1e-3, weight_decay=0.01)
    for _ in range(10):
        optimizer.zero_grad()
        x, y = torch.rand(100), torch.rand(10)
        ((y - layers[2](F.relu(layers[1](F.relu(layers[0](x)))))) ** 2).sum().backward()
        optimizer.step()
    return {"test_checkpointing (the weights after 10 steps)": layers[2].weight.detach()}


def training_test():
    """The losses of 20 of 200 steps of examples/cs336/09_train.c on the bytes of the story."""
    with open(os.path.join(HERE, "../../examples/lighthouse.txt"), "rb") as file:
        ids = torch.tensor(list(file.read()))
    context, steps, lr, minimum = 64, 200, 3e-3, 3e-4
    state = {name: x.requires_grad_() for name, x in weights(256, 96, 256).items()}
    optimizer = torch.optim.AdamW(state.values(), betas=(0.9, 0.95), weight_decay=0.1)
    losses = []
    for step in range(20):
        windows = torch.stack([ids[i:i + context + 1] for i in torch.randint(0, len(ids) - context, (16,))])
        loss = F.cross_entropy(language_model(state, windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(state.values(), 1)
        warmup = steps // 10
        cosine = math.cos(math.pi * (step - warmup) / (steps - warmup))
        optimizer.param_groups[0]["lr"] = lr * step / warmup if step < warmup else (
            minimum + (lr - minimum) * (1 + cosine) / 2)
        optimizer.step()
        losses.append(loss.item())
    return {"losses of a training": torch.tensor(losses)}


# ---- token ids ----

def gpt2():
    """tiktoken's GPT-2 from the merges, whose ranks are the ids."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    order = printable + [b for b in range(256) if b not in printable]
    byte_of = {chr(b if b in printable else 256 + i - len(printable)): b for i, b in enumerate(order)}
    ranks = {bytes([b]): i for i, b in enumerate(order)}
    with open(os.path.join(BOOK, "vocab.bpe"), encoding="utf-8") as file:
        for line in file.read().split("\n")[1:-1]:
            ranks[bytes(byte_of[c] for c in line.replace(" ", ""))] = len(ranks)
    pattern = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
    return tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})


def checksum(ids):
    value = 14695981039346656037
    for token in ids:
        value = (value ^ token) * 1099511628211 % 2 ** 64
    return torch.tensor([len(ids), value % 2 ** 31])


def token_tests():
    encoding, file = gpt2(), "test_tokenizer.py"
    tests = {f"test_{name}_matches_tiktoken": value_of(file, f"test_{name}_matches_tiktoken", "test_string")
             for name in ("empty", "single_character", "single_unicode_character", "ascii_string", "unicode_string",
                          "unicode_string_with_special_tokens")}
    for name, fixture in (("address", "address"), ("german", "german"), ("tinystories", "tinystories_sample"),
                          ("encode_iterable_tinystories", "tinystories_sample")):
        tests[f"test_{name}_matches_tiktoken"] = read(f"fixtures/{fixture}.txt")
    return {name: checksum(encoding.encode(text, allowed_special="all")) for name, text in tests.items()}


if __name__ == "__main__":
    arrays = {**model_tests(), **function_tests(), **network_test(), **training_test(), **token_tests()}
    numpy.savez(os.path.join(HERE, "cs336.npz"), **{name: x.detach().numpy() for name, x in arrays.items()})

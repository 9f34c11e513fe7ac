#!/usr/bin/env python3
"""Programs of tests/bench/program.h in PyTorch, for tests/bench/scaling, which runs this as

    torch_programs.py --list
    torch_programs.py NAME [FOLDER]

and sends lines "step THREADS ROUNDS", which are answered with the seconds of each round. FOLDER has the Llama of
tests/bench/published. With the name "products" the program reads a line of JSON first: the products of a step, as
bench_scaling prints them; these are then computed by torch.mm.
"""
import importlib.machinery
import importlib.util
import json
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

import torch_gpt


def load(name):
    """A script of this folder as a module."""
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(os.path.dirname(os.path.abspath(__file__)), name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


# ---- models ----

def gpt_step(batch, length, small):
    torch_gpt.B, torch_gpt.T = batch, length
    if small:
        torch_gpt.C, torch_gpt.V, torch_gpt.H, torch_gpt.LAYERS = 128, 1024, 4, 4
    return torch_gpt.make_step(False)


def gpt2_texts(texts, length, prompt=False):
    """The next token of GPT-2 small after some, or all of these as a prompt."""
    import transformers
    config = transformers.GPT2Config(n_positions=length + 64, tie_word_embeddings=False)
    model = transformers.GPT2LMHeadModel(config).eval()
    ids, following = torch.randint(0, config.vocab_size, (texts, length)), torch.randint(0, config.vocab_size, (texts, 1))

    @torch.no_grad()
    def run(ids, cache):
        model(input_ids=ids, past_key_values=cache, logits_to_keep=1)

    if prompt:
        return lambda: run(ids, transformers.DynamicCache(config=config))
    cache = transformers.DynamicCache(config=config)
    run(ids, cache)

    def token():
        run(following, cache)
        cache.crop(-1)
    return token


def sentences():
    table = nn.EmbeddingBag(30522, 1024, mode='mean')
    optim = torch.optim.Adam(table.parameters(), fused=True)
    queries, documents = torch.randint(0, 30522, (2048, 8)), torch.randint(0, 30522, (2048, 32))

    def step():
        optim.zero_grad()
        scores = 20 * F.normalize(table(queries)) @ F.normalize(table(documents)).T
        F.cross_entropy(scores, torch.arange(2048)).backward()
        optim.step()
    return step


# ---- blocks ----

class Block(nn.Module):
    """A transformer block with a norm before each half: GPT-2's, or a Llama's."""

    def __init__(self, width, heads, llama_heads=0, hidden=0):
        super().__init__()
        self.heads, self.key_heads, self.size = heads, llama_heads or heads, width // heads
        norm = nn.RMSNorm if llama_heads else nn.LayerNorm
        self.norm1, self.norm2 = norm(width), norm(width)
        self.q, self.k, self.v = (nn.Linear(width, n * self.size, bias=False)
                                  for n in (heads, self.key_heads, self.key_heads))
        self.out = nn.Linear(width, width, bias=not llama_heads)
        hidden = hidden or 4 * width
        self.up, self.down = (nn.Linear(*sizes, bias=not llama_heads) for sizes in ((width, hidden), (hidden, width)))
        self.gate = nn.Linear(width, hidden, bias=False) if llama_heads else None

    def turn(self, x):
        if not self.gate:
            return x
        half = self.size // 2
        angles = torch.arange(x.shape[2], dtype=x.dtype)[:, None] * 10000 ** (-torch.arange(half, dtype=x.dtype) / half)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)

    def forward(self, x):
        texts, length, width = x.shape
        h = self.norm1(x)
        q, k, v = (layer(h).view(texts, length, -1, self.size).transpose(1, 2) for layer in (self.q, self.k, self.v))
        mixed = F.scaled_dot_product_attention(self.turn(q), self.turn(k), v, is_causal=True,
                                               enable_gqa=self.heads != self.key_heads)
        x = x + self.out(mixed.transpose(1, 2).reshape(texts, length, width))
        h = self.norm2(x)
        h = F.silu(self.gate(h)) * self.up(h) if self.gate else F.gelu(self.up(h), approximate='tanh')
        return x + self.down(h)


def llama_block():
    block, x = Block(576, 9, 3, 1536), torch.randn(2, 256, 576)
    optim = torch.optim.AdamW(block.parameters(), fused=True)

    def step():
        optim.zero_grad()
        block(x).square().mean().backward()
        optim.step()
    return step


def check(block, shape, fast):
    block.double()
    names, values = zip(*block.named_parameters())
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)

    def function(x, *values):
        return torch.func.functional_call(block, dict(zip(names, values)), (x,))
    return lambda: torch.autograd.gradcheck(function, (x, *values), fast_mode=fast)


def hessian_vector():
    torch_gpt.B, torch_gpt.T, torch_gpt.DROPOUT = 8, 64, 0.0
    torch_gpt.C, torch_gpt.V, torch_gpt.H, torch_gpt.LAYERS = 128, 1024, 4, 4
    model = torch_gpt.GPT()
    leaves = list(model.parameters())
    vectors = [x.detach().clone() for x in leaves]
    ids, targets = torch.randint(0, 1024, (2, 8, 64))

    def product():
        with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
            loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
            torch.autograd.grad(torch.autograd.grad(loss, leaves, create_graph=True), leaves, vectors)
    return product


# ---- the products of a step ----

def products():
    """Factors of the same address are the same tensor."""
    places, calls = {}, []
    for m, n, k, transpose_a, transpose_b, is_double, a, b in json.loads(sys.stdin.readline()):
        dtype = torch.float64 if is_double else torch.float32
        shapes = (a, (k, m) if transpose_a else (m, k)), (b, (n, k) if transpose_b else (k, n))
        a, b = (places.setdefault((place, shape), torch.rand(shape, dtype=dtype) - 0.5) for place, shape in shapes)
        c = places.setdefault(('result', len(calls)), torch.empty(m, n, dtype=dtype))
        calls.append((a.T if transpose_a else a, b.T if transpose_b else b, c))

    def run():
        for a, b, c in calls:
            torch.mm(a, b, out=c)
    return run


PROGRAMS = {
    'gpt': lambda _: gpt_step(8, 64, True), 'gpt_512': lambda _: gpt_step(1, 512, True),
    'gpt2_64': lambda _: gpt_step(1, 64, False), 'gpt2_512': lambda _: gpt_step(1, 512, False),
    'gpt2_2x256': lambda _: gpt_step(2, 256, False), 'llama_block': lambda _: llama_block(),
    **{name: lambda folder, row=row: load('published').torch_row(row, folder, 'f32', False) for name, row in (
        ('llama_2x256', 'step'), ('llama_lora', 'lora'), ('llama_token_250', 'token'), ('llama_prompt', 'prompt'))},
    'gpt2_token_1': lambda _: gpt2_texts(1, 1), 'gpt2_token_250': lambda _: gpt2_texts(1, 250),
    'gpt2_token_1000': lambda _: gpt2_texts(1, 1000), 'gpt2_8_texts': lambda _: gpt2_texts(8, 250),
    'gpt2_prompt': lambda _: gpt2_texts(1, 256, prompt=True), 'sentences': lambda _: sentences(),
    'gradcheck': lambda _: check(Block(16, 2), (1, 6, 16), False),
    'gradcheck_fast': lambda _: check(Block(64, 4), (2, 16, 64), True),
    'gradcheck_llama': lambda _: check(Block(64, 4, 2, 128), (2, 16, 64), True),
    'hessian_vector': lambda _: hessian_vector(), 'products': lambda _: products(),
}


def main():
    if sys.argv[1] == '--list':
        return print(*PROGRAMS)
    run = PROGRAMS[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else None)
    for line in sys.stdin:
        _, threads, rounds = line.split()
        torch.set_num_threads(int(threads))
        print(*torch_gpt.seconds(run, int(rounds)), flush=True)


if __name__ == '__main__':
    main()

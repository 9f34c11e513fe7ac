#!/usr/bin/env python3
"""twin: the PyTorch twin of the programs of this folder. Trains the book's GPT, and the same model after each change on
the way to Llama, Qwen3 and Gemma 3, and prints the lines of the programs. They read their own text, without --book."""
import argparse
import ast
import re
from collections import Counter
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS, BATCH, EPOCHS = 400, 64, 64, 4, 2, 2, 12
HEAD_WIDTH = WIDTH // HEADS

GPT = {"norm": "layer", "positions": "learned", "feed_forward": "gelu", "key_heads": HEADS, "query_key_norm": False,
       "windows": [None] * LAYERS}
RMS_NORM = GPT | {"norm": "rms"}
ROTARY = RMS_NORM | {"positions": "rotary"}
SWIGLU = ROTARY | {"feed_forward": "swiglu"}
GROUPED = SWIGLU | {"key_heads": HEADS // 4}
QUERY_KEY_NORM = GROUPED | {"query_key_norm": True}
WINDOWS = QUERY_KEY_NORM | {"windows": [8, None]}

PROGRAMS = {
    "01_norm": (0.003, "layer norm, biases", GPT, "RMSNorm", RMS_NORM),
    "02_positions": (0.003, "learned positions", RMS_NORM, "rotary positions", ROTARY),
    "03_gate": (0.003, "GELU", ROTARY, "SwiGLU", SWIGLU),
    "04_groups": (0.003, "4 heads of keys", SWIGLU, "1 head of keys", GROUPED),
    "05_query_key_norm": (0.03, "Llama 3", GROUPED, "Qwen3", QUERY_KEY_NORM),
    "06_window": (0.003, "all tokens", QUERY_KEY_NORM, "a window of 8", WINDOWS),
}


# ---- the text ----

def merge(ids, pair, new):
    """Replaces each `pair` in the ids of a word, from the left, by the id `new`."""
    merged = []
    for id in ids:
        if merged and (merged[-1], id) == pair:
            merged[-1] = new
        else:
            merged.append(id)
    return merged


class Tokenizer:
    """GPT-2's byte-pair encoding, trained on a text. Of pairs that are equally frequent, the one with the smaller ids
    is merged first. The last id is that of <|endoftext|>."""
    # GPT-2's pattern, whose classes of letters and digits Python's re spells in this way
    WORDS = re.compile(r"'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")

    def __init__(self, text):
        printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
        order = printable + [byte for byte in range(256) if byte not in printable]
        self.id_of_byte = {byte: id for id, byte in enumerate(order)}
        self.merges = {}
        words = [(self.bytes_of(word), count) for word, count in Counter(self.WORDS.findall(text)).items()]
        for new in range(256, VOCABULARY - 1):
            pairs = Counter()
            for ids, count in words:
                for pair in zip(ids, ids[1:]):
                    pairs[pair] += count
            best = min(pairs, key=lambda pair: (-pairs[pair], pair))
            self.merges[best] = new
            words = [(merge(ids, best, new), count) for ids, count in words]

    def bytes_of(self, word):
        return [self.id_of_byte[byte] for byte in word.encode()]

    def encode(self, text):
        ids = []
        for word in self.WORDS.findall(text):
            part = self.bytes_of(word)
            for pair, new in self.merges.items():
                part = merge(part, pair, new)
            ids += part
        return ids


def read_own_text(path):
    literals = re.findall(r'"(?:\\.|[^"\\])*"', path.read_text().split("own_text[] =")[1])
    return "".join(ast.literal_eval(literal) for literal in literals)


def loader_of(ids, training):
    windows = [(torch.tensor(ids[i:i + CONTEXT]), torch.tensor(ids[i + 1:i + CONTEXT + 1]))
               for i in range(0, len(ids) - CONTEXT, CONTEXT)]
    return DataLoader(windows, BATCH, shuffle=training, drop_last=training)


# ---- the model ----

def norm_of(config, width):
    return nn.RMSNorm(width, eps=1e-5) if config["norm"] == "rms" else nn.LayerNorm(width, eps=1e-5)


def rotate(x):
    """Rotates the channels i and i + D/2 of queries or keys (B,H,T,D) at each position."""
    frequencies = 10000.0 ** (-torch.arange(0, HEAD_WIDTH, 2, dtype=torch.float64) / HEAD_WIDTH)
    angles = torch.outer(torch.arange(x.shape[2]), frequencies)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Attention(nn.Module):
    def __init__(self, config, window):
        super().__init__()
        self.config, self.window = config, window
        key_width = config["key_heads"] * HEAD_WIDTH
        self.W_query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.W_key = nn.Linear(WIDTH, key_width, bias=False)
        self.W_value = nn.Linear(WIDTH, key_width, bias=False)
        self.out_proj = nn.Linear(WIDTH, WIDTH, bias=config["norm"] == "layer")
        if config["query_key_norm"]:
            self.q_norm, self.k_norm = norm_of(config, HEAD_WIDTH), norm_of(config, HEAD_WIDTH)

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = (project(x).view(B, T, -1, HEAD_WIDTH) for project in (self.W_query, self.W_key, self.W_value))
        if self.config["query_key_norm"]:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (heads.transpose(1, 2) for heads in (q, k, v))
        if self.config["positions"] == "rotary":
            q, k = rotate(q), rotate(k)
        k, v = (heads.repeat_interleave(HEADS // self.config["key_heads"], dim=1) for heads in (k, v))
        distances = torch.arange(T).unsqueeze(-1) - torch.arange(T)
        seen = (distances >= 0) & (distances < (self.window or T))
        scores = (q @ k.mT / HEAD_WIDTH ** 0.5).masked_fill(~seen, -torch.inf)
        return self.out_proj((scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.is_gated = config["feed_forward"] == "swiglu"
        bias, hidden = config["norm"] == "layer", 8 * WIDTH // 3 if self.is_gated else 4 * WIDTH
        if self.is_gated:
            self.gate = nn.Linear(WIDTH, hidden, bias)
        self.up = nn.Linear(WIDTH, hidden, bias)
        self.down = nn.Linear(hidden, WIDTH, bias)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x) if self.is_gated else F.gelu(self.up(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, config, window):
        super().__init__()
        self.att = Attention(config, window)
        self.ff = FeedForward(config)
        self.norm1, self.norm2 = norm_of(config, WIDTH), norm_of(config, WIDTH)

    def forward(self, x):
        x = x + self.att(self.norm1(x))
        return x + self.ff(self.norm2(x))


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tok_emb = nn.Embedding(VOCABULARY, WIDTH)
        self.pos_emb = nn.Embedding(CONTEXT, WIDTH) if config["positions"] == "learned" else None
        self.trf_blocks = nn.ModuleList([Block(config, window) for window in config["windows"]])
        self.final_norm = norm_of(config, WIDTH)
        self.out_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        # GPT-2's initial values
        for name, x in self.named_parameters():
            if x.dim() > 1:
                onto_residual = name.endswith(("out_proj.weight", "down.weight"))
                nn.init.normal_(x, std=0.02 / (2 * LAYERS) ** 0.5 if onto_residual else 0.02)
            elif name.endswith("bias") and "norm" not in name:
                nn.init.zeros_(x)

    def forward(self, ids):
        x = self.tok_emb(ids)
        if self.pos_emb:
            x = x + self.pos_emb.weight[:ids.shape[1]]
        for block in self.trf_blocks:
            x = block(x)
        return self.out_head(self.final_norm(x))


# ---- the training ----

def cache_bytes(config):
    """A layer with a window W keeps at most the last 2 W tokens."""
    tokens = sum(min(2 * window, CONTEXT) if window else CONTEXT for window in config["windows"])
    return 2 * tokens * config["key_heads"] * HEAD_WIDTH * 4


def batch_loss(model, inputs, targets):
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


@torch.no_grad()
def mean_loss(model, loader):
    losses = [batch_loss(model, *batch).item() for _, batch in zip(range(5), loader)]
    return sum(losses) / len(losses)


def train_and_print(training, validation, lr, name, config):
    torch.manual_seed(123)
    # the draws are floats; the rest is computed in doubles, so that the figures do not hang on an order of sums
    model = Model(config).double()
    optim = torch.optim.AdamW(model.parameters(), lr=lr)
    loader = loader_of(training, True)
    for _ in range(EPOCHS):
        for inputs, targets in loader:
            loss = batch_loss(model, inputs, targets)
            optim.zero_grad()
            loss.backward()
            optim.step()
    parameters = sum(x.numel() for x in model.parameters())
    print(f"{name:24} {parameters:10} {cache_bytes(config):13} {mean_loss(model, loader):15.3f} "
          f"{mean_loss(model, loader_of(validation, False)):17.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", metavar="FILE", type=Path, default="examples/book/own_text.c")
    text = read_own_text(parser.parse_args().text)
    tokenizer, split = Tokenizer(text), len(text) * 9 // 10
    training, validation = tokenizer.encode(text[:split]), tokenizer.encode(text[split:])
    for program, (lr, *models) in PROGRAMS.items():
        print(f"{program:24} parameters  cache, bytes  loss, training  loss, validation")
        for name, config in zip(models[::2], models[1::2]):
            train_and_print(training, validation, lr, name, config)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""nanochat: a language model after Karpathy's nanochat (github.com/karpathy/nanochat, 2025), in small: rotary
positions, norms without weights, also of queries and keys, ReLU squared, and for each layer a table whose rows a
gate adds to the values of attention (Zhou et al. 2024). Muon trains the matrices, SparseAdam the rows of tables,
AdamW the rest, at the learning rates of a trapezoid. Prints losses, and the bits per byte of the end of the text,
which the training has not read; to stderr the speed."""
import argparse
import sys
import time
from collections import Counter, defaultdict

import regex
import torch
import torch.nn.functional as F
from torch import nn

T, BATCH, HEAD, GATE = 128, 16, 32, 32
# GPT-2's words, and its order of the bytes: the printable ones first
WORD = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTES = PRINTABLE + [byte for byte in range(256) if byte not in PRINTABLE]


def tokenize(text, vocabulary):
    """Trains byte pairs on the text. Returns its tokens, and the number of bytes of each token."""
    words = regex.findall(WORD, text)
    counts = Counter(words)
    tokens = {word: [BYTES.index(byte) for byte in word.encode()] for word in counts}
    sizes = [1] * 256
    frequency, where = Counter(), defaultdict(set)

    def count(word, sign):
        for pair in zip(tokens[word], tokens[word][1:]):
            frequency[pair] += sign * counts[word]
            where[pair].add(word)

    for word in counts:
        count(word, 1)
    # the last id is that of <|endoftext|>
    while len(sizes) < vocabulary - 1:
        most = max(frequency.values())
        if most < 2:
            break
        pair = min(pair for pair, n in frequency.items() if n == most)
        for word in where.pop(pair):
            count(word, -1)
            old, new = tokens[word], []
            while old:
                is_pair = tuple(old[:2]) == pair
                new.append(len(sizes) if is_pair else old[0])
                old = old[2 if is_pair else 1:]
            tokens[word] = new
            count(word, 1)
        del frequency[pair]
        sizes.append(sizes[pair[0]] + sizes[pair[1]])
    return torch.tensor([token for word in words for token in tokens[word]]), sizes


def uniform(rows, columns, bound):
    return nn.Parameter(torch.empty(rows, columns).uniform_(-bound, bound))


def zeros(rows, columns):
    return nn.Parameter(torch.zeros(rows, columns))


class Layer(nn.Module):
    """The matrices are (out,in)."""

    def __init__(self, C, V, values):
        super().__init__()
        bound = (3 / C) ** 0.5
        self.query = uniform(C, C, bound)
        self.key = uniform(C, C, bound)
        self.value = uniform(C, C, bound)
        self.project = zeros(C, C)
        self.expand = uniform(4 * C, C, bound)
        self.contract = zeros(C, 4 * C)
        self.is_sparse = values == "rows"
        if values != "none":
            self.gate = zeros(C // HEAD, GATE)
            self.values = uniform(V, C, bound)
        else:
            self.values = None

    def attention(self, x, ids):
        q, k = place(F.linear(x, self.query)), place(F.linear(x, self.key))
        v = split(F.linear(x, self.value))
        if self.values is not None:
            rows = F.embedding(ids, self.values, sparse=self.is_sparse)
            gate = 2 * torch.sigmoid(F.linear(x[..., :GATE], self.gate))
            v = v + gate.transpose(1, 2).unsqueeze(-1) * split(rows)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.linear(y.transpose(1, 2).flatten(2), self.project)

    def feed_forward(self, x):
        h = F.linear(x, self.expand).relu()
        return F.linear(h * h, self.contract)


class Model(nn.Module):
    def __init__(self, C, V, layers, values):
        super().__init__()
        self.tokens = nn.Parameter(torch.empty(V, C).normal_())
        self.head = nn.Parameter(torch.empty(V, C).normal_(std=0.001))
        self.layers = nn.ModuleList(Layer(C, V, values) for _ in range(layers))

    def loss(self, ids, starts):
        """Returns the mean loss of the texts that begin at the tokens starts (B)."""
        windows = ids[starts.unsqueeze(-1) + torch.arange(T + 1)]
        inputs, targets = windows[:, :-1], windows[:, 1:]
        x = norm(F.embedding(inputs, self.tokens, sparse=True))
        for layer in self.layers:
            x = x + layer.attention(norm(x), inputs)
            x = x + layer.feed_forward(norm(x))
        return F.cross_entropy(F.linear(norm(x), self.head).flatten(0, 1), targets.flatten())


def norm(x):
    return F.rms_norm(x, x.shape[-1:])


def split(x):
    """(B,T,C) -> (B,heads,T,HEAD)"""
    return x.unflatten(-1, (-1, HEAD)).transpose(1, 2)


ANGLES = torch.arange(T).unsqueeze(-1) * 10000 ** (torch.arange(HEAD // 2) / (-HEAD / 2))
SIN, COS = ANGLES.sin(), ANGLES.cos()


def place(x):
    """Rotates queries or keys by their positions, and normalizes them: (B,heads,T,HEAD)."""
    a, b = split(x).chunk(2, dim=-1)
    return norm(torch.cat([a * COS - b * SIN, b * COS + a * SIN], dim=-1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", metavar="FILE", default="examples/lighthouse.txt")
    parser.add_argument("--values", choices=["rows", "dense", "none"], default="rows")
    for name, default in dict(width=64, layers=4, vocabulary=512, steps=200, every=20).items():
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--rate", type=float, default=0.02)
    o = parser.parse_args()
    with open(o.text, encoding="utf-8", newline="") as file:
        ids, sizes = tokenize(file.read(), o.vocabulary)
    trained = len(ids) * 9 // 10

    torch.manual_seed(123)
    model = Model(o.width, o.vocabulary, o.layers, o.values)
    matrices = [p for name, p in model.named_parameters() if "layers" in name and "values" not in name]
    tables = [layer.values for layer in model.layers if o.values != "none"]
    rows, dense = [model.tokens], [model.head]
    (rows if o.values == "rows" else dense).extend(tables)
    optims = [torch.optim.Muon(matrices, lr=o.rate), torch.optim.SparseAdam(rows, lr=0.02),
              torch.optim.AdamW(dense, lr=0.005, weight_decay=0)]

    def trapezoid(step):
        return min(step / (o.steps // 10), 1, (o.steps - step) / (o.steps * 4 // 10))

    schedules = [torch.optim.lr_scheduler.LambdaLR(optim, trapezoid) for optim in optims]
    begin = time.monotonic()
    for step in range(o.steps):
        loss = model.loss(ids, torch.randint(0, trained - T, (BATCH,)))
        for optim in optims:
            optim.zero_grad()
        loss.backward()
        for optim, schedule in zip(optims, schedules):
            optim.step()
            schedule.step()
        if (step + 1) % o.every == 0:
            print(f"step {step + 1}: loss {loss.item():.4f}")
    print(f"{o.steps * BATCH * T / (time.monotonic() - begin):.0f} tokens per second", file=sys.stderr)

    # the nats of all targets, and their bytes
    nats, count = 0, 0
    for start in range(trained, len(ids) - T, T):
        with torch.no_grad():
            nats += T * model.loss(ids, torch.tensor([start])).item()
        count += sum(sizes[token] for token in ids[start + 1:start + T + 1])
    print(f"{nats / torch.tensor(2.0).log().item() / count:.4f} bits per byte of {count}")


if __name__ == "__main__":
    main()

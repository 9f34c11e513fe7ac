#!/usr/bin/env python3
"""Goldens of lib/data: token ids of tiktoken, and the order of batches of torch's DataLoader.

    make_data.py VOCAB_BPE      needs torch 2.13.0 and tiktoken; writes data/tokens.txt and data/batches.txt beside itself

VOCAB_BPE is the file of GPT-2's merges, which is not part of this project; the two written files are.
"""
import os
import sys

import tiktoken
import torch
from torch.utils.data import DataLoader, Dataset

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")

TEXTS = [
    "Every effort moves you", "Every day holds a", "hello world", "Hello, do you like tea?",
    "I'm you're we've they'll he'd it's 'tis DON'T don'T 's", "  leading and   inner  spaces and trailing   ",
    "tabs\tand\n\nnewlines\r\n  mixed \n \n", "1 22 333 4444 3.14159 1,000,000 ½ ٣ ४", "x" * 300, "0" * 17,
    "naïve café Ærøskøbing œuvre Straße", "Привет, мир! Как дела?", "日本語のテキスト、漢字とかな", "العربية עברית हिन्दी ไทย",
    "emoji 😀🎉👩‍👩‍👧‍👦 flags 🇫🇷", "int main(void) { return x->y[3] != 0 ? *p++ : ~q; } // done",
    "a\u180eb \u00a0nbsp\u2003em\u200bzero", "<|endoftext|>", "((((()))))----====****", "^ 0 a 's \n" * 20, " ", "\n", "",
]


def gpt2(path):
    """tiktoken's encoding from the merges alone: bytes first (printable ones before the others), then the merges."""
    printable = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    order = printable + [b for b in range(256) if b not in printable]
    shown = {b: chr(b) for b in printable}
    shown.update({b: chr(256 + i) for i, b in enumerate(order[188:])})
    back = {c: b for b, c in shown.items()}
    ranks = {bytes([b]): i for i, b in enumerate(order)}
    for line in open(path, encoding="utf-8").read().split("\n")[1:]:
        if line:
            token = bytes(back[c] for c in line.replace(" ", ""))
            ranks[token] = len(ranks)
    pattern = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    return tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})


def tokens(encoding):
    with open(os.path.join(HERE, "tokens.txt"), "w") as out:
        for text in TEXTS:
            ids = encoding.encode_ordinary(text)
            print(text.encode().hex() or "-", len(ids), *ids, file=out)


class Windows(Dataset):
    def __init__(self, count, length, stride):
        ids = list(range(1000, 1000 + count))
        self.inputs = [ids[i:i + length] for i in range(0, count - length, stride)]

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, i):
        return torch.tensor(self.inputs[i])


def batches():
    """One line a case: its numbers, then per pass the first id of each row of each batch; then one draw, which shows that
    the generator is where it should be."""
    with open(os.path.join(HERE, "batches.txt"), "w") as out:
        for count, length, stride, batch, shuffle, drop in [(50, 4, 1, 8, 1, 1), (50, 4, 4, 5, 1, 0), (50, 4, 1, 8, 0, 0),
                                                           (101, 10, 7, 3, 1, 1), (30, 29, 1, 1, 1, 1), (64, 8, 8, 2, 0, 1)]:
            torch.manual_seed(123)
            loader = DataLoader(Windows(count, length, stride), batch_size=batch, shuffle=bool(shuffle), drop_last=bool(drop))
            rows = [[int(b[r, 0]) for r in range(len(b))] for _ in range(3) for b in loader]
            flat = [v for b in rows for v in b]
            draw = int(torch.randint(0, 1 << 24, (1,)))
            print(count, length, stride, batch, shuffle, drop, len(rows), len(flat), *flat, draw, file=out)


if __name__ == "__main__":
    os.makedirs(HERE, exist_ok=True)
    tokens(gpt2(sys.argv[1]))
    batches()

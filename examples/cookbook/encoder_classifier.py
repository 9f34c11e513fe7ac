#!/usr/bin/env python3
"""encoder_classifier: which of two words comes first in a text, by one layer of a transformer's encoder (Vaswani et al.
2017) that reads the result at a word of its own, as BERT does. Texts have 5 to 8 words, and padding behind them.
Prints the loss of the last step, with dropout, and the accuracy without."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

FIRST, SECOND, READ, OTHERS = range(4)
WORDS, TEXTS, LENGTH, WIDTH, HEADS, STEPS = 20, 120, 8, 16, 2, 60


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, ids, lengths):
        """ids (TEXTS,LENGTH) and lengths (TEXTS) -> logits (TEXTS,2)"""
        padding = torch.arange(LENGTH) >= lengths.unsqueeze(-1)
        x = self.words(ids) + self.positions.weight
        x = self.layer(x, src_key_padding_mask=padding)
        return self.head(x[:, 0])


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.manual_seed(123)

    ids = torch.randint(OTHERS, WORDS, (TEXTS, LENGTH))
    lengths = torch.empty(TEXTS, dtype=torch.long)
    answers = torch.empty(TEXTS, dtype=torch.long)
    for i, text in enumerate(ids):
        others = 4 + i % 4
        first = 1 + i % others
        second = 1 + (first + i // 4 % (others - 1)) % others
        text[0] = READ
        text[first] = FIRST
        text[second] = SECOND
        lengths[i] = 1 + others
        answers[i] = second < first

    model = Model()
    optim = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        loss = F.cross_entropy(model(ids, lengths), answers)
        optim.zero_grad()
        loss.backward()
        optim.step()
    model.eval()
    right = (model(ids, lengths).argmax(-1) == answers).sum()
    print(f"loss {loss.item():.4f}, {right} of {TEXTS} right")


if __name__ == "__main__":
    main()

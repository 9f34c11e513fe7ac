#!/usr/bin/env python3
"""word2vec: skip-gram with negative sampling (Mikolov et al. 2013), on a text whose words follow each other in a
circle. Words that are close on the circle get similar vectors. Prints the loss of the last pass."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WORDS, TEXT, WIDTH, BATCH, NEGATIVES, PASSES = 20, 801, 8, 32, 5, 10


def scores(rows, others):
    """The dot products of rows (B,C) with rows (B,N,C) -> (B,N)."""
    return (others @ rows.unsqueeze(-1)).squeeze(-1)


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.manual_seed(123)
    words = nn.Embedding(WORDS, WIDTH)
    contexts = nn.Embedding(WORDS, WIDTH)

    # The text: each word is 1 to 3 words further on the circle. A pair is a word and the next one.
    steps = torch.randint(1, 4, (TEXT,))
    text = steps.cumsum(0) % WORDS
    pairs = TensorDataset(text[:-1], text[1:].unsqueeze(-1))
    loader = DataLoader(pairs, batch_size=BATCH, shuffle=True)
    optim = torch.optim.Adam([*words.parameters(), *contexts.parameters()], lr=0.02)

    for _ in range(PASSES):
        total = 0
        for word, following in loader:
            negatives = torch.randint(0, WORDS, (BATCH, NEGATIVES))
            center = words(word)
            right = scores(center, contexts(following))
            wrong = scores(center, contexts(negatives))
            loss = -(F.logsigmoid(right).mean() + F.logsigmoid(-wrong).mean())
            optim.zero_grad()
            loss.backward()
            optim.step()
            total += loss.item()
    print(f"loss {total / len(loader):.4f}")


if __name__ == "__main__":
    main()

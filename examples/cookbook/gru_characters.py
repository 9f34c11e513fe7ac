#!/usr/bin/env python3
"""gru_characters: a GRU that predicts the next character of a rhyme, and then writes it from its first letter. Prints
the loss of the last step and the text."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

# the id of a character is its index in the alphabet
ALPHABET = " abcdefghijklmnopqrstuvwxyz"
RHYME = "one two buckle my shoe three four knock at the door"

# LENGTH is that of the text to predict: all characters of the rhyme after the first one
CHARACTERS, LENGTH, WIDTH, STEPS = len(ALPHABET), len(RHYME) - 1, 32, 80


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.manual_seed(123)
    table = nn.Embedding(CHARACTERS, 8)
    gru = nn.GRU(8, WIDTH, batch_first=True)
    head = nn.Linear(WIDTH, CHARACTERS)
    parameters = [*table.parameters(), *gru.parameters(), *head.parameters()]
    optim = torch.optim.Adam(parameters, lr=0.02)

    ids = torch.tensor([[ALPHABET.index(c) for c in RHYME]])
    inputs, targets = ids[:, :-1], ids[:, 1:]
    for _ in range(STEPS):
        y, _ = gru(table(inputs))
        loss = F.cross_entropy(head(y).flatten(0, 1), targets.flatten())
        optim.zero_grad()
        loss.backward()
        optim.step()
    print(f"loss {loss.item():.3f}")

    text, state = RHYME[0], None
    id = inputs[:, :1]
    with torch.no_grad():
        for _ in range(LENGTH):
            y, state = gru(table(id), state)
            id = head(y).argmax(-1)
            text += ALPHABET[id.item()]
    print(text)


if __name__ == "__main__":
    main()

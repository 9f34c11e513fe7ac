#!/usr/bin/env python3
"""masked_language_model: BERT's objective (Devlin et al. 2019) on a story. 15 % of the words are targets: 80 % of
these are masked, 10 % become a random word, 10 % stay, and a layer of a transformer's encoder guesses them. The
vector of a token is the sum of three: its word, its position, and its type, here whether the word is spoken. The
model is trained with learned positions, and then with relative ones (Huang et al. 2020). Prints the loss of the last
step, and what the model guesses in the end of the story, which it has not read; then the same with padding in front
of each text, which moves the words to positions that were never trained. Distances stay."""
import argparse
import re
from collections import Counter
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

MASK, UNKNOWN, FIRST_WORD, NO_TARGET = 0, 1, 2, -100
T, SHIFT, WIDTH, HEADS, BATCH, STEPS, TEXTS = 16, 8, 64, 4, 32, 800, 180


class RelativeAttention(nn.Module):
    """Adds q[i] . E[i - j] + k[j] . E[i - j] to the scores of nn.MultiheadAttention: Huang et al. 2020, method 4."""

    def __init__(self, attention, distances):
        super().__init__()
        self.attention = attention
        self.distances = distances

    def forward(self, x, *_, key_padding_mask, **__):
        N, S, C = x.shape
        projected = F.linear(x, self.attention.in_proj_weight, self.attention.in_proj_bias)
        q, k, v = projected.view(N, S, 3, HEADS, C // HEADS).permute(2, 0, 3, 1, 4)
        positions = torch.arange(S)
        E = self.distances[positions.unsqueeze(-1) - positions + SHIFT + T - 1]
        bias = torch.einsum("nhid,ijd->nhij", q, E) + torch.einsum("nhjd,ijd->nhij", k, E)
        bias = bias / (C // HEADS) ** 0.5 + key_padding_mask[:, None, None]
        y = F.scaled_dot_product_attention(q, k, v, bias)
        return self.attention.out_proj(y.transpose(1, 2).flatten(2)), None


class Model(nn.Module):
    def __init__(self, is_relative, vocabulary):
        super().__init__()
        self.words = nn.Embedding(vocabulary, WIDTH)
        self.types = nn.Embedding(2, WIDTH)
        if is_relative:
            distances = nn.Parameter(torch.empty(2 * (SHIFT + T) - 1, WIDTH // HEADS))
            nn.init.normal_(distances, std=0.02)
            self.absolute = None
        else:
            self.absolute = nn.Embedding(SHIFT + T, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 2 * WIDTH, dropout=0, activation="gelu", batch_first=True)
        if is_relative:
            self.layer.self_attn = RelativeAttention(self.layer.self_attn, distances)
        self.head = nn.Linear(WIDTH, vocabulary)

    def forward(self, ids, types, shift):
        """ids and types (N,T) -> logits (N,T,V), with `shift` positions of padding in front of each text."""
        ids, types = F.pad(ids, (shift, 0)), F.pad(types, (shift, 0))
        padding = (torch.arange(shift + T) < shift).expand(len(ids), -1)
        x = self.words(ids)
        if self.absolute:
            x = x + self.absolute.weight[:shift + T]
        x = self.norm(x + self.types(types))
        x = self.layer(x, src_key_padding_mask=padding)
        return self.head(x[:, shift:])


class Story(NamedTuple):
    """The words of the story, whether each is spoken, and the number of words to train on."""
    words: torch.Tensor
    types: torch.Tensor
    vocabulary: int
    trained: int


def read_story(path):
    with open(path, encoding="utf-8") as file:
        words = [word for word in re.split(r'([,.:;?_!"()\']|--|\s)', file.read()) if word.strip()]
    frequent = [(-count, word) for word, count in Counter(words).items() if count > 1]
    vocabulary = ["[MASK]", "<|unk|>"] + [word for _, word in sorted(frequent)]
    id_of = {word: i for i, word in enumerate(vocabulary)}
    # a word is spoken if the number of quotes before it is odd
    quotes = torch.tensor([word == '"' for word in words]).int()
    types = (quotes.cumsum(0) - quotes) % 2
    words = torch.tensor([id_of.get(word, UNKNOWN) for word in words])
    return Story(words, types, len(vocabulary), len(words) - TEXTS * (T // 4) - T)


def mask_words(story, starts):
    """Returns N texts of T words that begin at these words: what the model reads, their types, and what it guesses;
    (N,T) each."""
    windows = starts.unsqueeze(-1) + torch.arange(T)
    target, kind = torch.rand(2, *windows.shape)
    random = torch.randint(FIRST_WORD, story.vocabulary, windows.shape)
    words = story.words[windows]
    masked = torch.where(kind < 0.8, MASK, torch.where(kind < 0.9, random, words))
    is_target = target < 0.15
    return torch.where(is_target, masked, words), story.types[windows], torch.where(is_target, words, NO_TARGET)


def run(is_relative, story):
    """Trains a model with one kind of positions, and prints what it guesses in the texts that were held out."""
    torch.manual_seed(123)
    model = Model(is_relative, story.vocabulary)
    optim = torch.optim.Adam(model.parameters(), lr=0.003)
    for _ in range(STEPS):
        starts = torch.randint(0, story.trained - T, (BATCH,))
        inputs, types, targets = mask_words(story, starts)
        loss = F.cross_entropy(model(inputs, types, 0).flatten(0, 1), targets.flatten())
        optim.zero_grad()
        loss.backward()
        optim.step()
    print(f"{'relative' if is_relative else 'absolute'}: loss {loss.item():.2f}", end="")

    model.eval()
    torch.manual_seed(123)
    starts = torch.arange(story.trained, story.trained + TEXTS * (T // 4), T // 4)
    inputs, types, targets = mask_words(story, starts)
    for shift in 0, SHIFT:
        with torch.no_grad():
            logits = model(inputs, types, shift)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        right = (logits.argmax(-1) == targets).sum()
        count = (targets != NO_TARGET).sum()
        print(f"; {'shifted' if shift else 'held out'} {loss.item():.2f}, {right} of {count} right", end="")
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", metavar="FILE", default="examples/lighthouse.txt")
    story = read_story(parser.parse_args().text)
    # the layer's fast path does not call its self_attn, which can be a RelativeAttention
    torch.backends.mha.set_fastpath_enabled(False)
    run(False, story)
    run(True, story)


if __name__ == "__main__":
    main()

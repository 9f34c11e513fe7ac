#!/usr/bin/env python3
"""The twins of examples/cookbook in torch 2.13.0, with the same seeds and the same draws. Prints the figures that
tests/meson.build compares."""
import collections
import os
import re

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")


def word2vec():
    words, contexts = nn.Embedding(20, 8), nn.Embedding(20, 8)
    steps = torch.randint(1, 4, (801,))
    text = steps.cumsum(0) % 20
    loader = DataLoader(TensorDataset(text[:-1], text[1:, None]), batch_size=32, shuffle=True)
    optim = torch.optim.Adam([*words.parameters(), *contexts.parameters()], lr=0.02)
    for _ in range(10):
        total = 0
        for center, context in loader:
            negatives = torch.randint(0, 20, (32, 5))
            rows = words(center)[:, :, None]
            loss = -(F.logsigmoid(contexts(context) @ rows).mean() + F.logsigmoid(-(contexts(negatives) @ rows)).mean())
            optim.zero_grad()
            loss.backward()
            optim.step()
            total += loss.item()
    return "loss %.4f" % (total / len(loader))


def recommender():
    users = torch.empty(30, 2).normal_()
    user = torch.randint(0, 30, (500,))
    items = torch.empty(20, 2).normal_()
    item = torch.randint(0, 20, (500,))
    ratings = (users[user] * items[item]).sum(1)
    training, held_out = random_split(TensorDataset(user, item, ratings), [400, 100])
    loader = DataLoader(training, batch_size=50, shuffle=True)
    tables = [nn.Embedding(30, 4), nn.Embedding(20, 4), nn.Embedding(30, 1), nn.Embedding(20, 1)]
    optim = torch.optim.Adam([table.weight for table in tables], lr=0.05)

    def predict(user, item):
        return (tables[0](user) * tables[1](item)).sum(1) + (tables[2](user) + tables[3](item)).squeeze(1)

    for _ in range(20):
        for user, item, rating in loader:
            loss = F.mse_loss(predict(user, item), rating)
            optim.zero_grad()
            loss.backward()
            optim.step()
    user, item, rating = held_out.dataset[held_out.indices]
    return "held-out loss %.3f" % F.mse_loss(predict(user, item), rating).item()


def bag_classifier():
    words = torch.randint(0, 30, (240, 6))
    topics = torch.arange(240) % 3
    words[:, ::2] = topics[:, None] * 10 + words[:, ::2] % 10
    bag, head = nn.EmbeddingBag(30, 8), nn.Linear(8, 3)
    optim = torch.optim.Adam([*bag.parameters(), *head.parameters()], lr=0.05)
    for _ in range(100):
        logits = head(bag(words))
        loss = F.cross_entropy(logits, topics)
        optim.zero_grad()
        loss.backward()
        optim.step()
    return "loss %.4f, %d of 240 right" % (loss.item(), (logits.argmax(1) == topics).sum())


def encoder_classifier():
    ids = torch.randint(3, 20, (120, 8))
    lengths, answers = torch.zeros(120, dtype=torch.int64), torch.zeros(120, dtype=torch.int64)
    for i in range(120):
        others = 4 + i % 4
        first = 1 + i % others
        second = 1 + (first + i // 4 % (others - 1)) % others
        lengths[i], answers[i] = others + 1, second < first
        ids[i, 0], ids[i, first], ids[i, second] = 2, 0, 1
    padding = torch.arange(8) >= lengths[:, None]
    words, positions = nn.Embedding(20, 16), nn.Embedding(8, 16)
    layer, head = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), nn.Linear(16, 2)
    optim = torch.optim.Adam([p for part in (words, positions, layer, head) for p in part.parameters()], lr=0.01)

    def forward():
        return head(layer(words(ids) + positions.weight, src_key_padding_mask=padding)[:, 0])

    for _ in range(60):
        loss = F.cross_entropy(forward(), answers)
        optim.zero_grad()
        loss.backward()
        optim.step()
    layer.eval()
    return "loss %.4f, %d of 120 right" % (loss.item(), (forward().argmax(1) == answers).sum())


def gru_characters():
    rhyme = "one two buckle my shoe three four knock at the door"
    ids = torch.tensor([[0 if c == " " else ord(c) - ord("a") + 1 for c in rhyme]])
    table, gru, head = nn.Embedding(27, 8), nn.GRU(8, 32, batch_first=True), nn.Linear(32, 27)
    optim = torch.optim.Adam([*table.parameters(), *gru.parameters(), *head.parameters()], lr=0.02)
    for _ in range(80):
        logits = head(gru(table(ids[:, :-1]))[0])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        optim.zero_grad()
        loss.backward()
        optim.step()
    return "loss %.3f" % loss.item()


def digits():
    source = os.path.join(EXAMPLES, "cookbook", "digits.c")
    glyphs = re.findall(r'"([ #]{35})"', open(source).read())
    font = torch.tensor([[float(c == "#") for c in glyph] for glyph in glyphs]).reshape(10, 7, 5)
    hidden, head = nn.Linear(63, 32), nn.Linear(32, 10)
    optim = torch.optim.Adam([*hidden.parameters(), *head.parameters()], lr=0.01)
    labels = torch.arange(50) % 10
    for _ in range(150):
        pictures = torch.empty(50, 63).normal_(0, 0.2).reshape(50, 9, 7)
        for i, (right, down) in enumerate(torch.randint(0, 3, (50, 2)).tolist()):
            pictures[i, down:down + 7, right:right + 5] += font[i % 10]
        logits = head(F.relu(hidden(pictures.reshape(50, 63))))
        loss = F.cross_entropy(logits, labels)
        optim.zero_grad()
        loss.backward()
        optim.step()
    return "loss %.3f, %d of 50 right" % (loss.item(), (logits.argmax(1) == labels).sum())


class RelativeAttention(nn.MultiheadAttention):
    """Adds q . E[i - j] + k . E[i - j] to the scores: Huang et al. 2020, method 4."""

    def __init__(self, width, heads, context, distances):
        super().__init__(width, heads, batch_first=True)
        self.distances, self.context = distances, context

    def forward(self, x, *_, key_padding_mask, **__):
        B, T, C = x.shape
        projected = F.linear(x, self.in_proj_weight, self.in_proj_bias)
        q, k, v = projected.view(B, T, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        rows = torch.arange(T)[:, None] - torch.arange(T) + self.context - 1
        E = self.distances.weight[rows]
        bias = torch.einsum("bhid,ijd->bhij", q, E) + torch.einsum("bhjd,ijd->bhij", k, E)
        bias = bias / q.shape[-1] ** 0.5 + key_padding_mask[:, None, None]
        y = F.scaled_dot_product_attention(q, k, v, bias)
        # (T,B,C) in memory, as in MultiheadAttention: a dropout of the result draws in this order
        return self.out_proj(y.permute(2, 0, 1, 3).reshape(T, B, C)).transpose(0, 1), None


class MaskedLanguageModel(nn.Module):
    def __init__(self, vocabulary, is_relative, width=64, heads=4, context=24):
        super().__init__()
        self.words, self.types = nn.Embedding(vocabulary, width), nn.Embedding(2, width)
        self.positions = None if is_relative else nn.Embedding(context, width)
        distances = nn.Embedding(2 * context - 1, width // heads, _weight=torch.empty(2 * context - 1, width // heads))
        if is_relative:
            nn.init.normal_(distances.weight, 0, 0.02)
        self.norm = nn.LayerNorm(width)
        self.layer = nn.TransformerEncoderLayer(width, heads, 2 * width, 0, "gelu", batch_first=True)
        self.head = nn.Linear(width, vocabulary)
        if is_relative:
            with torch.random.fork_rng():
                attention = RelativeAttention(width, heads, context, distances)
            attention.load_state_dict({**self.layer.self_attn.state_dict(), "distances.weight": distances.weight})
            self.layer.self_attn = attention

    def forward(self, ids, types, shift):
        ids, types = F.pad(ids, (shift, 0)), F.pad(types, (shift, 0))
        x = self.words(ids)
        x = x if self.positions is None else x + self.positions.weight[:ids.shape[1]]
        padding = (torch.arange(ids.shape[1]) < shift).expand(len(ids), -1)
        x = self.layer(self.norm(x + self.types(types)), src_key_padding_mask=padding)
        return self.head(x[:, shift:])


def masked_language_model():
    text = open(os.path.join(EXAMPLES, "lighthouse.txt")).read()
    story = [word for word in re.split(r'([,.:;?_!"()\']|--|\s)', text) if word.strip()]
    counts = collections.Counter(story)
    order = ["[MASK]", "<|unk|>"] + sorted((w for w in counts if counts[w] > 1), key=lambda w: (-counts[w], w))
    ids = {word: i for i, word in enumerate(order)}
    words = torch.tensor([ids.get(w, 1) for w in story])
    types = torch.tensor([story[:i].count('"') % 2 for i in range(len(story))])
    trained = len(words) - 180 * 4 - 16

    def mask(starts):
        windows = torch.as_tensor(starts)[:, None] + torch.arange(16)
        kind, which = torch.empty(2, *windows.shape).uniform_().unbind()[::-1]
        random = torch.randint(2, len(order), windows.shape)
        targets = words[windows]
        masked = targets.where(kind >= 0.9, random).where(kind >= 0.8, torch.tensor(0)).where(which < 0.15, targets)
        return masked, types[windows], targets.where(which < 0.15, torch.tensor(-100))

    def run(is_relative):
        torch.manual_seed(123)
        model = MaskedLanguageModel(len(order), is_relative)
        optim = torch.optim.Adam(model.parameters(), lr=0.003)
        for _ in range(800):
            inputs, kinds, targets = mask(torch.randint(0, trained - 16, (32,)))
            loss = F.cross_entropy(model(inputs, kinds, 0).flatten(0, 1), targets.flatten())
            optim.zero_grad()
            loss.backward()
            optim.step()
        line = "%s: loss %.2f" % ("relative" if is_relative else "absolute", loss.item())
        model.eval()
        torch.manual_seed(123)
        inputs, kinds, targets = mask([trained + 4 * i for i in range(180)])
        for shift in 0, 8:
            logits = model(inputs, kinds, shift)
            held_out = F.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()
            right = (logits.argmax(-1) == targets).sum(), (targets >= 0).sum()
            line += "; %s %.2f, %d of %d right" % ("shifted" if shift else "held out", held_out, *right)
        return line

    return run(False) + "\n" + run(True)


for recipe in (bag_classifier, digits, encoder_classifier, gru_characters, masked_language_model, recommender, word2vec):
    torch.manual_seed(123)
    print("%s: %s" % (recipe.__name__, recipe()))

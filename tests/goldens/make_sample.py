#!/usr/bin/env python3
"""Writes sample.txt for tests/models/test_sample.c: the next token with PyTorch 2.13 and transformers 5.24.

    python3 make_sample.py > sample.txt

Each line: vocabulary, temperature (0: greedy), top_k (-1: all), top_p, min_p, repetition_penalty, then 40 ids (8 of the
large vocabulary) drawn with one generator of seed 123. The logits are the values of logits() in the test. top_p keeps the
fewest most probable tokens whose probabilities sum to at least p (Holtzman et al. 2020).

The lines of TEXTS are those of transformers: the processors that its generate makes from these options, in its order. The
text begins with the ids 7, 3, 49, 3, and each id that is drawn becomes a part of it.
"""
import torch
from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel

SMALL = [(1, -1, 1), (0.5, -1, 1), (3, -1, 1), (1, 1, 1), (1, 5, 1), (2, 20, 1), (1, -1, 0.5), (1, -1, 0.05),
         (2, 10, 0.8), (1, 50, 0.999)]
LARGE = [(1, -1, 1), (0.7, 1000, 1), (1.5, -1, 0.9), (10, 30000, 0.5)]
TEXTS = [(0, -1, 1, 0, 1.3), (0, -1, 1, 0, 0.8), (1, -1, 1, 0, 1.5), (1, -1, 1, 0.1, 1), (0.7, -1, 1, 0.02, 1),
         (3, -1, 1, 0.4, 1.2), (2, 20, 0.9, 0.3, 1), (1.5, 30, 0.8, 0.05, 1.1), (2, 10, 1, 0.9, 0.7), (1, -1, 1, 1, 1)]
LARGE_TEXTS = [(1.5, 30000, 0.95, 0.05, 1.5), (4, -1, 1, 0.3, 0.9)]


def values(vocabulary, scale):
    return torch.tensor([((i * 37) % vocabulary) * scale - 3 for i in range(vocabulary)])


def line(vocabulary, scale, draws, temperature, top_k, top_p):
    logits = values(vocabulary, scale)
    torch.manual_seed(123)
    ids = []
    for _ in range(draws):
        kept = logits.clone()
        if top_k > 0:
            kept[kept < torch.topk(kept, top_k).values[-1]] = -torch.inf
        p = torch.softmax(kept / temperature, 0)
        order = torch.argsort(p, descending=True, stable=True)
        before = torch.cumsum(p[order].double(), 0) - p[order].double()
        p[order[before >= top_p]] = 0
        ids.append(torch.multinomial(p, 1).item())
    print(vocabulary, temperature, top_k, top_p, 0, 1, *ids)


def line_of_transformers(vocabulary, scale, draws, temperature, top_k, top_p, min_p, penalty):
    greedy = temperature == 0
    options = {} if greedy else {'temperature': float(temperature), 'top_k': max(top_k, 0), 'top_p': top_p, 'min_p': min_p}
    config = GenerationConfig(do_sample=not greedy, repetition_penalty=float(penalty), **options)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=1, n_positions=1, n_embd=1, n_layer=1, n_head=1))
    processors = model._get_logits_processor(config, input_ids_seq_length=4)
    text = [7, 3, 49, 3]
    torch.manual_seed(123)
    for _ in range(draws):
        scores = processors(torch.tensor([text]), values(vocabulary, scale)[None])
        id = scores.argmax(-1) if greedy else torch.multinomial(torch.softmax(scores, -1), 1)
        text.append(id.item())
    print(vocabulary, temperature, top_k, top_p, min_p, penalty, *text[4:])


def main():
    for options in SMALL:
        line(50, 2.0**-3, 40, *options)
    for options in LARGE:
        line(50257, 2.0**-12, 8, *options)
    for options in TEXTS:
        line_of_transformers(50, 2.0**-3, 40, *options)
    for options in LARGE_TEXTS:
        line_of_transformers(50257, 2.0**-12, 8, *options)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""bag_classifier: the topic of a text from the mean of its words' vectors (Joulin et al. 2016). Words 0 to 9 belong to
topic 0, words 10 to 19 to topic 1, and so on; a text has three words of its topic and three of any. Prints the loss
of the last step, and the accuracy."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

TOPICS, WORDS_OF_TOPIC, WORDS, TEXTS, LENGTH, STEPS = 3, 10, 30, 240, 6, 100


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.manual_seed(123)

    # every other word is one of the topic
    texts = torch.randint(0, WORDS, (TEXTS, LENGTH))
    topics = torch.arange(TEXTS) % TOPICS
    texts[:, ::2] = topics.unsqueeze(-1) * WORDS_OF_TOPIC + texts[:, ::2] % WORDS_OF_TOPIC

    bag = nn.EmbeddingBag(WORDS, 8)
    head = nn.Linear(8, TOPICS)
    optim = torch.optim.Adam([*bag.parameters(), *head.parameters()], lr=0.05)
    for _ in range(STEPS):
        logits = head(bag(texts))
        loss = F.cross_entropy(logits, topics)
        optim.zero_grad()
        loss.backward()
        optim.step()
    right = (logits.argmax(-1) == topics).sum()
    print(f"loss {loss.item():.4f}, {right} of {TEXTS} right")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""recommender: ratings from the vectors of users and items (matrix factorization, Koren et al. 2009). The ratings are
made from hidden vectors, and a fifth of them is held out. Prints the error of the held-out ratings."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

USERS, ITEMS, RATINGS, HELD_OUT, BATCH, WIDTH, PASSES = 30, 20, 500, 100, 50, 4, 20


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(USERS, WIDTH)
        self.items = nn.Embedding(ITEMS, WIDTH)
        self.user_bias = nn.Embedding(USERS, 1)
        self.item_bias = nn.Embedding(ITEMS, 1)

    def forward(self, user, item):
        """Users and items (B) -> ratings (B): user . item + bias of the user + bias of the item."""
        products = self.users(user) * self.items(item)
        biases = self.user_bias(user) + self.item_bias(item)
        return products.sum(-1) + biases.squeeze(-1)


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.manual_seed(123)

    # A rating is the product of two hidden vectors: the taste of the user, and the style of the item.
    tastes = torch.randn(USERS, 2)
    users = torch.randint(0, USERS, (RATINGS,))
    styles = torch.randn(ITEMS, 2)
    items = torch.randint(0, ITEMS, (RATINGS,))
    products = tastes[users] * styles[items]
    data = TensorDataset(users, items, products.sum(-1))

    training, held_out = random_split(data, [RATINGS - HELD_OUT, HELD_OUT])
    held_out = DataLoader(held_out, batch_size=HELD_OUT)
    training = DataLoader(training, batch_size=BATCH, shuffle=True)

    model = Model()
    optim = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(PASSES):
        for user, item, rating in training:
            loss = F.mse_loss(model(user, item), rating)
            optim.zero_grad()
            loss.backward()
            optim.step()
    user, item, rating = next(iter(held_out))
    loss = F.mse_loss(model(user, item), rating)
    print(f"held-out loss {loss.item():.3f}")


if __name__ == "__main__":
    main()

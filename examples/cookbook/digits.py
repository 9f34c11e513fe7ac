#!/usr/bin/env python3
"""digits: pictures of the ten digits in a font of 5 x 7 dots, shifted and noisy, read by two layers. Every step draws
new pictures. Prints the loss of the last step, and the accuracy of its pictures."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

HEIGHT, WIDTH, PICTURES, STEPS = 9, 7, 50, 150

FONT = [" ### #   ##  ### # ###  ##   # ### ", "  #   ##    #    #    #    #   ### ",
        " ### #   #    #   #   #   #   #####", "#####   #   #     #     ##   # ### ",
        "   #   ##  # # #  # #####   #    # ", "######    ####     #    ##   # ### ",
        "  ##  #   #    #### #   ##   # ### ", "#####    #   #   #   #    #    #   ",
        " ### #   ##   # ### #   ##   # ### ", " ### #   ##   # ####    #   #  ##  "]


def draw(picture, dots, right, down):
    """Draws a digit, moved right and down by the shifts, which are 0 to 2."""
    dots = torch.tensor([dot == "#" for dot in dots]).view(7, 5)
    picture[down:down + 7, right:right + 5] += dots


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.manual_seed(123)
    hidden = nn.Linear(HEIGHT * WIDTH, 32)
    head = nn.Linear(32, 10)
    optim = torch.optim.Adam([*hidden.parameters(), *head.parameters()], lr=0.01)

    digits = torch.arange(PICTURES) % 10
    for _ in range(STEPS):
        pictures = torch.normal(0, 0.2, (PICTURES, HEIGHT * WIDTH))
        shifts = torch.randint(0, 3, (PICTURES, 2))
        for picture, digit, (right, down) in zip(pictures, digits, shifts):
            draw(picture.view(HEIGHT, WIDTH), FONT[digit], right, down)
        logits = head(F.relu(hidden(pictures)))
        loss = F.cross_entropy(logits, digits)
        optim.zero_grad()
        loss.backward()
        optim.step()
    right = (logits.argmax(-1) == digits).sum()
    print(f"loss {loss.item():.3f}, {right} of {PICTURES} right")


if __name__ == "__main__":
    main()

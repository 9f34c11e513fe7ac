#!/usr/bin/env python3
"""dpo: direct preference optimization (Rafailov et al. 2023, equation 7). The model has learned to answer sums with
two digits, 12, and half of the time with the last one alone, 2. From now on two digits are preferred. With the
probabilities p of answers, and p0 of the model before the training, the margin of a pair of answers and the loss are

    m = beta (log p(12) / p0(12) - log p(2) / p0(2)),    -mean log sigmoid(m)

Prints the loss of a step and its mean margin; the mean margin of pairs of other sums, and how many of these are
above 0; and the right answers of both kinds before and after the training."""
import argparse

import torch
import torch.nn.functional as F

from post_training import (SUMS, VOCABULARY, Decoder, answers_of, copy_of, count_right, log_probs_of, make_chats,
                           reference_log_probs, step_down, train_on_answers)

WIDTH, LAYERS, START, PAIRS, HELD_OUT, STEPS, SHOWN = 32, 2, 500, 32, 45, 60, 15
BETA, RATE = 0.1, 0.0003


def margins_of(decoder, reference, sums):
    """Returns the margins of pairs (N). Pair i is the rows i and N + i of the chats."""
    N = len(sums)
    twice = sums.repeat(2, 1)
    ids, targets = make_chats(twice, answers_of(twice.sum(1), N * [2] + N * [1]))
    log_p0 = reference_log_probs(reference, decoder, ids, targets).sum(1)
    log_p = log_probs_of(decoder, ids, targets).sum(1)
    preferred, other = (BETA * (log_p - log_p0)).view(2, N)
    return preferred - other


def print_held_out(decoder, reference, sums):
    """Prints the margins of the sums that are held out."""
    with torch.no_grad():
        margins = margins_of(decoder, reference, sums)
    print(f"; held out: margin {margins.mean():.3f}, {(margins > 0).sum()} of {HELD_OUT} above 0")


def print_right(decoder, when):
    two_digits, one = count_right(decoder, 2), count_right(decoder, 1)
    print(f"{when}: of {SUMS} sums {two_digits} right with two digits, {one} with one")


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.manual_seed(123)
    decoder = Decoder(VOCABULARY, WIDTH, LAYERS)
    train_on_answers(decoder, START, 0.5)
    reference = copy_of(decoder)
    optim = torch.optim.AdamW(decoder.parameters(), lr=RATE)
    print_right(decoder, "before")

    # the model learns from sums a + b with a >= b, and the others are held out
    held_out = torch.tensor([(a, b) for a in range(10) for b in range(a + 1, 10)])
    for step in range(1, STEPS + 1):
        sums = torch.randint(0, 10, (PAIRS, 2)).sort(1, descending=True).values
        margins = margins_of(decoder, reference, sums)
        loss = -F.logsigmoid(margins).mean()
        step_down(optim, decoder, loss)
        if step % SHOWN == 0:
            print(f"step {step}: loss {loss:.3f}, margin {margins.mean():.3f}", end="")
            print_held_out(decoder, reference, held_out)
    print_right(decoder, "after")


if __name__ == "__main__":
    main()

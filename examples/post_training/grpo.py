#!/usr/bin/env python3
"""grpo: group relative policy optimization (Shao et al. 2024, DeepSeekMath, equations 3 and 4). The model answers each
sum several times. A right answer gets the reward 1, any other 0. The advantage of an answer is its reward less the
mean of its group, divided by the group's standard deviation. With r, the probability of a token divided by that with
which it was drawn, and q, its probability in the model before the training divided by the present one, the loss is

    -mean over answers of mean over tokens of min(r A, clip(r, 1 - e, 1 + e) A) - beta (q - log q - 1)

Prints for three seeds the right answers before and after the training, and the mean reward of the first and last
steps. --curve FILE draws the rewards."""
import argparse

import torch

from post_training import (LENGTH, QUESTION, SUMS, VOCABULARY, Decoder, answer_sums, are_right, copy_of, count_right,
                           group_advantages, lengths_of, log_probs_of, make_chats, reference_log_probs, step_down,
                           train_on_answers)

SEEDS, WIDTH, LAYERS, START, GROUPS, GROUP = 3, 32, 2, 200, 12, 8
TEXTS = GROUPS * GROUP
STEPS, UPDATES, SHOWN = 200, 2, 10
CLIP, BETA, RATE = 0.2, 0.01, 0.001


def grpo_loss(log_probs, drawn, reference, advantages, weights):
    """The loss of answers with these log-probabilities (TEXTS,LENGTH): of the present model, of the one that drew the
    answers, and of the reference. advantages (TEXTS,1); weights (TEXTS,LENGTH) take the mean over tokens and
    answers."""
    ratio = (log_probs - drawn).exp()
    gain = torch.minimum(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages)
    log_q = reference - log_probs
    divergence = log_q.exp() - log_q - 1
    return -((gain - BETA * divergence) * weights).sum()


def learn(decoder, reference, optim):
    """Answers GROUPS sums GROUP times each, and learns from the rewards. Returns their mean."""
    sums = torch.randint(0, 10, (GROUPS, 2)).repeat_interleave(GROUP, 0)
    answers, drawn = answer_sums(decoder, sums, False)
    rewards = are_right(sums, answers, 2).double()
    advantages = group_advantages(rewards.view(GROUPS, GROUP)).view(TEXTS, 1)
    ids, targets = make_chats(sums, answers)
    is_answer = targets >= 0
    all_drawn = torch.zeros(TEXTS, LENGTH)
    all_drawn[:, QUESTION - 1:] = drawn
    all_drawn *= is_answer
    weights = is_answer / lengths_of(answers)[:, None] / TEXTS
    of_reference = reference_log_probs(reference, decoder, ids, targets)
    for _ in range(UPDATES):
        log_probs = log_probs_of(decoder, ids, targets)
        step_down(optim, decoder, grpo_loss(log_probs, all_drawn, of_reference, advantages, weights))
    return rewards.mean().item()


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    for seed in range(1, SEEDS + 1):
        torch.manual_seed(seed)
        decoder = Decoder(VOCABULARY, WIDTH, LAYERS)
        train_on_answers(decoder, START, 1)
        reference = copy_of(decoder)
        optim = torch.optim.AdamW(decoder.parameters(), lr=RATE)
        print(f"seed {seed}: {count_right(decoder)} of {SUMS} sums right before, ", end="")
        rewards = [learn(decoder, reference, optim) for _ in range(STEPS)]
        first, last = sum(rewards[:SHOWN]) / SHOWN, sum(rewards[-SHOWN:]) / SHOWN
        print(f"{count_right(decoder)} after; reward {first:.3f} in the first steps, {last:.3f} in the last")


if __name__ == "__main__":
    main()

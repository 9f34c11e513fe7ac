#!/usr/bin/env python3
"""distillation: a small model learns from a larger one (Hinton et al. 2015). With the logits s of the student and z of
the teacher at the tokens of answers, and a temperature T, the loss is

    T^2 mean over tokens of KL(softmax(z / T) || softmax(s / T))

Prints the right answers of the teacher; and those of a student that learns from it, and of the same student that
learns from the right answers alone, with their losses on these in the last steps."""
import argparse

import torch
import torch.nn.functional as F

from post_training import (QUESTION, SUMS, VOCABULARY, Decoder, answers_of, check_tokens, copy_of, count_right,
                           make_chats, step_down, train_on_answers)

WIDTH, LAYERS, START, SMALL_WIDTH, SMALL_LAYERS, BATCH, STEPS, SHOWN = 32, 2, 800, 16, 1, 32, 250, 100
TEMPERATURE, RATE = 2, 0.003


def answer_logits(decoder, ids):
    """Returns the logits at the tokens of answers, (N,V)."""
    return decoder(ids)[:, QUESTION - 1:].flatten(0, 1)


def distillation_loss(logits, of_teacher):
    log_p = (logits / TEMPERATURE).log_softmax(1)
    log_target = (of_teacher / TEMPERATURE).log_softmax(1)
    return F.kl_div(log_p, log_target, log_target=True, reduction="batchmean") * TEMPERATURE ** 2


def teach(student, teacher):
    """Trains a student, which learns from the answers if there is no teacher."""
    optim = torch.optim.AdamW(student.parameters(), lr=RATE)
    losses = []
    for _ in range(STEPS):
        sums = torch.randint(0, 10, (BATCH, 2))
        ids, targets = make_chats(sums, answers_of(sums.sum(1), BATCH * [2]))
        logits = answer_logits(student, ids)
        loss = F.cross_entropy(logits, targets[:, QUESTION - 1:].flatten())
        losses.append(loss.item())
        if teacher:
            with torch.no_grad():
                of_teacher = answer_logits(teacher, ids)
            loss = distillation_loss(logits, of_teacher)
        step_down(optim, student, loss)
    last = sum(losses[-SHOWN:]) / SHOWN
    print(f"from the {'teacher' if teacher else 'answers'}: loss {last:.3f}, "
          f"{count_right(student)} of {SUMS} sums right")


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.manual_seed(123)
    teacher = Decoder(VOCABULARY, WIDTH, LAYERS)
    train_on_answers(teacher, START, 1)
    print(f"teacher: {count_right(teacher)} of {SUMS} sums right")
    student = Decoder(VOCABULARY, SMALL_WIDTH, SMALL_LAYERS)
    same = copy_of(student)
    check_tokens(teacher, student)
    teach(student, teacher)
    torch.manual_seed(123)
    teach(same, None)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Counts of right predictions and confusion matrices by torch 2.13.0 and scikit-learn's rule, with ties, NaN and ignored
targets. Writes metrics.txt beside itself: per case the numbers of rows and classes, ignore_index, the numbers of right and
of all predictions, the logits, the targets and the matrix."""
import os

import torch


def case(rows, classes, ignored, ties):
    logits = torch.randn(rows, classes)
    if ties:
        logits = logits.mul(1.5).round()
        logits[rows // 2, classes // 2] = torch.nan
        logits[1] = -torch.inf
    targets = torch.randint(0, classes, (rows,))
    targets[torch.rand(rows) < 0.25] = ignored
    counts = targets != ignored
    predictions = logits.argmax(1)
    matrix = torch.zeros(classes, classes, dtype=torch.int64)
    for target, prediction in zip(targets[counts].tolist(), predictions[counts].tolist()):
        matrix[target, prediction] += 1
    right = (predictions == targets)[counts].sum().item()
    numbers = [rows, classes, ignored, right, counts.sum().item(), *logits.flatten().tolist(), *targets.tolist(),
               *matrix.flatten().tolist()]
    return " ".join("%.9g" % n for n in numbers)


torch.manual_seed(123)
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "metrics.txt"), "w") as file:
    for options in ((40, 5, -100, False), (60, 4, -100, True), (24, 6, 2, True), (5, 1, -7, False)):
        file.write(case(*options) + "\n")

#!/usr/bin/env python3
"""Writes tests/goldens/data/collate.txt with torch 2.13.0+cpu: lists of ids in batches, by a shuffling DataLoader and
custom_collate_fn of chapter 7 of the course.

List i has (7 i i + 3) % 13 + 1 ids, and id k of it is (i i + 5 k) % 23. 22 is the padding, which lists contain as well.
The generator is seeded with 123, and there are two passes.

A case: "count batch_size drop_last max_length", where max_length -1 is none, then one line per batch: the rows, the
columns, the inputs and the targets. At the end of a case: "next" and a number drawn after it.
"""
import pathlib

import torch
from torch.utils.data import DataLoader

assert torch.__version__.startswith("2.13.0")
PAD = 22
CASES = [(17, 4, False, None), (17, 4, True, 6), (5, 8, False, 3), (9, 1, False, None), (12, 6, False, 100)]


def collate(batch, allowed_max_length):
    """custom_collate_fn, with the name of the padding and without the device."""
    batch_max_length = max(len(item) + 1 for item in batch)
    inputs_lst, targets_lst = [], []
    for item in batch:
        new_item = item.copy()
        new_item += [PAD]
        padded = new_item + [PAD] * (batch_max_length - len(new_item))
        inputs = torch.tensor(padded[:-1])
        targets = torch.tensor(padded[1:])
        mask = targets == PAD
        indices = torch.nonzero(mask).squeeze()
        if indices.numel() > 1:
            targets[indices[1:]] = -100
        if allowed_max_length is not None:
            inputs = inputs[:allowed_max_length]
            targets = targets[:allowed_max_length]
        inputs_lst.append(inputs)
        targets_lst.append(targets)
    return torch.stack(inputs_lst), torch.stack(targets_lst)


with open(pathlib.Path(__file__).parent / "data" / "collate.txt", "w") as file:
    for count, batch_size, drop_last, most in CASES:
        lists = [[(i * i + 5 * k) % 23 for k in range((7 * i * i + 3) % 13 + 1)] for i in range(count)]
        torch.manual_seed(123)
        loader = DataLoader(lists, batch_size=batch_size, shuffle=True, drop_last=drop_last,
                            collate_fn=lambda batch: collate(batch, most))
        print(count, batch_size, int(drop_last), -1 if most is None else most, file=file)
        for _ in range(2):
            for inputs, targets in loader:
                print(*inputs.shape, *inputs.flatten().tolist(), *targets.flatten().tolist(), file=file)
        print("next", torch.randint(0, 1 << 24, (1,)).item(), file=file)

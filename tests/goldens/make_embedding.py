#!/usr/bin/env python3
"""Writes tests/goldens/embedding.txt with torch 2.13.0+cpu: a table after 50 steps of each kind of optimizer, with every
option of torch.nn.functional.embedding and embedding_bag.

The problem is make_optim.py's own: a table (12,5) and a bias (5), 8 ids per step, cross_entropy(rows + bias, targets). Bags
are the same ids in groups; the weights (8) of the entries are trained if a case has them. With "tied" the rows are
multiplied by the table again (a head that shares it), and a hook removes the gradient of the padding row: torch lets the
head train that row, and this library does not.

One line per case, optimizer and dtype, with the values of table, bias and weights after the last step:
    case optimizer dtype value.. (73)
Optimizers whose names begin with "sparse" get sparse gradients.
"""
import pathlib
import warnings

import torch
import torch.nn.functional as F

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
assert torch.__version__.startswith("2.13.0")
ROWS, WIDTH, STEPS, ENTRIES, PADDING = 12, 5, 50, 8, 7
DRAW = [0, 1, 2, 4, 5, 7, 8, 9, 11]
OFFSETS = torch.tensor([0, 3, 3, 7])  # the second bag is empty

OPTIMIZERS = {
    "sgd": lambda x: torch.optim.SGD(x, lr=0.05, momentum=0.9, weight_decay=0.01),
    "adam": lambda x: torch.optim.Adam(x, lr=0.02),
    "adamw": lambda x: torch.optim.AdamW(x, lr=0.02, weight_decay=0.1),
    "sparse_sgd": lambda x: torch.optim.SGD(x, lr=0.1),
    "sparse_adagrad": lambda x: torch.optim.Adagrad(x, lr=0.05),
    "sparse_adam": lambda x: torch.optim.SparseAdam(x, lr=0.02),
}


def lookup(**options):
    return lambda ids, table, weights, sparse: F.embedding(ids, table, sparse=sparse, **options)


def bag(shape=None, offsets=None, weighted=False, **options):
    def forward(ids, table, weights, sparse):
        ids = ids.reshape(shape) if shape else ids
        if weighted:
            weights = weights.reshape(shape) if shape else weights
        return F.embedding_bag(ids, table, offsets, sparse=sparse, per_sample_weights=weights if weighted else None,
                               **options)
    return forward


def frequency_bag(offsets, mode):
    """With rows that torch looks up by frequency, because its bags count wrongly (pytorch issue 190063, in 2.13.0)."""
    ends = offsets + [ENTRIES]

    def forward(ids, table, weights, sparse):
        rows = F.embedding(ids, table, scale_grad_by_freq=True)
        bags = [rows[begin:end].sum(0) / (max(end - begin, 1) if mode == "mean" else 1)
                for begin, end in zip(ends, ends[1:])]
        return torch.stack(bags)
    return forward


def tied(ids, table, weights, sparse):
    return F.embedding(ids, table, padding_idx=PADDING) @ table.T


# what torch does not compute with sparse gradients
DENSE_ONLY = ("frequency", "max_mode", "max_padded", "bag_frequency", "mean_frequency", "tied", "all_options", "frozen")
CASES = {
    "plain": lookup(),
    "padded": lookup(padding_idx=PADDING),
    "frequency": lookup(scale_grad_by_freq=True),
    "max_norm": lookup(max_norm=1.0),
    "max_norm_1": lookup(max_norm=2.0, norm_type=1.0),
    "max_norm_inf": lookup(max_norm=0.6, norm_type=float("inf")),
    "frozen": lookup(),
    "all_options": lookup(padding_idx=PADDING, max_norm=1.0, scale_grad_by_freq=True),
    "tied": tied,
    "bag_sum": bag((2, 4), mode="sum"),
    "bag_mean": bag((2, 4), mode="mean"),
    "max_mode": bag((2, 4), mode="max"),
    "bag_offsets": bag(offsets=OFFSETS, mode="mean"),
    "bag_last_offset": bag(offsets=torch.cat([OFFSETS, torch.tensor([8])]), mode="sum", include_last_offset=True),
    "bag_weighted": bag((2, 4), weighted=True, mode="sum"),
    "bag_weighted_offsets": bag(offsets=OFFSETS, weighted=True, mode="sum"),
    "bag_padded": bag((2, 4), mode="mean", padding_idx=PADDING),
    "max_padded": bag(offsets=OFFSETS, mode="max", padding_idx=PADDING),
    "bag_max_norm": bag((2, 4), mode="mean", max_norm=1.0),
    "bag_frequency": frequency_bag([0, 4], "sum"),
    "mean_frequency": frequency_bag(OFFSETS.tolist(), "mean"),
}


def start(case, dtype):
    table = torch.arange(ROWS * WIDTH, dtype=torch.float64).reshape(ROWS, WIDTH) * 0.25
    table = ((table * 7) % 3 - 1.5).to(dtype)
    if "padded" in case or case in ("all_options", "tied"):
        table[PADDING] = 0
    bias = torch.tensor([0.5, -0.25, 1.0, 0.0, -1.0], dtype=dtype)
    weights = torch.arange(ENTRIES, dtype=dtype) * 0.25 + 0.5
    return table.requires_grad_(case != "frozen"), bias.requires_grad_(), weights.requires_grad_()


def train(case, optimizer, dtype):
    table, bias, weights = start(case, dtype)
    sparse = optimizer.startswith("sparse")
    if case == "tied":
        table.register_hook(lambda g: g.index_fill(0, torch.tensor([PADDING]), 0))
    parameters = [table, bias, weights]
    update = OPTIMIZERS[optimizer](parameters)
    for step in range(STEPS):
        ids = torch.tensor([DRAW[(step * 5 + k * k * 3) % 9] for k in range(ENTRIES)])
        y = CASES[case](ids, table, weights, sparse)
        targets = torch.tensor([(step + 2 * k) % WIDTH for k in range(len(y))])
        loss = F.cross_entropy(y + bias if case != "tied" else y, targets)
        update.zero_grad()
        loss.backward()
        if optimizer == "sparse_adam":  # which takes no other gradients
            for x in (bias, weights):
                every = torch.arange(len(x))[None]
                x.grad = None if x.grad is None else torch.sparse_coo_tensor(every, x.grad, x.shape)
        update.step()
    return torch.cat([table.detach().flatten(), bias.detach(), weights.detach()])


with open(pathlib.Path(__file__).parent / "embedding.txt", "w") as file:
    for case in CASES:
        for optimizer in OPTIMIZERS:
            if optimizer.startswith("sparse") and case in DENSE_ONLY:
                continue
            for dtype in (torch.float64, torch.float32):
                values = train(case, optimizer, dtype)
                text = " ".join(("%.17g" if dtype == torch.float64 else "%.9g") % v for v in values.tolist())
                file.write(f"{case} {optimizer} {'f64' if dtype == torch.float64 else 'f32'} {text}\n")

#!/usr/bin/env python3
"""compare_ddp.py BUILD [RANKS]: compares the losses of tests/mpi/ddp.c with those of the same model in PyTorch's
DistributedDataParallel over gloo. For development: needs torch, and no test runs it. BUILD is the build folder; build the
program before with `ninja -C BUILD tests/mpi/mpi_ddp`.
"""
import os
import subprocess
import sys

import torch
import torch.distributed
import torch.multiprocessing
import torch.nn.functional as F

V, T, WIDTH, BATCH, STEPS = 61, 6, 8, 12, 50


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_emb = torch.nn.Embedding(V, WIDTH)
        self.pos_emb = torch.nn.Embedding(T, WIDTH)
        self.hidden = torch.nn.Linear(WIDTH, 2 * WIDTH)
        self.head = torch.nn.Linear(2 * WIDTH, V)

    def forward(self, ids):
        x = self.tok_emb(ids) + self.pos_emb(torch.arange(T))
        return self.head(F.gelu(self.hidden(x), approximate='tanh'))


def batches():
    """Yields the windows of all batches, in the order of DataLoader: a base seed, and the seed of a permutation."""
    ids = torch.tensor([(i * i * 7 + i // 3) % V for i in range(400)])
    starts = torch.arange(0, 400 - T, 3)
    while True:
        torch.empty((), dtype=torch.int64).random_()
        generator = torch.Generator()
        generator.manual_seed(torch.empty((), dtype=torch.int64).random_().item())
        order = torch.randperm(len(starts), generator=generator)
        for at in range(0, len(starts) - BATCH + 1, BATCH):
            chosen = starts[order[at:at + BATCH]]
            yield torch.stack([ids[s:s + T] for s in chosen]), torch.stack([ids[s + 1:s + T + 1] for s in chosen])


def train(rank, ranks, path):
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='29517')
    torch.distributed.init_process_group('gloo', rank=rank, world_size=ranks)
    torch.set_num_threads(1)
    torch.manual_seed(123)
    model = torch.nn.parallel.DistributedDataParallel(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    torch.manual_seed(7)
    part = BATCH // ranks
    losses = []
    for _, (inputs, targets) in zip(range(STEPS), batches()):
        mine = slice(rank * part, (rank + 1) * part)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs[mine]).flatten(0, 1), targets[mine].flatten())
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        torch.distributed.all_reduce(mean)
        losses.append(mean.item() / ranks)
    if rank == 0:
        torch.save(losses, path)
    torch.distributed.destroy_process_group()


if __name__ == '__main__':
    build, ranks = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2
    path = os.path.join(build, 'ddp_losses.pt')
    torch.multiprocessing.spawn(train, (ranks, path), nprocs=ranks)
    theirs = torch.load(path)
    run = [os.path.join(os.path.dirname(os.path.abspath(__file__)), 'run'), str(ranks)]
    output = subprocess.run(run + [os.path.join(build, 'tests', 'mpi', 'mpi_ddp'), str(STEPS)], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    ours = [float(line) for line in output.split()]
    largest = max(abs(a - b) for a, b in zip(ours, theirs))
    print('%d ranks: losses %.6f .. %.6f; the largest difference to DistributedDataParallel in %d steps is %.2g' %
          (ranks, theirs[0], theirs[-1], STEPS, largest))
    sys.exit(0 if len(ours) == STEPS and largest < 1e-5 else 1)

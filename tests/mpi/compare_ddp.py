#!/usr/bin/env python3
"""compare_ddp.py BUILD [RANKS [VOCABULARY CONTEXT WIDTH BATCH]]: compares the losses of tests/mpi/ddp.c, and the time of
a step, with those of the same model in PyTorch's DistributedDataParallel over gloo. For development: needs torch, and no
test runs it. BUILD is the build folder; build the program before with `ninja -C BUILD tests/mpi/mpi_ddp`. The two
programs take turns, five times; times are the best of all steps.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed
import torch.multiprocessing
import torch.nn.functional as F

STEPS = 50


class Model(torch.nn.Module):
    def __init__(self, vocabulary, context, width):
        super().__init__()
        self.tok_emb = torch.nn.Embedding(vocabulary, width)
        self.pos_emb = torch.nn.Embedding(context, width)
        self.hidden = torch.nn.Linear(width, 2 * width)
        self.head = torch.nn.Linear(2 * width, vocabulary)
        self.register_buffer('positions', torch.arange(context), persistent=False)

    def forward(self, ids):
        x = self.tok_emb(ids) + self.pos_emb(self.positions)
        return self.head(F.gelu(self.hidden(x), approximate='tanh'))


def batches(vocabulary, context, batch):
    """Yields the windows of all batches, in the order of DataLoader: a base seed, and the seed of a permutation."""
    count = 1000 + 20 * context
    ids = torch.tensor([(i * i * 7 + i // 3) % vocabulary for i in range(count)])
    starts = torch.arange(0, count - context, 3)
    while True:
        torch.empty((), dtype=torch.int64).random_()
        generator = torch.Generator()
        generator.manual_seed(torch.empty((), dtype=torch.int64).random_().item())
        order = torch.randperm(len(starts), generator=generator)
        for at in range(0, len(starts) - batch + 1, batch):
            chosen = starts[order[at:at + batch]]
            yield torch.stack([ids[s:s + context] for s in chosen]), torch.stack([ids[s + 1:s + context + 1] for s in chosen])


def train(rank, ranks, path, vocabulary, context, width, batch):
    torch.distributed.init_process_group('gloo', init_method='file://' + path + '.group', rank=rank, world_size=ranks)
    torch.set_num_threads(1)
    torch.manual_seed(123)
    model = torch.nn.parallel.DistributedDataParallel(Model(vocabulary, context, width), broadcast_buffers=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    torch.manual_seed(7)
    part = batch // ranks
    losses, best = [], float('inf')
    for _, (inputs, targets) in zip(range(STEPS), batches(vocabulary, context, batch)):
        mine = slice(rank * part, (rank + 1) * part)
        inputs, targets = inputs[mine], targets[mine].flatten()
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets)
        loss.backward()
        optimizer.step()
        best = min(best, time.perf_counter() - start)
        mean = loss.detach().clone()
        torch.distributed.all_reduce(mean)
        losses.append(mean.item() / ranks)
    if rank == 0:
        torch.save((losses, best), path)
    torch.distributed.destroy_process_group()


def main():
    build, ranks = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2
    sizes = [int(size) for size in sys.argv[3:7]] or [61, 6, 8, 12]
    run = [os.path.join(os.path.dirname(os.path.abspath(__file__)), 'run'), str(ranks)]
    run += [os.path.join(build, 'tests', 'mpi', 'mpi_ddp'), str(STEPS)] + [str(size) for size in sizes]
    our_best, their_best = float('inf'), float('inf')
    for turn in range(5):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'losses.pt')
            torch.multiprocessing.spawn(train, (ranks, path, *sizes), nprocs=ranks)
            theirs, best = torch.load(path)
        their_best = min(their_best, 1e3 * best)
        output = subprocess.run(run, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ours = [float(line) for line in output.stdout.split()]
        our_best = min(our_best, float(re.search(r'best step ([\d.]+) ms', output.stderr).group(1)))
    largest = max(abs(a - b) for a, b in zip(ours, theirs))
    print('%d ranks: losses %.6f .. %.6f; the largest difference to DistributedDataParallel in %d steps is %.2g' %
          (ranks, theirs[0], theirs[-1], STEPS, largest))
    print('best step %.3f ms, DistributedDataParallel %.3f ms, ratio %.2f' % (our_best, their_best, our_best / their_best))
    return 0 if len(ours) == STEPS and largest < 1e-5 else 1


if __name__ == '__main__':
    sys.exit(main())

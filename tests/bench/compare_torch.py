#!/usr/bin/env python3
"""Runs the ops of tests/bench/kernels.c here and in PyTorch, in turn, and prints both times. For development: nothing
in the build or the tests needs it.

    tests/bench/compare_torch.py BENCH [--turns N] [--threads N] [--only TEXT] [--gpt | --compiled-gpt]

BENCH is the program tests/bench of a release build. With --gpt only a step of GPT-2 small is run (torch_gpt.py), with
--compiled-gpt by torch.compile.

Each turn runs a line a few times in each program. Printed are the medians in ms, their ratio, the ratio of the best
times, and the best time of a memcpy of the result. On a busy machine only the best times of one thread mean something,
because a thread that waits for another one waits for the machine.

Both programs start backward from a gradient that stays the caller's, and write the gradients of leaves that have none:
torch.Tensor.backward. torch.autograd.grad has less to do, because it may return the caller's tensor itself as the
gradient of a leaf. AdamW is measured in one process only, by `tests/bench/run`.
"""
import argparse
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F

import torch_gpt


def normal(*size, grad=True, std=1.0):
    return (std * torch.randn(*size)).requires_grad_(grad)


def ids(below, *size):
    return torch.randint(0, below, size)


def zipf(below, *size):
    return (below ** torch.rand(*size)).long() - 1


def gru(x, *weights):
    return torch._VF.gru(x, torch.zeros(1, 16, 256), weights, False, 1, 0.0, True, False, True)[0]


def lstm(x, *weights):
    return torch._VF.lstm(x, [torch.zeros(1, 16, 256)] * 2, weights, False, 1, 0.0, True, False, True)[0]


LINES = {
    'layer_norm 512x768': lambda: (lambda x, w, b: F.layer_norm(x, (768,), w, b), normal(512, 768), normal(768), normal(768)),
    'rms_norm 512x768': lambda: (lambda x, w: F.rms_norm(x, (768,), w, 1e-5), normal(512, 768), normal(768)),
    'gelu 512x3072': lambda: (F.gelu, normal(512, 3072)),
    'gelu_tanh 512x3072': lambda: (lambda x: F.gelu(x, approximate='tanh'), normal(512, 3072)),
    'dropout 1024x768': lambda: (lambda x: F.dropout(x, 0.1), normal(1024, 768)),
    'bias add 512x3072': lambda: (torch.add, normal(512, 3072), normal(3072)),
    'residual add 512x768': lambda: (torch.add, normal(512, 768), normal(512, 768)),
    'softmax 512x50257': lambda: (lambda x: F.softmax(x, -1), normal(512, 50257)),
    'softmax 4096x768': lambda: (lambda x: F.softmax(x, -1), normal(4096, 768)),
    'softmax 768x4096, first axis': lambda: (lambda x: F.softmax(x, 0), normal(768, 4096)),
    'log_softmax 4096x768': lambda: (lambda x: F.log_softmax(x, -1), normal(4096, 768)),
    'cross_entropy 512x50257': lambda: (F.cross_entropy, normal(512, 50257), ids(50257, 512)),
    'cross_entropy 512x50257, saturated logits': lambda: (F.cross_entropy, normal(512, 50257, std=40), ids(50257, 512)),
    'embedding 8192x768': lambda: (lambda w, i: F.embedding(i, w), normal(50257, 768, grad=False), ids(50257, 8192)),
    'embedding 65536x768': lambda: (lambda w, i: F.embedding(i, w), normal(50257, 768), ids(50257, 65536)),
    'embedding 65536x768, Zipf': lambda: (lambda w, i: F.embedding(i, w), normal(50257, 768), zipf(50257, 65536)),
    'bag 1024x16x768': lambda: (lambda w, i: F.embedding_bag(i, w), normal(50257, 768, grad=False), ids(50257, 1024, 16)),
    'attention 2x12x1024x64': lambda: (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
                                       *[normal(2, 12, 1024, 64) for _ in range(3)]),
    'gru 16x64x256': lambda: (gru, normal(16, 64, 256), normal(768, 256, std=0.05), normal(768, 256, std=0.05)),
    'lstm 16x64x256': lambda: (lstm, normal(16, 64, 256), normal(1024, 256, std=0.05), normal(1024, 256, std=0.05)),
}


def seconds(run, rounds):
    for _ in range(2):
        run()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


def backward(y, leaves, dy):
    for x in leaves:
        x.grad = None
    y.backward(dy, retain_graph=True)


class Bench:
    """The program tests/bench, which answers requests."""

    def __init__(self, path, threads):
        self.program = subprocess.Popen([path, '--threads=%d' % threads, '--serve'], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def seconds(self, name, what, rounds):
        self.program.stdin.write('%s; %s %d\n' % (name, what, rounds))
        self.program.stdin.flush()
        return [float(t) for t in self.program.stdout.readline().split()]

    def close(self):
        self.program.stdin.close()
        self.program.wait()


def compare(bench, title, ours, run, rounds, turns, bound=None):
    """Runs a line in turn here and in torch, and prints it."""
    a, b, bounds = [], [], [0]
    for _ in range(turns):
        b += seconds(run, rounds)
        time.sleep(0.05)  # torch's threads stop spinning
        a += bench.seconds(*ours, rounds)
        bounds += bench.seconds(*bound, 5) if bound else []
    m = statistics.median
    least = 1e3 * min(bounds[1:], default=float('nan'))
    print('%-52s %9.3f %9.3f %7.2f %7.2f %9.3f' % (title, 1e3 * m(a), 1e3 * m(b), m(a) / m(b), min(a) / min(b), least),
          flush=True)


def compare_lines(bench, only, turns):
    for name, make in LINES.items():
        call, *inputs = make()
        leaves = [x for x in inputs if x.requires_grad]
        y = call(*inputs)
        dy = torch.randn_like(y)
        passes = {'forward': lambda: call(*inputs)}
        if leaves:
            passes['backward'] = lambda: backward(y, leaves, dy)
        for what, run in passes.items():
            title = '%s, %s' % (name, what)
            if only in title:
                once = statistics.median(seconds(run, 3))
                rounds = max(3, min(100, int(0.15 / once)))
                compare(bench, title, (name, what), run, rounds, turns, (name, 'copy'))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('bench')
    parser.add_argument('--turns', type=int, default=5)
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--only', default='')
    parser.add_argument('--gpt', action='store_true')
    parser.add_argument('--compiled-gpt', action='store_true')
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    bench = Bench(options.bench, options.threads)
    print('%-52s %9s %9s %7s %7s %9s' % ('ms', 'tapegrad', 'torch', 'ratio', 'best', 'memcpy'))
    if options.gpt or options.compiled_gpt:
        step = torch_gpt.make_step(options.compiled_gpt)
        compare(bench, 'a step of GPT-2 small, 512 tokens', ('gpt', 'step'), step, 3, options.turns)
    else:
        compare_lines(bench, options.only, options.turns)
    bench.close()


main()

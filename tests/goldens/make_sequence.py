#!/usr/bin/env python3
"""Goldens of convolutions, pooling and recurrent layers, by torch 2.13.0. Writes conv.txt (golden_file.py) and
recurrent.txt beside itself.

A case of recurrent.txt: "KIND SEED IN WIDTH LAYERS BIDIRECTIONAL BIAS MASKED DROPOUT", with KIND 0 for a GRU and 1 for an LSTM;
then the losses of 50 steps of Adam, and the sum of squares of each parameter after them.
"""
import os

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import golden_file

HERE = os.path.dirname(os.path.abspath(__file__))
torch.set_default_dtype(torch.float64)
LENGTHS = [4, 1, 3]


def convolutions(case):
    torch.manual_seed(23)
    for stride, padding, dilation, groups in ((1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 1), (3, 2, 1, 2), (2, 3, 2, 4), (1, 5, 1, 2)):
        for batch, length, kernel in ((2, 9, 3), (1, 8, 1), (0, 9, 3)):
            x, w, b = torch.randn(batch, 4, length), torch.randn(8, 4 // groups, kernel), torch.randn(8)
            case("conv1d", [stride, padding, dilation, groups], [x, w],
                 lambda x, w: F.conv1d(x, w, None, stride, padding, dilation, groups))
            case("conv1d_bias", [stride, padding, dilation, groups], [x, w, b],
                 lambda x, w, b: F.conv1d(x, w, b, stride, padding, dilation, groups))
    for kernel, stride, padding, dilation in ((2, 2, 0, 1), (3, 1, 1, 1), (3, 2, 1, 2), (1, 1, 0, 1), (4, 3, 2, 1)):
        for shape in ((2, 3, 9), (3, 8), (0, 3, 9)):
            if 0 in shape and kernel != 2:
                continue
            x = torch.randn(shape)
            case("max_pool1d", [kernel, stride, padding, dilation], [x],
                 lambda x: F.max_pool1d(x, kernel, stride, padding, dilation))
            if dilation == 1:
                case("avg_pool1d", [kernel, stride, padding, 1], [x], lambda x: F.avg_pool1d(x, kernel, stride, padding))
    ties = torch.tensor([[1.0, 1, 0, 2, 2, 2]])
    case("max_pool1d", [3, 3, 0, 1], [ties], lambda x: F.max_pool1d(x, 3))


def train(out, kind, seed, inputs, width, layers, bidirectional, bias, masked, dropout):
    torch.manual_seed(seed)
    net = (torch.nn.LSTM if kind else torch.nn.GRU)(inputs, width, layers, bool(bias), batch_first=True,
                                                    dropout=dropout, bidirectional=bool(bidirectional))
    x, target = torch.randn(3, 4, inputs), torch.randn(3, 4, width * (1 + bidirectional))
    optim = torch.optim.Adam(net.parameters(), lr=0.01)
    losses = []
    for _ in range(50):
        read = pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False) if masked else x
        y, final = net(read)
        if masked:
            y = pad_packed_sequence(y, batch_first=True)[0]
        loss = F.mse_loss(y, target)
        for state in final if kind else [final]:
            loss = loss + state.square().sum()
        optim.zero_grad()
        loss.backward()
        optim.step()
        losses.append(loss.item())
    print(kind, seed, inputs, width, layers, bidirectional, bias, masked, dropout, file=out)
    print(*[repr(v) for v in losses], file=out)
    print(*[repr(p.detach().square().sum().item()) for p in net.parameters()], file=out)


def main():
    with open(os.path.join(HERE, "conv.txt"), "w") as out:
        convolutions(lambda *arguments: golden_file.write(out, *arguments))
    with open(os.path.join(HERE, "recurrent.txt"), "w") as out:
        for kind in (0, 1):
            for seed, (layers, bidirectional, bias, masked, dropout) in enumerate((
                    (1, 0, 1, 0, 0), (2, 0, 1, 0, 0), (1, 1, 1, 0, 0), (2, 1, 1, 1, 0), (1, 0, 0, 1, 0),
                    (3, 1, 0, 0, 0), (3, 0, 1, 0, 0.25), (2, 1, 0, 0, 0.5))):
                train(out, kind, seed, 5, 3, layers, bidirectional, bias, masked, dropout)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Goldens of loaders over tensors and of random splits (tapegrad/data.h) by torch 2.13.0. Writes data/dataset.txt beside itself.

A case "loader SEED ROWS BATCH SHUFFLE DROP_LAST BATCHES", then the rows of three passes, batch after batch, each batch
after its number of rows, then one draw of the generator. A case "split SEED PARTS LENGTHS... INDICES...".
"""
import os

import torch
from torch.utils.data import DataLoader, TensorDataset, random_split

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    with open(os.path.join(HERE, "data", "dataset.txt"), "w") as out:
        for seed in range(20):
            for shuffle, drop in ((1, 0), (1, 1), (0, 0), (0, 1)):
                torch.manual_seed(seed)
                rows = 10 + seed
                loader = DataLoader(TensorDataset(torch.arange(rows)), batch_size=4, shuffle=bool(shuffle), drop_last=bool(drop))
                batches = [b[0].tolist() for _ in range(3) for b in loader]
                print("loader", seed, rows, 4, shuffle, drop, len(loader), file=out)
                for batch in batches:
                    print(len(batch), *batch, file=out)
                print(int(torch.randint(0, 1000000, ())), file=out)
            torch.manual_seed(seed)
            lengths = [seed, 7, 3]
            parts = random_split(range(sum(lengths)), lengths)
            print("split", seed, len(lengths), *lengths, *[i for part in parts for i in part.indices], file=out)


if __name__ == "__main__":
    main()

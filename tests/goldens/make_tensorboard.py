#!/usr/bin/env python3
"""Goldens of TensorBoard's event files.

    make_tensorboard.py         needs torch 2.13.0 and tensorboard 2.21; writes tensorboard/events beside itself

The records of tests/tools/test_tensorboard.c, written by tensorboard's own writer and torch's add_histogram.
"""
import os

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard import SummaryWriter, summary

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tensorboard")
TIME = 1700000000.25


def default_bins():
    writer = SummaryWriter.__new__(SummaryWriter)
    SummaryWriter.__init__(writer, "/tmp/tapegrad-goldens-of-tensorboard")
    writer.close()
    return writer.default_bins


def main():
    os.makedirs(HERE, exist_ok=True)
    bins = default_bins()
    with open(os.path.join(HERE, "events"), "wb") as file:
        writer = RecordWriter(file)

        def write(**fields):
            writer.write(Event(wall_time=TIME, **fields).SerializeToString())

        write(file_version="brain.Event:2")
        for tag, value, step in (("loss", 0.5, 0), ("loss/train", -1.1, 300), ("größe", 0.0, 1 << 40), ("inf", float("inf"), 1)):
            write(step=step, summary=summary.scalar(tag, value))
        many = np.arange(-50, 51, dtype=np.float64) ** 3 / 1024
        for tag, values in (("many", many), ("one", np.array([0.25])), ("zero", np.zeros(3)), ("below", np.array([-3.0, -0.5])),
                            ("far", np.array([-1e30, 2.0, 1e25, 4.0]))):
            write(step=7, summary=summary.histogram(tag, values, bins))
        writer.flush()


main()

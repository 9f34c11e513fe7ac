#!/usr/bin/env python3
"""Compares what the chapter programs print with the course's figures.

    figures.py FIGURES_JSON CHAPTER PROGRAM [ARGUMENT...] [-- PROGRAM ...]

Words must be equal, Python's own decoration aside (grad_fn, "Parameter containing:", quotes and brackets of lists). Numbers
must agree at the printed precision or to 1e-5 relative, whichever is coarser. Then every figure is altered beyond that, and
the comparison must see it.
"""
import json
import re
import subprocess
import sys

NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:e[-+]?\d+)?")
DECORATION = re.compile(r",?\s*(grad_fn=<\w+>|requires_grad=True)|Parameter containing:|[\[\]()'\"\\]|tensor|torch\.Size")


def pieces(text):
    """Words and numbers, in order."""
    plain = DECORATION.sub(" ", text)
    found = []
    for word in plain.replace(",", " , ").split():
        found.append(word)
    return [w for w in found if w != ","]


def step_of(word):
    """One unit of the last printed digit."""
    mantissa = word.lower().split("e")[0]
    digits = len(mantissa.split(".")[1]) if "." in mantissa else 0
    exponent = int(word.lower().split("e")[1]) if "e" in word.lower() else 0
    return 10.0 ** (exponent - digits)


def tolerance(word):
    if "." not in word:
        return 0.0  # a count or an id
    return max(step_of(word) * 1.001, 1e-5 * abs(float(word)))


def same(expected, found):
    if NUMBER.fullmatch(expected) and NUMBER.fullmatch(found):
        return abs(float(expected) - float(found)) <= tolerance(expected)
    return expected == found


def differs(expected, found):
    """The first difference, or None."""
    want, got = pieces(expected), pieces(found)
    for a, b in zip(want, got):
        if not same(a, b):
            return f"expected {a}, printed {b}"
    return None if len(want) == len(got) else f"{len(want)} words expected, {len(got)} printed"


def altered(text):
    """Each figure of a text moved beyond its tolerance, one at a time: the numbers, or, without any, the first word."""
    words = pieces(text)
    for i, word in enumerate(words):
        if NUMBER.fullmatch(word):
            moved = float(word) + 2.5 * max(tolerance(word), step_of(word))
            yield " ".join(words[:i] + [repr(moved)] + words[i + 1:])
    if words:
        yield " ".join(["altered" + words[0]] + words[1:])


def printed_by(command):
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{command[0]} ended with {run.returncode}: {run.stderr}")
    parts = re.split(r"^\[cell (\d+)\]\n", run.stdout, flags=re.M)
    return {int(n): text for n, text in zip(parts[1::2], parts[2::2])}


def main():
    figures = {e["cell"]: e["prints"] for e in json.load(open(sys.argv[1]))[sys.argv[2]]}
    commands, printed = " ".join(sys.argv[3:]).split(" -- "), {}
    for command in commands:
        printed.update(printed_by(command.split()))
    good = checked = 0
    for number, expected in figures.items():
        found = printed.get(number)
        problem = "not printed" if found is None else differs(expected, found)
        if problem:
            print(f"cell {number}: {problem}")
            continue
        good += 1
        for wrong in altered(expected):
            checked += 1
            if not differs(wrong, found):
                sys.exit(f"cell {number}: the comparison does not see an altered figure: {wrong[:200]}")
    print(f"{sys.argv[2]}: {good} of {len(figures)} figures; {checked} altered figures, all seen")
    sys.exit(0 if good == len(figures) else 1)


if __name__ == "__main__":
    main()

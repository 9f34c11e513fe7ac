#!/usr/bin/env python3
"""Compares the output of the chapter programs with the course's figures.

    figures.py BOOK PROGRAMS [--full] [--reproducible]

BOOK is the folder with figures.json, PROGRAMS the one with the built programs. Prints one line per chapter and at the
end "book: N of M". With --full the trainings of chapter 5 and appendix D run to their ends; without, they stop after 10
steps.
--reproducible is passed to the programs, and what the training prints, losses and texts, must have the checksum of
tests/bits.txt: "book ch05" to the end, or "book ch05 10 steps". The file has no text of the book.

Words must be equal, except Python's decoration (grad_fn, "Parameter containing:", quotes and brackets of lists).
Numbers must agree at the printed precision or to 1e-5 relative, whichever is coarser. RULES lists the
exceptions of BOOK/README.md. Then the expected output is altered, one word or figure at a time, and the comparison must
detect each alteration.
With an empty BOOK it exits with 77: skipped.
"""
import hashlib
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:e[-+]?\d+)?")
DECORATION = re.compile(r",?\s*(grad_fn=<\w+>|requires_grad=True|device='mps:0')|Parameter containing:|[\[\]()'\"\\]|tensor|torch\.Size")
LOSSES = re.compile(r"^Ep \d+ \((?:Step|Iter) \d+\): Train loss [\d.]+, Val loss [\d.]+$", re.M)

# Each chapter's programs; "book" after a name: it is given --book.
CHAPTERS = {
    "ch02": ["ch02_01_words book", "ch02_02_byte_pairs book", "ch02_03_batches book", "ch02_04_embedding",
             "ch02_05_positions book"],
    "ch02-embedding-vs-matmul": ["ch02_06_embedding_is_a_product"],
    "ch03": ["ch03_01_weights_of_one_query", "ch03_02_weights_of_all_queries", "ch03_03_trainable_weights",
             "ch03_04_causal_mask", "ch03_05_multi_head_attention"],
    "ch04": ["ch04_01_dummy_gpt book", "ch04_02_layer_norm", "ch04_03_feed_forward", "ch04_04_shortcuts",
             "ch04_05_transformer_block", "ch04_06_gpt book"],
    "ch05": ["ch05_01_how_wrong_is_it book", "ch05_02_loss_of_a_text book", "ch05_03_train book",
             "ch05_04_temperature_and_top_k"],
    "ch06": ["ch06_01_spam_data book", "ch06_02_classifier book"],
    "ch07": ["ch07_01_instructions book"],
    "appendix-D": ["appendix_d_01_schedule book"],
    "appendix-E": ["appendix_e_01_lora book"],
}
TRAINING = ("ch05", 77)
LOGS = {TRAINING, ("appendix-D", 32)}
TRAINING_PROGRAMS = {"ch05_03_train", "appendix_d_01_schedule"}

# Where the tolerance is another: BOOK/README.md.
RULES = {
    ("ch04", 55): lambda value, step: 1e-4 * abs(value),
    ("ch04", 57): lambda value, step: 1e-4 * abs(value),
    ("ch04", 28): lambda value, step: 1e-6 if abs(value) < 1e-6 else usual(value, step),
    ("ch05", 71): lambda value, step: 1.001e-4,
    TRAINING: lambda value, step: 1.001e-3,
    ("appendix-D", 32): lambda value, step: 5.001e-3,  # PyTorch differs from itself by 0.003: make_appendix_d.py
}

# Figures that a CPU and the two files do not determine.
NOT_COUNTED = ("needs the published GPT-2 weights", "the CPU figure is not given here")
# Those of a CPU, by PyTorch, where the notebook ran on another device (goldens/make_appendix_d.py).
ON_A_CPU = {"appendix-D": "../goldens/appendix_d.json"}

# What torch prints of a model: compared by the names and sizes of its embeddings and Linears.
STRUCTURES = {("ch06", 53), ("appendix-E", 40)}


def layers_of(text):
    """The lines of print_layers (examples/book/fine_tuning.h), from torch's print of a model."""
    path, found = [], []
    for line in text.splitlines():
        match = re.match(r"( *)\((\w+)\): (\w+)\((.*)", line)
        if not match:
            continue
        path = path[:len(match[1]) // 2 - 1] + [match[2]]
        sizes = [n for n in re.findall(r"\d+", match[4])]
        if match[3] == "Embedding":
            found.append(f"{'.'.join(path)} Embedding {sizes[0]} {sizes[1]}")
        elif match[3] == "Linear":
            bias = re.search(r"bias=(\w+)", match[4])[1]
            is_wrapped = path[-1] == "linear"
            name = ".".join(path[:-1] if is_wrapped else path)
            found.append(f"{name} Linear {sizes[0]} {sizes[1]} bias={bias}" + (" LoRA" if is_wrapped else ""))
    return "\n".join(found)


def usual(value, step):
    return max(step * 1.001, 1e-5 * abs(value))


def pieces(text):
    """Words and numbers, in order."""
    return [w for w in DECORATION.sub(" ", text).replace(",", " , ").split() if w != ","]


def step_of(word):
    """One unit of the last printed digit. "1." and "1.0" are not rounded: only whole numbers are written so."""
    mantissa, _, exponent = word.lower().partition("e")
    digits = mantissa.partition(".")[2]
    return 0.0 if digits in ("", "0") else 10.0 ** (int(exponent or 0) - len(digits))


def tolerance(word, cell):
    if "." not in word:
        return 0.0  # a count or an id
    return RULES.get(cell, usual)(float(word), step_of(word))


def same(expected, found, cell):
    if NUMBER.fullmatch(expected) and NUMBER.fullmatch(found):
        return abs(float(expected) - float(found)) <= tolerance(expected, cell)
    return expected == found


def differs(expected, found, cell):
    """The first difference, or None."""
    want, got = pieces(expected), pieces(found)
    for a, b in zip(want, got):
        if not same(a, b, cell):
            return f"expected {a}, printed {b}"
    return None if len(want) == len(got) else f"{len(want)} words expected, {len(got)} printed"


def altered(expected, cell):
    """The expected text with one thing wrong at a time: a figure just beyond its tolerance to either side, or greater
    by one (which no tolerance may hide, however it is computed); another word; the last word missing."""
    words = pieces(expected)
    for i, word in enumerate(words):
        wrong = ["altered" + word]
        if NUMBER.fullmatch(word):
            beyond = 1.5 * tolerance(word, cell) or 1e-6
            wrong += [repr(float(word) + change) for change in (beyond, -beyond, 1)]
        for other in wrong:
            yield " ".join(words[:i] + [other] + words[i + 1:])
    if words:
        yield " ".join(words[:-1])


def printed_by(command):
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{command[0]} ended with {run.returncode}: {run.stderr}")
    parts = re.split(r"^\[cell (\d+)\]\n", run.stdout, flags=re.M)
    return {int(n): text for n, text in zip(parts[1::2], parts[2::2])}


def print_sample_texts(expected, found):
    want = [line for line in expected.splitlines() if not line.startswith("Ep ")]
    got = [line for line in found.splitlines() if line and not line.startswith("Ep ")]
    equal = sum(a.split() == b.split() for a, b in zip(want, got))
    print(f"ch05, cell 77: {equal} of {len(want)} sample texts are the book's (not promised)")


def compare_bits(text, full):
    """Whether what the training printed has the checksum of the record."""
    name = "book ch05" if full else "book ch05 10 steps"
    line = f"{name} {hashlib.sha256(text.encode()).hexdigest()[:16]}"
    with open(os.path.join(HERE, "../bits.txt"), encoding="utf-8") as file:
        record = [other.rstrip() for other in file if other.rpartition(" ")[0] == name]
    print(f"{line}: " + ("equal" if record == [line] else f"the record has {record or 'no such line'}"))
    return record == [line]


def compare(chapter, figures, printed, full):
    """How many figures of a chapter are reproduced, how many count, and how many alterations were seen."""
    good = counted = seen = 0
    on_a_cpu = {}
    if chapter in ON_A_CPU:
        with open(os.path.join(HERE, ON_A_CPU[chapter]), encoding="utf-8") as file:
            on_a_cpu = {int(number): prints for number, prints in json.load(file)["cells"].items()}
    for figure in figures:
        number, expected, note = figure["cell"], figure["prints"], figure.get("note", "")
        if any(reason in note for reason in NOT_COUNTED):
            print(f"{chapter}, cell {number}: not counted: {note}")
            continue
        expected = on_a_cpu.get(number, expected)
        counted += 1
        cell, found = (chapter, number), printed.get(number)
        if cell in STRUCTURES:
            expected = layers_of(expected)
        if cell in LOGS and found is not None:
            if full and cell == TRAINING:
                print_sample_texts(expected, found)
            lines, all_lines = LOSSES.findall(found), LOSSES.findall(expected)
            expected, found = "\n".join(all_lines[:len(all_lines) if full else 2]), "\n".join(lines)
        problem = "not printed" if found is None else differs(expected, found, cell)
        if problem:
            print(f"{chapter}, cell {number}: {problem}")
            continue
        good += 1
        for wrong in altered(expected, cell):
            seen += 1
            if not differs(expected, wrong, cell):
                sys.exit(f"{chapter}, cell {number}: the comparison does not see an alteration: {wrong}")
    return good, counted, seen


def main():
    book, programs, full = sys.argv[1], sys.argv[2], "--full" in sys.argv[3:]
    if not book:
        print("skipped: needs the course's data (tests/run --book DIR)")
        sys.exit(77)
    figures = json.load(open(os.path.join(book, "figures.json")))
    total, all_counted, is_equal = 0, 0, True
    for chapter, commands in CHAPTERS.items():
        printed = {}
        for command in commands:
            name, *needs = command.split()
            arguments = ["--book", book] if needs else []
            arguments += [option for option in sys.argv[3:] if option == "--reproducible"]
            if name in TRAINING_PROGRAMS and not full:
                arguments += ["--steps", "10"]
            printed.update(printed_by([os.path.join(programs, name)] + arguments))
        good, counted, seen = compare(chapter, figures[chapter], printed, full)
        print(f"{chapter}: {good} of {counted} figures; {seen} alterations, all seen", flush=True)
        total, all_counted = total + good, all_counted + counted
        if chapter == TRAINING[0] and "--reproducible" in sys.argv[3:]:
            is_equal = compare_bits(printed[TRAINING[1]], full)
    print(f"book: {total} of {all_counted}" + ("" if full else " (of the trainings the first 10 steps)"))
    sys.exit(0 if total == all_counted and is_equal else 1)


if __name__ == "__main__":
    main()

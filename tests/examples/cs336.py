#!/usr/bin/env python3
"""Runs the programs of examples/cs336 on the files of CS336's first assignment.

    cs336.py COURSE BOOK PROGRAMS TWIN

COURSE is the folder with the course's tests, fixtures and snapshots, BOOK the one with GPT-2's vocab.bpe, PROGRAMS the
one with the built programs, TWIN tests/goldens/cs336.npz. Without a BOOK the tests of the tokenizer cannot run. Prints what the programs print: a line for each test of the
course. Each name that stands in COURSE/test_*.py must be there, and have passed. Then
- the trainer makes the merges of a plain reference, with special tokens in the texts;
- files of the course are damaged, or of another version, and the programs say so.
With an empty COURSE it exits with 77: skipped.
"""
import collections
import glob
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

COURSE, BOOK, PROGRAMS, TWIN = sys.argv[1:]
TESTS = ["01_train_bpe", "02_tokenizer", "03_layers", "04_attention", "05_model", "06_loss", "07_optimizer",
         "08_batches"]
TESTS = [name for name in TESTS if BOOK or name != "02_tokenizer"]
WITHOUT_TWIN = {"01_train_bpe"}


def run(name, course, out, twin=TWIN):
    """The status of a program, and what it prints."""
    command = [os.path.join(PROGRAMS, "cs336_" + name), "--cs336", course, "--out", out]
    command += [] if name in WITHOUT_TWIN else ["--twin", twin]
    command += ["--book", BOOK] if name == "02_tokenizer" else []
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    return done.returncode, done.stdout


# ---- each test by its name ----

def names_of_course():
    names = set()
    for path in glob.glob(os.path.join(COURSE, "test_*.py")):
        if not BOOK and os.path.basename(path) == "test_tokenizer.py":
            print("cs336: test_tokenizer.py cannot run: it needs GPT-2's vocab.bpe, --book DIR")
            continue
        with open(path, encoding="utf-8") as file:
            names.update(re.findall(r"^def (test_\w+)\(", file.read(), re.M))
    return names


def check_tests(out):
    passed, problems = collections.Counter(), []
    for name in TESTS:
        status, printed = run(name, COURSE, out)
        print(printed, end="")
        for line in printed.splitlines():
            test = re.match(r"(test_\w+)(?: \([^:]*\))?: passed against (a snapshot|a fixture|a twin|itself): ", line)
            if test:
                passed[test[2]] += 1
                passed[test[1]] += 1
            else:
                problems.append(line)
        if status != 0:
            problems.append(f"cs336_{name} ended with status {status}")
    names = names_of_course()
    problems += [f"{name}: no program answers it" for name in sorted(names) if not passed[name]]
    kinds = ", ".join(f"{passed[kind]} lines against {kind}" for kind in ("a snapshot", "a fixture", "a twin", "itself"))
    print(f"cs336: {sum(passed[name] > 0 for name in names)} of {len(names)} tests: {kinds}")
    return problems


# ---- a plain reference of the trainer ----

# GPT-2's pattern; Python has no \p{L}, and the texts below have no numbers that are not digits.
WORD = re.compile(r"'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


def plain_train(text, vocabulary, special):
    """The merges of a text: all pairs are counted again for each merge; of equally frequent ones the greater wins."""
    words = collections.Counter()
    for piece in text.split(special):
        words.update(tuple(bytes([b]) for b in word.encode()) for word in WORD.findall(piece))
    merges = []
    while len(merges) < vocabulary - 256 - 1:
        pairs = collections.Counter()
        for word, count in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += count
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        merged = collections.Counter()
        for word, count in words.items():
            symbols, i = [], 0
            while i < len(word):
                is_pair = word[i:i + 2] == best
                symbols.append(word[i] + word[i + 1] if is_pair else word[i])
                i += 2 if is_pair else 1
            merged[tuple(symbols)] += count
        words = merged
    return merges


def merges_of_program(text, vocabulary, special, out):
    path, written = os.path.join(out, "text.txt"), os.path.join(out, "vocabulary.json")
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    subprocess.run([os.path.join(PROGRAMS, "cs336_01_train_bpe"), "--text", path, "--vocab-size", str(vocabulary),
                    "--special", special, "--out", written], check=True, stdout=subprocess.DEVNULL)
    with open(written, encoding="utf-8") as file:
        found = json.load(file)
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    byte_of = {**{chr(b): b for b in printable}, **{chr(256 + i): b for i, b in enumerate(others)}}
    pairs = (pair.split(" ") if isinstance(pair, str) else pair for pair in found["model"]["merges"])
    return [tuple(bytes(byte_of[c] for c in token) for token in pair) for pair in pairs]


def texts_with_special_tokens():
    """Texts, sizes and special tokens: stories, a token in the midst of words, and texts in which most pairs tie."""
    def read(name):
        with open(os.path.join(COURSE, "fixtures", name), encoding="utf-8", newline="") as file:
            return file.read()
    yield "tinystories_sample.txt", read("tinystories_sample.txt"), 600, "<|endoftext|>"
    yield "german.txt", read("german.txt"), 400, "<|endoftext|>"
    draw = random.Random(336)
    pieces, text = [], read("corpus.en")[:40000]
    while text:
        size = draw.randrange(1, 200)
        pieces, text = pieces + [text[:size]], text[size:]
    yield "corpus.en, cut at random", "<|cut|>".join(pieces), 500, "<|cut|>"
    for seed in range(20):
        draw = random.Random(seed)
        words = ["".join(draw.choices("abcé", k=draw.randrange(1, 7))) for _ in range(draw.randrange(2, 60))]
        yield f"ties {seed}", draw.choice([" ", "|", "\n"]).join(words).replace("aa", "ab|"), 280, "ab|"


def check_reference(out):
    problems, count = [], 0
    for name, text, vocabulary, special in texts_with_special_tokens():
        expected, found = plain_train(text, vocabulary, special), merges_of_program(text, vocabulary, special, out)
        count += len(expected)
        first = next((i for i, (a, b) in enumerate(zip(expected, found)) if a != b), min(len(expected), len(found)))
        if expected != found:
            problems.append(f"{name}: merge {first} is {found[first:first + 1]}, not {expected[first:first + 1]}")
    print(f"cs336: {count} merges with special tokens are compared with the plain reference's")
    return problems


# ---- damaged files ----

def replace(old, new):
    return lambda data, _: data.replace(old, new, 1)


def flip(data, _):
    return data[:5000] + bytes([data[5000] ^ 1]) + data[5001:]


def swap_lines(data, _):
    lines = data.split(b"\n")
    return b"\n".join(lines[:6] + [lines[7], lines[6]] + lines[8:])


def other(name):
    return lambda _, course: open(os.path.join(course, name), "rb").read()


ROPE, MERGES = "snapshots/test_rope.npz", "fixtures/train-bpe-reference-merges.txt"
VOCABULARY = "fixtures/train-bpe-reference-vocab.json"

# The file, its change (None removes it), the program, and what it says.
DAMAGES = [
    (ROPE, None, "04_attention", "test_rope.npz': No such file"),
    (ROPE, lambda data, _: data[:6000], "04_attention", "tensor_new_from_npz: '"),
    (ROPE, flip, "04_attention", "test_rope.npz"),
    (ROPE, other("snapshots/test_linear.npz"), "04_attention",
     "test_rope.npz: test_rope has the shape (4,12,128), and the test of the version that this program knows gives (4,12,64)"),
    (ROPE, other("snapshots/test_swiglu.npz"), "04_attention", "test_rope: FAILED against a snapshot: largest difference"),
    (MERGES, swap_lines, "01_train_bpe", "test_train_bpe: FAILED against a fixture: line 7: "),
    (MERGES, lambda data, _: data[:-3], "01_train_bpe", "train-bpe-reference-merges.txt"),
    (VOCABULARY, replace(b'"!": 1,', b'"!": 0,'), "01_train_bpe", "train-bpe-reference-vocab.json"),
    (VOCABULARY, lambda data, _: data[:3000], "01_train_bpe", "train-bpe-reference-vocab.json"),
    ("test_optimizer.py", replace(b"0.9554359905560885,", b""), "07_optimizer",
     "24 numbers stand behind 'expected_lrs = ' in test_get_lr_cosine_schedule; the version that this program knows has 25"),
    ("test_nn_utils.py", replace(b"def test_softmax", b"def test_a_softmax"), "04_attention",
     "'x = torch.tensor(' does not stand in test_softmax_matches_pytorch: another version of the course's files"),
    ("fixtures/tinystories_sample.txt", replace(b"the", b"thy"), "02_tokenizer",
     "test_tinystories_matches_tiktoken: FAILED against a twin: "),
]


def check_damages(out):
    problems = []
    for number, (name, change, program, text) in enumerate(DAMAGES):
        if program not in TESTS:
            continue
        course = os.path.join(out, f"damaged_{number}")
        shutil.copytree(COURSE, course, copy_function=shutil.copyfile)
        for folder, _, _ in os.walk(course):
            os.chmod(folder, 0o755)
        path = os.path.join(course, name)
        with open(path, "rb") as file:
            data = file.read()
        os.remove(path)
        if change:
            with open(path, "wb") as file:
                file.write(change(data, COURSE))
        status, printed = run(program, course, out)
        line = next((line for line in printed.splitlines() if text in line), None)
        if status != 1 or line is None:
            problems.append(f"damage {number} of {name}: expected status 1 and '{text}', found {status} and\n{printed}")
        else:
            print("cs336: damaged:", line.replace(course, "COURSE"))
    twin = os.path.join(out, "twin.npz")
    shutil.copyfile(TWIN, twin)
    os.truncate(twin, 10000)
    status, printed = run("05_model", COURSE, out, twin)
    if status != 1 or "twin.npz" not in printed:
        problems.append(f"a damaged twin: {status}, {printed}")
    return problems


def main():
    if not COURSE:
        print("skipped: needs the course's data (tests/run --cs336 DIR)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as out:
        problems = check_tests(out) + check_reference(out) + check_damages(out)
    for problem in problems:
        print("cs336: problem:", problem)
    sys.exit(1 if problems else 0)


main()

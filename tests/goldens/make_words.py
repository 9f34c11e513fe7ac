#!/usr/bin/env python3
"""Vocabularies of words and the ids of texts, by Python's re, str.split, sorted and collections.Counter.

    make_words.py        writes into data/words/ beside itself:

    NAME.vocabulary      one word per line
    sums.txt             per case: the name, the number of ids of the text, the FNV-1a hash of the lines of ids, and that of
                         the text of these ids

The texts are examples/lighthouse.txt and spaces.txt, which has each white space of Unicode, and punctuation. The names and
options of the cases are in tests/text/test_words.c.
"""
import collections
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "data", "words")
SPACES = [chr(c) for c in range(0x110000) if chr(c).isspace()]
# characters beside white space, and characters whose encodings begin as those of white space do
NEAR = [chr(c) for c in (0x1b, 0x21, 0x7f, 0x84, 0x86, 0x9f, 0xa1, 0x167f, 0x1681, 0x1fff, 0x200b, 0x2027, 0x202a, 0x202e,
                         0x2030, 0x205e, 0x2060, 0x2fff, 0x3001, 0xfeff, 0x1f600)]


def nasty():
    words = ["a%sb" % c for c in SPACES + NEAR]
    marks = "--- a--b \"it's\", he_said: (yes!); no?--- -x - -- ...\n\n'tis na\u00efve\u2014na\u00efve 3.14 [x] <|unk|> <|end|>"
    return "".join(words) + " " + marks + "\n"


def split_punctuation(text):
    return [w for w in re.split(r'([,.:;?_!"()\']|--|\s)', text) if w.strip()]


def join_punctuation(words):
    return re.sub(r'\s+([,.?!"()\'])', r"\1", " ".join(words))


def vocabulary(words, special, order, min_count, size, special_last):
    """torchtext's rule: by falling frequency, then by the word; at most `size` with the special tokens."""
    counts = collections.Counter(words)
    kept = sorted((w for w in counts if counts[w] >= min_count and w not in special), key=lambda w: (-counts[w], w.encode()))
    kept = kept[:size - len(special)]
    kept = sorted(kept, key=str.encode) if order == "bytes" else kept
    return kept + special if special_last else special + kept


def fnv(text):
    """FNV-1a in 64 bits."""
    sum = 0xcbf29ce484222325
    for byte in text.encode():
        sum = (sum ^ byte) * 0x100000001b3 % 2**64
    return sum


def write(name, lines):
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8", newline="") as file:
        file.write("".join(line + "\n" for line in lines))


def case(name, text, split, join, special, unknown, order="frequency", min_count=1, size=2**31 - 1, special_last=False):
    words = split(text)
    found = vocabulary(words, special, order, min_count, size, special_last)
    ids = {word: i for i, word in enumerate(found)}
    encoded = [ids[w] if w in ids else ids[unknown] for w in words]
    write(name + ".vocabulary", found)
    ids = "".join("%d\n" % i for i in encoded)
    return "%s %d %016x %016x" % (name, len(encoded), fnv(ids), fnv(join([found[i] for i in encoded])))


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "spaces.txt"), "w", encoding="utf-8", newline="") as file:
        file.write(nasty())
    story = open(os.path.join(HERE, "..", "..", "examples", "lighthouse.txt"), encoding="utf-8", newline="").read()
    unk = ["<|unk|>"]
    write("sums.txt", [
        case("story_default", story, split_punctuation, join_punctuation, unk, "<|unk|>"),
        case("story_course", story, split_punctuation, join_punctuation, ["<|endoftext|>", "<|unk|>"],
             "<|unk|>", "bytes", special_last=True),
        case("story_small", story, split_punctuation, join_punctuation, ["[PAD]", "[UNK]", "[MASK]"], "[UNK]",
             "bytes", 2, 100),
        case("story_space", story, str.split, " ".join, unk, "<|unk|>", min_count=3),
        case("spaces_default", nasty(), split_punctuation, join_punctuation, unk, "<|unk|>"),
        case("spaces_space", nasty(), str.split, " ".join, ["<|end|>", "<|unk|>"], "<|unk|>", "bytes",
             special_last=True),
    ])


main()

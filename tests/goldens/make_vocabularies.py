#!/usr/bin/env python3
"""Goldens of the formats of vocabularies: a byte-level BPE, trained by Hugging Face's tokenizers, in each format.

    make_vocabularies.py        needs tokenizers 0.23 and tiktoken 0.14; writes into data/vocabulary/ beside itself:

    tokenizer.json, tokenizer_split.json   the second has GPT-2's Split, merges as pairs, and more special tokens
    encoder.json, vocab.bpe                ids that do not follow from the order of the merges
    ranks.tiktoken                         <|endoftext|> is left out in the middle
    ids.txt                                per line: the file, the text in hexadecimal, and the ids
"""
import base64
import json
import os

import tiktoken
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, decoders, trainers

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "vocabulary")
PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
STORY = ("The keeper of the lighthouse counted the waves at night. \"There's a ship,\" he said, \"and there's a storm.\" "
         "The light turned, and turned, and the ship went by. Überall über 1999 naïve cafés.\n") * 3
TEXTS = ["The keeper's ship turned", "there's a lighthouse\n\n  in the night", "über naïve 1999", "zebra \"quux\" \\ \x00\x7f",
         "日本 😀", "a<|endoftext|>the<|endoftext|>", "<|endoftext|><|pad|>the\"<x>\"", ""]


def train(size):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    t.train_from_iterator([STORY], trainer)
    return t


def shown_bytes():
    printable = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    hidden = [b for b in range(256) if b not in printable]
    shown = {chr(b): b for b in printable}
    shown.update({chr(256 + i): b for i, b in enumerate(hidden)})
    return shown


def lines(name, encode):
    return "".join(f"{name} {text.encode().hex() or '-'} {' '.join(map(str, encode(text)))}\n" for text in TEXTS)


def main():
    os.makedirs(HERE, exist_ok=True)
    out = lambda name: open(os.path.join(HERE, name), "w", encoding="utf-8")
    plain = train(300)
    plain.save(os.path.join(HERE, "tokenizer.json"))
    text = lines("tokenizer.json", lambda s: plain.encode(s).ids)
    model = json.loads(plain.to_str())["model"]

    split = train(290)
    split.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    split.add_special_tokens(["<|pad|>", "\"<x>\""])
    split.save(os.path.join(HERE, "tokenizer_split.json"), pretty=False)
    text += lines("tokenizer_split.json", lambda s: split.encode(s).ids)

    # GPT-2's two files; json.dumps writes escapes, as GPT-2's encoder.json has them
    json.dump(model["vocab"], out("encoder.json"))
    merges = [" ".join(m) if isinstance(m, list) else m for m in model["merges"]]
    out("vocab.bpe").write("#version: 0.2\n" + "\n".join(merges) + "\n")

    # tiktoken: ids in the order of the merges, and a gap for <|endoftext|> before the last ten
    shown = shown_bytes()
    tokens = [bytes([b]) for b in range(256)]
    tokens += [bytes(shown[c] for c in m.replace(" ", "")) for m in merges]
    gap = len(tokens) - 10
    ranks = {t: i + (i >= gap) for i, t in enumerate(tokens)}
    out("ranks.tiktoken").write("".join(f"{base64.b64encode(t).decode()} {r}\n" for t, r in ranks.items()))
    encoding = tiktoken.Encoding("small", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": gap})
    text += lines("ranks.tiktoken", lambda s: encoding.encode(s, allowed_special="all"))
    out("ids.txt").write(text)


if __name__ == "__main__":
    main()

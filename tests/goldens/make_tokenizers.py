#!/usr/bin/env python3
"""Goldens of tokenizer.json: small tokenizers of the kinds of published models, trained by Hugging Face's tokenizers.

    make_tokenizers.py        needs tokenizers 0.23; writes into data/tokenizers/ beside itself:

    NAME.json     a tokenizer
    cases.txt     per line: NAME, whether special tokens are found and the template is added (0 or 1 each), the text in
                  hexadecimal, the decoded text in hexadecimal, or ? if Python
                  does not decode its bytes, and ID:BEGIN:END of each token, with bytes as offsets
    ranks.txt     the same lines for tiktoken's patterns over ../vocabulary/ranks.tiktoken, without spans; NAME is the
                  pattern in hexadecimal, and <|endoftext|> and <|end|> have the ids 289 and 310
"""
import base64
import json
import os

import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, decoders as D, models as M, normalizers as N, pre_tokenizers as P
from tokenizers import processors, trainers

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "tokenizers")
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN = CL100K.replace("{1,3}", "")
QWEN35 = QWEN.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
TIKTOKEN = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|"
            r"\s+(?!\S)|\s")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
STORY = ["The keeper of the lighthouse counted the waves at night.", "\"There's a ship,\" he said, \"and there's a storm.\"",
         "The light turned, and turned, and the ship went by.", "Überall über 1999 naïve cafés.", "un été à la plage, où déjà",
         "def f(x):\n    return x + 1\n", "日本語 中文 한국어 русский язык", "1234567 3.14"] * 3
TEXTS = ["The keeper's ship turned", "THERE'S a lighthouse\n\n  in the night \t x", "über naïve cafés 1999 e\u0301te\u0301",
         "A\u030angstro\u0308m \u212bngström \u212b \uac01 \u1100\u1161\u11a8 q\u0307\u0323 \ufb01 \uff21 \u0130I e\u0312\u0301", "日本語中文 the한국어!? ｶﾞ",
         "👩‍👩‍👧 😀a👍🏽 \u00a0\u2003x\u200b\u0085\u3000", "def f(x):\n\treturn x**2 + y_1\r\n\r\n", "1234567 ١٢٣ ½ 3.14 AB CD eF",
         "a<|end|>the  <mask>  the<|end|>\nthe x lighthouse thelight", " <mask> <|end|> <mask>", " ", "", "\x00\x7fZ\ufeff", "x" * 25,
         "▁the▁ship  ", "don't I'LL 'ſ...—«the»"]


def bytes_of(pre, normalizer=None, post=None, **options):
    t = Tokenizer(M.BPE(**options))
    t.pre_tokenizer, t.decoder = pre, D.ByteLevel()
    if normalizer:
        t.normalizer = normalizer
    t.train_from_iterator(STORY, trainers.BpeTrainer(vocab_size=300, special_tokens=["<|begin|>", "<|end|>"],
                                                     show_progress=False, initial_alphabet=P.ByteLevel.alphabet()))
    if post:
        t.post_processor = post
    return t


def characters(normalizer, pre, decoder, fallback):
    t = Tokenizer(M.BPE(byte_fallback=fallback, unk_token="<unk>", fuse_unk=fallback))
    if normalizer:
        t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    if decoder:
        t.decoder = decoder
    t.train_from_iterator(STORY[:7], trainers.BpeTrainer(vocab_size=150, special_tokens=["<pad>", "<unk>", "<|end|>"],
                                                         show_progress=False, limit_alphabet=40))
    if fallback:
        j = json.loads(t.to_str())
        for byte in range(256):
            j["model"]["vocab"]["<0x%02X>" % byte] = len(j["model"]["vocab"])
        t = Tokenizer.from_str(json.dumps(j))
    t.post_processor = processors.TemplateProcessing(single="<|end|> $A", special_tokens=[("<|end|>", 2)])
    return t


def pieces(normalizer, pre):
    t = Tokenizer(M.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, pre, D.WordPiece()
    t.train_from_iterator(STORY, trainers.WordPieceTrainer(vocab_size=200, show_progress=False, limit_alphabet=60,
                                                           special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "<|end|>"]))
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t


def split(pattern, behavior="isolated", invert=False):
    return P.Split(Regex(pattern), behavior, invert)


def added():
    t = bytes_of(P.ByteLevel(False), N.NFKC())
    t.add_tokens([AddedToken("the", single_word=True), AddedToken("ship", lstrip=True, rstrip=True),
                  AddedToken("Ångström"), AddedToken("light", normalized=False)])
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    t.post_processor = processors.ByteLevel(trim_offsets=True)
    return t


def byte_level(**options):
    return P.ByteLevel(False, use_regex=False, **options)


KINDS = {
    "llama3": lambda: bytes_of(P.Sequence([split(CL100K), byte_level()]), ignore_merges=True, post=processors.Sequence([
        processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(single="<|begin|> $A",
                                                                               special_tokens=[("<|begin|>", 0)])])),
    "qwen": lambda: bytes_of(P.Sequence([split(QWEN), byte_level()]), N.NFC(), processors.ByteLevel(trim_offsets=False)),
    "smollm": lambda: bytes_of(P.Sequence([P.Digits(True), P.ByteLevel(True)]), None, processors.ByteLevel(True, True)),
    "gemma": lambda: characters(N.Replace(" ", "▁"), P.Split(" ", "merged_with_previous"),
                                D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()]), True),
    "llama2": lambda: characters(N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]), None,
                                 D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)]), True),
    "metaspace": lambda: characters(None, P.Metaspace(prepend_scheme="first"), D.Metaspace(), False),
    "no_decoder": lambda: characters(N.Sequence([N.Lowercase(), N.NFD()]), P.Sequence([P.WhitespaceSplit(), P.Digits(False)]), None, False),
    "bert": lambda: pieces(N.BertNormalizer(), P.BertPreTokenizer()),
    "bert_cased": lambda: pieces(N.BertNormalizer(handle_chinese_chars=False, lowercase=False), P.BertPreTokenizer()),
    "words": lambda: pieces(N.Sequence([N.NFKD(), N.StripAccents(), N.Lowercase()]), P.Sequence(
        [P.Whitespace(), P.Punctuation("merged_with_next")])),
    "splits": lambda: bytes_of(P.Sequence([
        split(r"\d|\h\h", "merged_with_previous"), split("[aeiou]|(?=n)", "merged_with_next"), split(r"\W\w?", "contiguous"),
        split(r"[^\s]+", "removed", True), P.Split("t", "isolated"), byte_level()])),
    "added": added,
}


def line(name, special, template, text, decoded, ids):
    decoded = "?" if "\ufffd" in decoded else decoded.encode().hex() or "-"
    return "%s %d %d %s %s %s\n" % (name, special, template, text.encode().hex() or "-", decoded, ids)


def main():
    os.makedirs(HERE, exist_ok=True)
    out = open(os.path.join(HERE, "cases.txt"), "w")
    for name, make in KINDS.items():
        t = make()
        t.save(os.path.join(HERE, name + ".json"), pretty=False)
        for text in TEXTS:
            at = [len(text[:i].encode()) for i in range(len(text) + 1)]
            for special, template in ((True, False), (True, True), (False, False)):
                t.encode_special_tokens = not special
                e = t.encode(text, add_special_tokens=template)
                ids = " ".join("%d:%d:%d" % (i, at[a], at[b]) for i, (a, b) in zip(e.ids, e.offsets))
                out.write(line(name, special, template, text, t.decode(e.ids, skip_special_tokens=False), ids))
    path = os.path.join(HERE, "..", "vocabulary", "ranks.tiktoken")
    ranks = {base64.b64decode(a): int(b) for a, b in (l.split() for l in open(path))}
    out = open(os.path.join(HERE, "ranks.txt"), "w")
    for pattern in (CL100K, QWEN, QWEN35, TIKTOKEN, O200K, r"\p{Han}+|[^\p{Han}]+|\s++$|^x"):
        e = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 289, "<|end|>": 310})
        for text in TEXTS:
            ids = e.encode(text, allowed_special="all")
            out.write(line(pattern.encode().hex(), True, False, text, e.decode(ids), " ".join(map(str, ids))))


if __name__ == "__main__":
    main()

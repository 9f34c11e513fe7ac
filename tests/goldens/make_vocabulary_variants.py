#!/usr/bin/env python3
"""What the reference readers accept: variants of vocabularies and texts, with the verdict of the reader, and its ids.

    make_vocabulary_variants.py        needs tokenizers 0.23 and tiktoken 0.14, and the files of make_vocabularies.py;
                                       writes data/vocabulary/variants.txt

The readers: tokenizers' BPE.from_file (merges, and ids beside them), Tokenizer.from_file (json), WordPiece.read_file
(words), tiktoken's load_tiktoken_bpe (ranks); a text is decoded as UTF-8 and encoded with tokenizer.json.

A line: FORMAT NAME EDITS (WHERE FIND REPLACEMENT)... VERDICT IDS / IDS. The edits change the file of the format, which
for words and texts is empty at first: WHERE is first, all, end or whole, "-" is an empty text, and a byte that is no printable
character is \\xNN. The verdict is yes or no. The ids are those of PROBE (first line of the file) with special tokens, and
with these as ordinary text, or = if they are those of the unchanged file; for words those of "a", "b" and "c".
"""
import json
import os
import random
import tempfile

import tiktoken
import tiktoken.load
from tokenizers import Tokenizer, models, pre_tokenizers

from make_vocabularies import HERE, PATTERN

PROBE = 'the<|pad|>x "<x>"y keeper aababbabaaabbbabaabab'
BASES = {"merges": "vocab.bpe", "ids": "encoder.json", "json": "tokenizer_split.json", "ranks": "ranks.tiktoken"}
BOM = b"\xef\xbb\xbf"
PAD = '"<|pad|>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true'


def read(name):
    return open(os.path.join(HERE, name), "rb").read()


def shown(text):
    return "".join(chr(b) if 33 <= b <= 126 and b != 92 else f"\\x{b:02x}" for b in text) or "-"


def edit(text, where, find, replacement):
    if where == "end":
        assert text.endswith(find)
        return text[:len(text) - len(find)] + replacement
    assert find in text and (find or where == "first"), find
    return text.replace(find, replacement, 1 if where == "first" else -1)


def ids_of(format, file):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file")
        open(path, "wb").write(file)
        there = lambda name: os.path.join(HERE, name)
        if format == "words":
            words = models.WordPiece.read_file(path)
            ids = [words.get(w, -1) for w in "abc"]
            return ids, ids
        if format == "ranks":
            ranks = tiktoken.load.load_tiktoken_bpe(path)
            ids = tiktoken.Encoding("x", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={}).encode_ordinary(PROBE)
            return ids, ids
        if format in ("merges", "ids"):
            files = (path, there("vocab.bpe")) if format == "ids" else (there("encoder.json"), path)
            t = Tokenizer(models.BPE.from_file(*files))
            t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        else:
            t = Tokenizer.from_file(there("tokenizer.json") if format == "text" else path)
        text = file.decode("utf-8") if format == "text" else PROBE
        special = t.encode(text, add_special_tokens=False).ids
        t.encode_special_tokens = True
        return special, t.encode(text, add_special_tokens=False).ids


def added(*tokens):
    """Adds tokens to tokenizer_split.json: (content, special, normalized)."""
    text = "".join("," + json.dumps({"id": 292 + i, "content": c, "single_word": False, "lstrip": False, "rstrip": False,
                                     "normalized": n, "special": s}, separators=(",", ":"))
                   for i, (c, s, n) in enumerate(tokens))
    return [("first", '],"normalizer"', text + '],"normalizer"')]


def without(text):
    return [("first", text, "")]


def swap(find, replacement):
    return [("first", find, replacement)]


def variants():
    v = {"merges": {
        "unchanged": [],
        "first_line_with_more": swap("#version: 0.2", "#version: 0.2 - Trained by `huggingface/tokenizers`"),
        "first_line_version_0.3": swap("0.2", "0.3"), "no_first_line": without("#version: 0.2\n"),
        "first_line_comment": swap("#version: 0.2", "# merges"), "first_line_one_word": swap("#version: 0.2", "#merges"),
        "version_in_the_middle": swap("h e\n", "h e\n#version: 0.2\n"), "bom": [("first", "", BOM)],
        "bom_no_first_line": [("first", "#version: 0.2\n", BOM)], "crlf": [("all", "\n", "\r\n")],
        "crlf_no_first_line": without("#version: 0.2\n") + [("all", "\n", "\r\n")], "cr": [("all", "\n", "\r")],
        "no_last_newline": [("end", "\n", "")], "cr_at_the_end": [("end", "\n", "\r")],
        "blank_last_line": [("end", "", "\n")], "blank_last_lines_crlf": [("all", "\n", "\r\n"), ("end", "", "\r\n\r\n")],
        "spaces_last_line": [("end", "", "  \n")], "blank_line_in_the_middle": swap("h e\n", "h e\n\n"),
        "blank_first_line": [("first", "", "\n")], "space_behind": swap("h e\n", "h e \n"),
        "space_before": swap("h e\n", " h e\n"), "two_spaces": swap("h e\n", "h  e\n"), "tab": swap("h e\n", "h\te\n"),
        "one_token": swap("h e\n", "he\n"), "three_tokens": swap("h e\n", "h e r\n"),
        "twice": swap("h e\n", "h e\nh e\n"), "no_token_of_the_ids": swap("h e\n", "h q\n"),
        "later_merge_first": swap("h e\n\u0120 t\n", "\u0120 t\nh e\n"), "empty": [("first", None, "")],
        "first_line_alone": [("first", None, "#version: 0.2\n")],
    }, "ids": {
        "unchanged": [], "bom": [("first", "", BOM)], "white_space": [("all", ", ", " ,\r\n\t"), ("end", "", " \n\n")],
        "white_space_before": [("first", "", " \n")], "other_order": swap('"!": 1, "\\"": 2', '"\\"": 2, "!": 1'),
        "utf8": swap('"\\u00a1"', '"\u00a1"'), "null": swap("{", '{"zz": null, '), "text": swap("{", '{"zz": "1", '),
        "fraction": swap('"!": 1', '"!": 1.0'), "negative": swap('"!": 1', '"!": -1'),
        "above_32_bits": swap("{", '{"zz": 4294967599, '), "gap": swap("{", '{"zz": 500, '),
        "same_id": swap("{", '{"zz": 5, '), "name_twice": swap("{", '{"!": 1, '), "byte_missing": swap('"!": 1', '"zz": 1'),
        "one_more": swap("{", '{"zz": 300, '), "not_of_bytes": swap("{", '{"\\u65e5": 300, '),
        "empty_name": swap("{", '{"": 300, '), "comma_at_the_end": [("end", "}", ",}")], "behind": [("end", "", "x")],
        "array": [("first", None, "[]")], "empty_object": [("first", None, "{}")], "empty": [("first", None, "")],
    }, "ranks": {
        "unchanged": [], "bom": [("first", "", BOM)], "crlf": [("all", "\n", "\r\n")], "cr": [("all", "\n", "\r")],
        "no_last_newline": [("end", "\n", "")], "blank_last_lines": [("end", "", "\n\r\n")],
        "blank_line_in_the_middle": swap("IQ== 33\n", "\nIQ== 33\n"), "blank_first_line": [("first", "", "\n")],
        "spaces_line": swap("IQ== 33\n", "  \nIQ== 33\n"), "two_spaces": swap("IQ== 33", "IQ==  33"),
        "tab": swap("IQ== 33", "IQ==\t33"), "space_behind": swap("IQ== 33", "IQ== 33 "),
        "space_before": swap("IQ== 33", " IQ== 33"), "no_rank": swap("IQ== 33", "IQ=="),
        "three_fields": swap("IQ== 33", "IQ== 33 0"), "plus": swap("IQ== 33", "IQ== +33"),
        "zero_before": swap("IQ== 33", "IQ== 033"), "underscore": swap("IQ== 33", "IQ== 3_3"),
        "hexadecimal": swap("IQ== 33", "IQ== 0x21"), "no_padding": swap("IQ== 33", "IQ 33"),
        "bits_behind": swap("IQ== 33", "IR== 33"), "not_base64": swap("IQ== 33", "I!Q== 33"),
        "line_twice": swap("IQ== 33\n", "IQ== 33\nIQ== 33\n"), "other_order": swap("IQ== 33\nIg== 34\n", "Ig== 34\nIQ== 33\n"),
    }, "words": {k: [("first", "", t)] for k, t in {
        "unchanged": "a\nb\nc\n", "bom": BOM + b"a\nb\nc\n", "crlf": "a\r\nb\r\nc\r\n", "cr": "a\rb\rc\r",
        "no_last_newline": "a\nb\nc", "blank_last_lines": "a\nb\nc\n\n\n", "blank_last_lines_crlf": "a\r\nb\r\nc\r\n\r\n",
        "blank_line_in_the_middle": "a\n\nb\nc\n", "space_behind": "a \nb\nc\n", "space_before": " a\nb\nc\n", "cr_at_the_end": "a\nb\nc\r",
        "space_inside": "a x\nb\nc\n", "twice": "a\nb\nc\na\n", "not_utf8": b"a\nb\xff\nc\n", "nul": "a\nb\0\nc\n",
        "not_ascii": "\u00e4\u3042\nb\na\nc\n"}.items()},
        "text": {k: [("first", "", t)] for k, t in {
            "bom": BOM + b"the keeper", "crlf": "the\r\n\r\nkeeper\r\n", "cr": "the\rkeeper", "nul": "the\0keeper",
            "not_utf8": b"the\xffkeeper", "surrogate": b"the\xed\xa0\x80", "overlong": b"the\xc0\x80", "cut": b"the\xe3\x80",
            "blank_last_lines": "the\n\n\n", "line_separators": "the\u2028keeper\u2029\u0085the", "no_break": "the\u00a0keeper",
            "mongolian": "the\u180ekeeper", "special": "the<|endoftext|>keeper", "form_feed": "the\f\v\x1ckeeper"}.items()},
    }
    flag = lambda name, value: swap(PAD, PAD.replace(f'"{name}":{str(not value).lower()}', f'"{name}":{str(value).lower()}'))
    v["json"] = {
        "unchanged": [], "bom": [("first", "", BOM)], "white_space": [("all", "},", "} ,\r\n\t"), ("end", "", " \n\n")],
        "white_space_before": [("first", "", " \n")], "comma_at_the_end": [("end", "}", ",}")], "behind": [("end", "", "x")],
        "other_order": without('"version":"1.0","truncation":null,') + [("end", "}", ',"truncation":null,"version":"1.0"}')],
        "unknown_member": swap("{", '{"x":1,'), "member_twice": swap("{", '{"version":"1.0",'),
        "version_2": swap('"1.0"', '"2.0"'), "no_version": without('"version":"1.0",'),
        "no_truncation": without('"truncation":null,'), "no_padding": without('"padding":null,'),
        "no_normalizer": without('"normalizer":null,'), "no_post_processor": without('"post_processor":null,'),
        "decoder_null": swap('"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}',
                             '"decoder":null'),
        "no_decoder": without('"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},'),
        "use_regex": swap('"use_regex":false', '"use_regex":true'), "no_use_regex": without(',"use_regex":false'),
        "no_trim_offsets": without('"trim_offsets":true,'), "no_add_prefix_space": without('"add_prefix_space":false,'),
        "no_invert": without(',"invert":false'),
        "merge_twice": swap('"merges":[', '"merges":[["h","e"],'), "merge_mixed": swap('"merges":[["h","e"]', '"merges":["h e"'),
        "merge_of_three": swap('"merges":[', '"merges":[["h","e","r"],'), "no_merges": swap('"merges"', '"x"'),
        "vocab_null": swap('"vocab":{', '"vocab":{"zz":null,'), "vocab_gap": swap('"vocab":{', '"vocab":{"zz":700,'),
        "vocab_name_twice": swap('"vocab":{', '"vocab":{"!":1,'), "vocab_not_of_bytes": swap('"!":1', '"\\u65e5":1'),
        "dropout_0": swap('"dropout":null', '"dropout":0.0'), "prefix_empty": swap('prefix":null', 'prefix":""'),
        "model_unknown_member": swap('"dropout":null', '"x":1,"dropout":null'), "no_type": without('"type":"BPE",'),
        "added_null": swap('"added_tokens":[', '"added_tokens":null,"x":['), "added_id": swap('"id":290', '"id":5000'),
        "added_id_of_another": swap('"id":290', '"id":1'), "added_no_id": without('"id":290,'),
        "added_unknown_member": swap('"id":290', '"x":1,"id":290'), "added_no_content": without('"content":"<|pad|>",'),
        "added_empty": swap("<|pad|>", ""), "added_twice": swap("<|pad|>", "<|endoftext|>"),
        "added_other_order": swap('"id":290,"content":' + PAD, '"content":' + PAD + ',"id":290'),
        "added_not_special": flag("special", False), "added_normalized": flag("normalized", True),
        "added_longest": added(("e<", False, False), ("the<", False, False), ("the<|", False, False), ("the<|x", False, False)),
        "added_special_hides": added(("the<|", True, False), ("e<", False, False), ("keeper", True, False), ("eep", False, True)),
        "added_normalized_later": added(("e<|pad|>x", False, True), ("<|", False, True), ("y kee", False, False),
                                        ("\"y", False, True)),
    }
    for name in ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback",
                 "ignore_merges"):
        value = "null" if name in ("dropout", "unk_token") or name[0] in "ce" else "false"
        v["json"]["no_" + name] = without(f'"{name}":{value},')
        if value == "false":
            v["json"][name + "_null"] = swap(f'"{name}":false', f'"{name}":null')
    for name in ("special", "normalized", "lstrip", "rstrip", "single_word"):
        value = "true" if name == "special" else "false"
        v["json"]["added_no_" + name] = swap(PAD, PAD.replace(f',"{name}":{value}', ""))
        v["json"][f"added_{name}_null"] = swap(PAD, PAD.replace(f'"{name}":{value}', f'"{name}":null'))
    draw = random.Random(1)
    for i in range(6):
        names = {"".join(draw.choice("ab") for _ in range(draw.randint(2, 6))) for _ in range(10)}
        v["json"][f"added_random_{i}"] = added(*[(n, draw.random() < 0.4, i % 2 == 1 and draw.random() < 0.5)
                                                 for n in sorted(names)])
    return v


def main():
    out = open(os.path.join(HERE, "variants.txt"), "w")
    out.write(PROBE + "\n")
    as_bytes = lambda text: text if isinstance(text, bytes) else text.encode()
    for format, rows in variants().items():
        unchanged = None
        base = read(BASES[format]) if format in BASES else b""
        for name, edits in rows.items():
            file, written = base, []
            for where, find, replacement in edits:
                if find is None:  # the whole file
                    file, where, find = b"", "whole", ""
                else:
                    file = edit(file, where, as_bytes(find), as_bytes(replacement))
                file = as_bytes(replacement) if where == "whole" else file
                written += [where, shown(as_bytes(find)), shown(as_bytes(replacement))]
            try:
                special, plain = ids_of(format, file)
                verdict = f"yes {' '.join(map(str, special))} / {' '.join(map(str, plain))}"
                unchanged = verdict if name == "unchanged" else unchanged
                verdict = "yes =" if verdict == unchanged and name != "unchanged" else verdict
            except BaseException:
                verdict = "no"
            out.write(" ".join([format, name, str(len(edits))] + written + [verdict]) + "\n")


if __name__ == "__main__":
    main()

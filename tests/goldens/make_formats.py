#!/usr/bin/env python3
"""Writes tests/goldens/formats.txt: what the reference readers read of variants of each format. They are those of gensim
4.4.0, numpy 2.4.6, safetensors 0.8.0, transformers 5 (the index of a sharded model) and Python 3.11 (csv, without blank lines,
as csv.DictReader).

A line: format, variant, bytes, and what the reference reads, or "refused"; if the library differs, also what it reads, and why.
Bytes are escaped as \\x.., and numbers have the form %.9g. A content is "2x1 word=1|other=2" of vectors, "i32(2,)1,2" of NPY and
of the array "a" of NPZ, "name=F32(2,)1,2|other=F4(2,)?" of safetensors, and "field,field|field,field" of tables."""
import csv
import io
import itertools
import pathlib
import re
import tempfile
import types
import zipfile

import numpy
import safetensors
from gensim.models import KeyedVectors
from transformers.utils.hub import get_checkpoint_shard_files

folder, lines, R = pathlib.Path(tempfile.mkdtemp()), [], "refused"


def escape(data, keep=rb"0-9A-Za-z.+_-"):
    data = data.encode() if isinstance(data, str) else data
    return re.sub(rb"[^" + keep + rb"]", lambda m: b"\\x%02x" % m[0][0], data).decode()


def content(sizes, values):
    return str(tuple(int(s) for s in sizes)).replace(" ", "") + ",".join("%.9g" % v for v in values)


def read_vectors(path, **options):
    found = KeyedVectors.load_word2vec_format(str(path), **options)
    rows = [escape(word or "") + "=" + content((), row)[2:] for word, row in zip(found.index_to_key, found.vectors)]
    return "%dx%d " % found.vectors.shape + "|".join(rows)


def read_array(x):
    here = {"f2": "f32", "f4": "f32", "f8": "f64", "b1": "u8", "u1": "u8"}
    kind = here.get(x.dtype.str[1:], "i32" if x.dtype.kind in "iu" else "?")
    return kind + content(x.shape, x.flatten() if kind != "?" else ())


def read_tensors(data):
    codes = dict(zip("F16 F32 F64 BOOL I8 I16 I32 I64 U8 U16 U32 U64".split(), "f2 f4 f8 b1 i1 i2 i4 i8 u1 u2 u4 u8".split()))
    return "|".join("%s=%s%s" % (escape(name), t["dtype"], content(t["shape"], numpy.frombuffer(t["data"], codes[t["dtype"]]))
                                 if t["dtype"] in codes else content(t["shape"], ()) + "?")
                    for name, t in sorted(safetensors.deserialize(data)))


def read_index(path):
    (folder / "formats.safetensors").write_bytes(header(T) + ONE)
    paths = get_checkpoint_shard_files(str(folder), str(path))[0]
    return "|".join(read_tensors(pathlib.Path(p).read_bytes()) for p in paths)


def read_table(path, **options):
    with open(path, newline="", encoding="utf-8-sig") as file:
        return "|".join(",".join(map(escape, row)) for row in csv.reader(file, **options) if row)


READERS = {"word2vec_text": read_vectors, "glove": lambda path: read_vectors(path, no_header=True),
           "word2vec_binary": lambda path: read_vectors(path, binary=True), "npy": lambda path: read_array(numpy.load(path)),
           "npz": lambda path: read_array(numpy.load(path)["a"]), "safetensors": lambda path: read_tensors(path.read_bytes()),
           "index": read_index, "csv": lambda path: read_table(path, strict=True),
           "tsv": lambda path: read_table(path, delimiter="\t")}


def add(format, variant, data, here=None, why=None):
    data = data.encode() if isinstance(data, str) else data
    path = folder / ("formats.index.json" if format == "index" else "formats." + format)
    path.write_bytes(data)
    try:
        reference = READERS[format](path)
    except Exception:
        reference = R
    if here == reference or (here is None) != (why is None):
        raise ValueError((format, variant, reference, here))
    lines.append("\t".join([format, variant, escape(data, rb" -\[\]-~"), reference] + ([here, why] if why else [])))


def add_all(format, rows, make=lambda data: data):
    for variant, data, *different in rows:
        add(format, variant, make(data), *different)


# ---- vectors ----
MARK, WIDTH, IDS = "a byte-order mark is skipped", "a row has C values", "a word's id is the number of its row"
NUL, EMPTY, MORE = "words are strings of C", "no word is empty", "V would be wrong"
for name, end in ("LF", "\n"), ("CRLF", "\r\n"), ("CR", "\r"), ("space LF", " \n"), ("tab LF", "\t\n"):
    for last in 0, 1, 3:
        rows, blank = "a 1 2" + end + "b 3 -4.5" + end * last, last == 3 and name != "CR"
        add("word2vec_text", "%s, %d last" % (name, last), "2 2" + end + rows)
        add("glove", "%s, %d last" % (name, last), rows, *["2x2 a=1,2|b=3,-4.5", "blank last lines are no rows"] * blank)
for space in "\u00a0\u3000\u2028\u0085\u001c\t\v\r":
    for format, first in ("word2vec_text", "2 2\n"), ("glove", ""):
        add(format, "space U+%04X" % ord(space), first + "a%sb 1 2\n%s 3 4\n" % (space, space))
for word in b"\xff", b"\xe3\x80", b"\xed\xa0\x80", b"\xc0\xa0", b"\xef\xbb\xbf":
    add("word2vec_text", "word " + escape(word), b"1 2\n" + word + b" 1 2\n")
    add("word2vec_binary", "word " + escape(word), b"1 1\n" + word + b" \0\0\0\0\n")
for first in "1\t2,1  2, 1 2,1 2 ,01 2,1 02,1 2.0,1.0 2,-1 2,1 -2,1,,x 2,1 x,1;2,1 0".split(","):
    add("word2vec_text", "first line '%s'" % escape(first, b" -~"), first + "\na 1 2\n")
for number in "1e2 +1 .5 5. inf -inf nan Infinity 0x10 1,5 1d0 -".split():
    add("word2vec_text", "number " + number, "1 2\na 1 %s\n" % number)
for name, rows, *why in [
        ("two spaces", "a 1  2\n", "1x2 a=1,2", "spaces separate, however many"), ("tab between values", "a 1\t2\n"),
        ("tabs", "a\t1\t2\n"), ("too many values", "a 1 2\nb 1 2 3\n"), ("one value of two", "a 1 2\nb 3\n", R, WIDTH),
        ("blank line", "a 1 2\n\nb 3 4\n"), ("empty word", "a 1 2\n 1 2\n", R, EMPTY), ("NUL", "a 1 2\nc\0 1 2\n", R, NUL),
        ("equal words", "a 1 2\nb 1 2\na 3 4\n", R, IDS), ("70 digits", "a 1 1.%070d\n" % 0, R, "a number has at most 60 digits")]:
    add("word2vec_text", name, "%d 2\n%s" % (rows.count("\n"), rows), *why)
    add("glove", name, rows, *[R, "a first line has a word and at least 2 values"] if name == "tabs" else why)
add_all("word2vec_text", [
    ("no words", "0 2\n"), ("no words, no values", "0 0\n", R, "C >= 1"), ("empty file", ""), ("fewer rows", "2 2\na 1 2\n"),
    ("byte-order mark", "\ufeff1 2\na 1 2\n", "1x2 a=1,2", MARK), ("first line +1 2", "+1 2\na 1 2\n", R, "sizes are digits"),
    ("first line 1 2 3", "1 2 3\na 1 2\n", "2x2 1=2,3|a=1,2", "it is a file without a first line"), ("C = 1", "1 1\na 1\n"),
    ("more rows", "1 2\na 1 2\nb 3 4\n", R, MORE)])
add_all("glove", [
    ("empty file", ""), ("numbers as words", "1 2 3\n4 5 6\n"), ("byte-order mark", "\ufeffa 1 2\n", "1x2 a=1,2", MARK),
    ("one value a row", "a 1\nb 2\n", R, "a first line has a word and at least 2 values"),
    ("first line 1 2", "1 2\n3 4\n", R, "two whole numbers are V and C")])
X, Y = b"\0\0\x80?\0\0\0@", b"\0\0@@\0\0\x90\xc0"
add_all("word2vec_binary", [
    ("plain", b"2 2\na " + X + b"\nb " + Y + b"\n"), ("no newlines", b"2 2\na " + X + b"b " + Y), ("no words", b"0 2\n"),
    ("CRLF", b"1 2\r\na " + X + b"\r\n"), ("newlines", b"2 2\na " + X + b"\n\nb " + Y + b"\n\n"), ("cut", b"1 2\na " + X[:7]),
    ("no space", b"1 2\na\n" + X), ("fewer rows", b"2 2\na " + X), ("no first line", b"a " + X), ("NUL", b"1 2\n\0 " + X, R, NUL),
    ("byte-order mark", b"\xef\xbb\xbf1 2\na " + X), ("spaces", "1 2\na\u00a0\u3000\tb ".encode() + X),
    ("CRLF before a word", b"2 2\na " + X + b"\r\nb " + Y, R, "a word has no line break"), ("empty word", b"1 2\n " + X, R, EMPTY),
    ("newline in a word", b"1 2\na\nb " + X, R, "a word has no line break"), ("more", b"1 2\na " + X + b"\nb " + Y, R, MORE),
    ("equal words", b"2 2\na " + X + b"a " + Y, R, IDS)])


# ---- NPY and NPZ ----
def npy(text, values=b"\1\0\0\0\2\0\0\0", version=(1, 0)):
    text = text.encode("latin1")
    return b"\x93NUMPY" + bytes(version) + len(text).to_bytes(2 if version[0] == 1 else 4, "little") + text + values


def described(descr="'<i4'", order="False", sizes="(2,)"):
    return "{'descr': %s, 'fortran_order': %s, 'shape': %s, }\n" % (descr, order, sizes)


for code, order in itertools.product("f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1".split(), ["<", ">", "|", ""]):
    if code[1] == "1" or order in ("<", ">"):
        x = numpy.array({"f": [1.5, -2], "i": [-7, 100], "u": [7, 200], "b": [0, 1]}[code[0]], order.strip("|") + code)
        add("npy", order + code, npy(described("'%s'" % (order + code)), x.tobytes()))
for code, x in ("i8", -2**31 - 1), ("i8", 2**63 - 1), ("u4", 2**31), ("u8", 2**31), ("u8", 2**64 - 1):
    add("npy", "%s %d" % (code, x), npy(described("'<%s'" % code), numpy.array([0, x], code).tobytes()), R, "it does not fit i32")
for descr in "'=i4'", "'i4'", "'|i4'", "'int32'":
    add("npy", "descr " + descr, npy(described(descr)), R, "the byte order is unknown")
for descr, size in ("'<c8'", 8), ("'<f16'", 16), ("'|S4'", 4), ("'<U1'", 4), ("'<M8[s]'", 8), ("[('x', '<i4')]", 4):
    add("npy", "descr " + descr, npy(described(descr), bytes(2 * size)), R, "no tensor has this dtype")
for descr in "'|O'", "'<i3'", "'<i16'", "1", "<i4":
    add("npy", "descr " + descr, npy(described(descr)))
for order in "True", "1", "'True'", "None", "true":
    add("npy", "order " + order, npy(described(order=order)))
LITERAL = "sizes are digits"
for sizes, *why in [("(2L,)",), ("(2)",), ("2",), ("[2]",), ("(-2,)",), ("(2.0,)",), ("( 2 , )",), ("(1, 2)",), ("(2, 1,)",),
                    ("(1L, 2L)",), ("(2LL,)",), ("(2l,)",), ("(3,)",), ("(2,, )",), ("(9999999999, 9999999999)",),
                    ("(0x2,)", R, LITERAL), ("(+2,)", R, LITERAL), ("(True, 2)",), ("(1,)", R, "bytes follow"),
                    ("(1, 1, 1, 1, 1, 1, 1, 1, 2)", R, "a rank is at most 8")]:
    add("npy", "shape " + sizes, npy(described(sizes=sizes)), *why)
for sizes in "()", "(0,)", "(2, 0)":
    add("npy", "shape " + sizes, npy(described(sizes=sizes), b"\1\0\0\0" * (sizes == "()")))
P = described()
add_all("npy", [
    ("order of keys", "{'shape': (2,), 'fortran_order': False, 'descr': '<i4'}"), ("white space", P.replace(" ", "\r\n\t ")),
    ("compact", P.replace(" ", "")), ("double quotes", P.replace("'", '"')), ("no newline", P[:-1]), ("space before", "  " + P),
    ("NUL behind", P + "\0"), ("text behind", P + "x"), ("no descr", P.replace("descr", "dtype")), ("list", "[" + P[1:-2] + "]"),
    ("extra key", P.replace("}", "'x': 1}")), ("no shape", P[:41] + "}"), ("empty", ""), ("byte-order mark", "\xef\xbb\xbf" + P),
    ("u'descr'", "{u" + P[1:], R, "Python 3 writes no prefixes"), ("comment", P + "# x", R, "no program writes comments"),
    ("equal keys", P.replace("}", "'shape': (2,)}"), R, "a key is given once")], npy)
for version in (1, 0), (2, 0), (3, 0), (1, 1), (0, 0), (4, 0):
    add("npy", "version %d.%d" % version, npy(P, version=version))
    add("npy", "version %d.%d, 2L" % version, npy(P.replace("2", "2L"), version=version), *(
        ["i32(2,)1,2", "an L is skipped in every version"] if version[0] == 3 else []))
add_all("npy", [("cut", npy(P)[:-1]), ("cut header", npy(P)[:30]), ("empty file", b""), ("magic", b"\x92" + npy(P)[1:]),
                ("bytes behind", npy(P) + b"\n", R, "the shape says how many bytes there are")])


def zipped(name="a.npy", data=npy(P), times=1, method=zipfile.ZIP_STORED, stream=False, comment=b"", force_zip64=False):
    out = io.BytesIO()
    with zipfile.ZipFile(types.SimpleNamespace(write=out.write, flush=out.flush) if stream else out, "w") as archive:
        for _ in range(times):
            item = zipfile.ZipInfo(name)
            item.compress_type = method
            with archive.open(item, "w", force_zip64=force_zip64) as member:
                member.write(data)
        archive.comment = comment
    return out.getvalue()


Z = zipped()
add_all("npz", [
    ("plain", Z), ("name without .npy", zipped("a")), ("comment", zipped(comment=b"x")), ("zip64", zipped(force_zip64=True)),
    ("stream", zipped(stream=True)), ("unknown name", zipped("b.npy")), ("no array", zipped(data=b"x")), ("cut", Z[:-1]),
    ("empty archive", zipped(times=0)), ("damaged", Z.replace(b"\1\0\0\0\2", b"\1\0\0\0\3")), ("empty file", b""),
    ("compressed", zipped(method=zipfile.ZIP_DEFLATED), R, "members are not compressed"), ("equal names", zipped(times=2), R,
                                                                                        "a name is given once"),
    ("bytes before", b"\n" + Z), ("bytes behind", Z + b"\n", R, "the end record is last")])


# ---- safetensors ----
def header(text):
    text = text if isinstance(text, bytes) else text.encode()
    return len(text).to_bytes(8, "little") + text


T, ONE = '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', b"\0\0\x80?"
ONCE, WRITES = "a name is given once", "no program writes it"
add_all("safetensors", [
    ("plain", T), *[("white space before: " + escape(s), s + T) for s in (" ", "\n", "\r\n", "\t")], ("NUL behind", T + "\0"),
    ("white space behind", T + " \n\t"), ("white space inside", re.sub(r"([^0-9a-zA-Z\"_])", r" \1\r\n\t", T)), ("form feed", "\f" + T),
    ("byte-order mark", "\ufeff" + T), ("escaped", T.replace("a\"", "\\u0061\"", 1)), ("text behind", T + "x"), ("comma", T[:-1] + ",}"),
    *[("metadata " + m, '{"__metadata__":%s,%s' % (m, T[1:])) for m in ('null', '{}', '{"x":"y"}', '{"x":1}', '{"x":null}', '[]', '1',
                                                                 '{"x":"y"},"__metadata__":null', 'null,"__metadata__":{}')],
    ("metadata last", T[:-1] + ',"__metadata__":null}'), ("other keys", T.replace("]}", '],"x":[1,{"y":null}]}')),
    ("order of keys", '{"a":{"data_offsets":[0,4],"shape":[1],"dtype":"F32"}}'), ("no dtype", T.replace('"dtype"', '"x"')),
    ("no shape", T.replace("shape", "x")), ("no offsets", T.replace("data_offsets", "x")), ("name with U+007F", T.replace("a", "\x7f", 1)),
    *[("dtype " + d, T.replace('"F32"', d)) for d in ("null", '"f32"', '"I32"', '"F4"', '"F33"', "1")],
    *[("shape " + s, T.replace("[1]", s)) for s in ("[]", "[1,1]", "null", "[1.0]", "[1e0]", "[-1]", "[01]", "[2]", "[0]", "[1,]", "1")],
    *[("offsets " + s, T.replace("[0,4]", s)) for s in ("[0,4,4]", "[0]", "[4,0]", "[-0,4]", "[0,3]", "[0,5]", "[1,4]", "null")],
    *[("dtype %s" % d, T.replace("F32", d).replace("[1]", "[%d]" % (4 // s))) for d, s in
      (("I8", 1), ("U8", 1), ("I16", 2), ("U16", 2), ("F16", 2), ("I32", 4), ("U32", 4)) if d != "I32"],
    ("tensor null", '{"a":null}'), ("empty name", T.replace("a", "", 1)), ("raw tab", T.replace("a", "\t", 1)),
    ("surrogate", T.replace("a", "\\ud800", 1)), ("no UTF-8", T.encode().replace(b"a", b"\xff", 1)),
    ("tensor as list", '{"a":["F32",[1],[0,4]]}', R, WRITES), ("dtype as object", T.replace('"F32"', '{"F32":null}'), R, WRITES),
    ("equal names", T[:-1] + "," + T[1:], R, ONCE), ("equal dtypes", T.replace('"shape"', '"dtype":"F32","shape"')),
    ("equal keys of metadata", '{"__metadata__":{"x":"y","x":"z"},' + T[1:], R, ONCE), ("array", "[]"), ("null", "null"),
    ("NUL in a name", T.replace("a", "\\u0000", 1), R, "names are strings of C"),
    ("rank 9", T.replace("[1]", "[1,1,1,1,1,1,1,1,1]"), R, "a rank is at most 8"),
    ("overlap", T[:-1] + ',"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}'),
    ("overflow", T.replace("[1]", "[4294967296,4294967296,0]"))], lambda text: header(text) + ONE)
add_all("safetensors", [("no tensors", header("{ }")), ("empty file", b""), ("length 0", bytes(8)), ("long", bytes(6) + b"\1\0{}"),
                        ("bytes behind", header(T) + ONE + b"\n"), ("cut", header(T) + ONE[:3])])
M, FILE = '{"metadata":{},"weight_map":{"a":"formats.safetensors"}}', '"formats.safetensors"'
add_all("index", [
    ("plain", M), ("order of keys", '{"weight_map":{"a":%s},"metadata":{"total_size":4}}' % FILE), ("white space", " \r\n" + M + "\n\n"),
    ("other keys", M[:-1] + ',"x":[1.5,null]}'), ("byte-order mark", "\ufeff" + M), ("metadata null", M.replace("{}", "null"), "a=F32(1,)1", "no metadata are needed"),
    ("no map", '{"metadata":{}}'), ("map null", '{"metadata":{},"weight_map":null}'), ("no such file", M.replace("formats.s", "x.s")),
    ("file null", M.replace(FILE, "null")), ("cut", M[:-1]), ("empty file", ""), ("array", "[%s]" % M), ("comma", M[:-1] + ",}"),
    ("no metadata", M.replace('"metadata":{},', ""), "a=F32(1,)1", "no metadata are needed"), ("NaN", M.replace("{}", '{"x":NaN}'), R, "NaN is no JSON"),
    ("equal names", M.replace("}}", ',"a":%s}}' % FILE)),
    ("equal maps", M[:-1] + ',"weight_map":{}}', R, ONCE), ("other tensor", M.replace('"a"', '"b"'), R, "the file has no such tensor"),
    ("file in a folder", M.replace("formats.s", "./formats.s"), R, "files are in the folder of the index")])

# ---- tables ----
RAGGED, SHUT = "a table has equally many fields in each line", "a quote must be closed"
for format, s in ("csv", ","), ("tsv", "\t"):
    for name, end in ("LF", "\n"), ("CRLF", "\r\n"), ("CR", "\r"):
        for last in 0, 1, 3:
            for rows in "ab", "1":
                rows = rows[0] + s + rows[-1] if len(rows) > 1 else rows
                add(format, "%s, %d last, %d fields" % (name, last, rows.count(s) + 1), rows + end + rows + end * last)
    add_all(format, [(name, data.replace(",", s), *why) for name, data, *why in [
        ("byte-order mark", "\ufeffa,b\n1,2\n"), ("mixed", "a,b\r\n1,2\r3,4\n"), ("spaces", " a ,b c\n1, \n"), ("empty fields", ",\n,\n"),
        ("quoted", '"a,b","c\rd\ne\r\nf"\r"""g""",""\r'), ("one empty field", '""\n""\n'), ("end in quotes", '"a",b\r1,"2"'),
        ("quoted, then CR", '"a"\r"b"\r'), ("empty file", "", R, "a table has at least one line"),
        ("blank line", "a,b\n\n1,2\n", R, "it might be an empty field"),
        ("blank line, 1 field", "a\n\n1\n", "a||1", "it is an empty field"), ("LF CR", "a,b\n\r1,2\n\r", R, "it might be an empty field"),
        ("fewer fields", "a,b\n1\n", R, RAGGED), ("more fields", "a\n1,2\n", R, RAGGED), ("NUL", "a\0,b\n", R, "fields are strings of C"),
        ("only blank lines", "\n\n", R, "a table has at least one line")]])
QUOTES = "quotes must be doubled, unless loose_quotes"
add_all("csv", [("open", 'a,"b\n'), ("quote inside", 'a,b"c"\n', R, QUOTES), ("text behind", 'a,"b"c\n'), ("space, quote", 'a, "b"\n', R, QUOTES)])
add_all("tsv", [("open", 'a\t"b\n', R, SHUT), ("quote inside", 'a\tb"c"\n'), ("text behind", 'a\t"b"c"\n'), ("space, quote", 'a\t "b"\n'),
                *[("quotes %d" % i, text) for i, text in enumerate([
                    'a\tb "c" d\n', 'a\t"b"c"\n"d\te"f\tg\n', 'a""\t"""b"""\n', '"a\nb"\t""\nc\t"d""""" e"\n', '"a" \tb\r\n"c"""\td\r\n'])]])
(pathlib.Path(__file__).parent / "formats.txt").write_text("\n".join(lines) + "\n")

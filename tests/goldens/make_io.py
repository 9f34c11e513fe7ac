"""Writes tests/goldens/io with torch 2.13.0+cpu, safetensors 0.8.0 and numpy: python3 make_io.py

Value k of an array of integers is (7 k mod 23) - 11; of an array of floats half of that; of unsigned integers 7 k mod 23;
of booleans whether k mod 3 is 0. So the tests compute the values that they expect. k counts in row-major order.

    dtypes.safetensors     one tensor per dtype, named after it; ranks 0 to 8; tensors without values; names in Unicode
    layout.safetensors     the bytes that the reference writer writes for three tensors and one text of metadata
    every.safetensors      every dtype that is both read and written, in the ranks 0 to 8: "F32.0", "F32.1", ...
    tied.safetensors       safetensors.torch.save_model of a module with tied weights
    sharded.*              a model in two files with an index
    rounding.safetensors   floats, and the same as half and bfloat16
    arrays.npz             one array per dtype, byte order and memory order: "f4_le_c"
    v1.npy v2.npy v3.npy   one array per version of the format
    compressed.npz         an archive that is compressed
"""
import io
import json
import pathlib
import zipfile

import numpy
import safetensors
import safetensors.numpy
import safetensors.torch
import torch

assert torch.__version__.startswith("2.13.0") and safetensors.__version__ == "0.8.0"
folder = pathlib.Path(__file__).parent / "io"
folder.mkdir(exist_ok=True)


def values(shape, kind):
    k = numpy.arange(int(numpy.prod(shape)), dtype=numpy.int64)
    whole = k * 7 % 23
    made = {"f": (whole - 11) / 2, "i": whole - 11, "u": whole, "b": k % 3 == 0}[kind]
    return made.reshape(shape)


def tensor(dtype, shape=(2, 3)):
    kind = "b" if dtype == torch.bool else "f" if dtype.is_floating_point or dtype.is_complex else \
        "u" if dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64) else "i"
    return torch.from_numpy(numpy.array(values(shape, kind))).to(dtype)


dtypes = {"F32": torch.float32, "F64": torch.float64, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
          "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
          "U16": torch.uint16, "U32": torch.uint32, "U64": torch.uint64, "C64": torch.complex64,
          "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2}
tensors = {name: tensor(dtype) for name, dtype in dtypes.items()}
for rank in range(9):
    tensors["rank%d" % rank] = tensor(torch.float32, (2,) * rank)
tensors["empty"] = tensor(torch.float32, (0,))
tensors["empty3"] = tensor(torch.int32, (2, 0, 3))
tensors["größe.重み.🙂"] = tensor(torch.float32, (2,))
tensors['quote " backslash \\ newline \n bell \a'] = tensor(torch.float32, (1,))
safetensors.torch.save_file(tensors, folder / "dtypes.safetensors", {"format": "pt"})

every = {"%s.%d" % (name, rank): tensor(dtypes[name], (2, 1, 3, 1, 2, 1, 1, 2)[:rank]) for rank in range(9)
         for name in ("F32", "F64", "F16", "BF16", "I32", "I64", "U8", "BOOL")}
safetensors.torch.save_file(every, folder / "every.safetensors", {"format": "pt"})

layout = {"b": tensor(torch.float32, (2, 3)), "a.weight": tensor(torch.float64, (3,)), "ids": tensor(torch.int32, ()),
          'mask "é"\t\x01': tensor(torch.uint8, (5,)), "a.bias": tensor(torch.float32, (0, 4))}
safetensors.torch.save_file(layout, folder / "layout.safetensors", {"who\n": "me é \"\\/\b\x1f"})


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_emb = torch.nn.Embedding(4, 3)
        self.head = torch.nn.Linear(3, 4, bias=False)
        self.head.weight = self.tok_emb.weight
        self.tok_emb.weight.data = tensor(torch.float32, (4, 3))


safetensors.torch.save_model(Tied(), str(folder / "tied.safetensors"))

names = ["sharded-00001-of-00002.safetensors", "sharded-00002-of-00002.safetensors"]
safetensors.torch.save_file({"a": tensor(torch.float32, (2, 3)), "b": tensor(torch.float32, (3,))}, folder / names[0])
safetensors.torch.save_file({"c": tensor(torch.bfloat16, (4,))}, folder / names[1])
index = {"metadata": {"total_size": 44, "more": [1.5e3, True, None, {"x": "y"}]},
         "weight_map": {"a": names[0], "b": names[0], "c": names[1]}}
(folder / "sharded.safetensors.index.json").write_text(json.dumps(index, indent=2))

# Some 16-bit floats, the values halfway between neighbors, and their neighbors in f32.
halves = torch.arange(0, 0x7c01, 157, dtype=torch.int32).to(torch.int16).view(torch.float16).float()
brains = torch.arange(0, 0x7f81, 389, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).float()
x = torch.cat([halves, brains, torch.tensor([65504., 65519.996, 65520., 65536., 1e30, 3.4e38, 2.0**-25, 2.0**-24, 1e-45])])
bits = x.view(torch.int32)
around = torch.cat([bits, bits + 0x1000, bits + 0xfff, bits + 0x1001, bits + 0x8000, bits + 0x7fff, bits + 0x8001])
x = around[around < 0x7f800000].view(torch.float32)
x = torch.cat([x, -x, torch.tensor([float("inf"), float("-inf"), float("nan")])])
safetensors.torch.save_file({"x": x, "half": x.half(), "bfloat16": x.bfloat16()}, folder / "rounding.safetensors")

arrays = {}
for code, kind in {"f2": "f", "f4": "f", "f8": "f", "i4": "i", "i8": "i", "u1": "u", "b1": "b"}.items():
    for order in "<>":
        for layout_name in "CF":
            name = "%s_%s_%s" % (code, {"<": "le", ">": "be"}[order], layout_name.lower())
            arrays[name] = numpy.array(values((2, 3, 4), kind), dtype=order + code, order=layout_name)
for rank in range(9):
    arrays["rank%d" % rank] = values((2,) * rank, "f").astype("<f4")
arrays["empty"] = values((0, 3), "f").astype("<f4")
arrays["i2"] = values((3,), "i").astype("<i2")
arrays["big"] = numpy.array([1, 2, 2**31], dtype="<i8")
arrays["big_f"] = numpy.array([[1, 2, 3], [2**31, 5, 6]], dtype=">i8", order="F")
numpy.savez(folder / "arrays.npz", **arrays)
numpy.savez_compressed(folder / "compressed.npz", x=arrays["f4_le_c"])
for version in (1, 2, 3):
    with open(folder / ("v%d.npy" % version), "wb") as file:
        numpy.lib.format.write_array(file, arrays["f4_le_c"], version=(version, 0))

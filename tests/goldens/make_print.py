"""Writes tests/goldens/print.txt with torch 2.13.0+cpu: python3 make_print.py

The results of str(tensor) with torch.set_printoptions, for tensors of every dtype, rank and style. One case:

    case NAME
    dtype f32 | f64 | i32 | u8
    shape 2 3                     no sizes for a scalar
    permute 1 0                   only where the tensor printed is a view with permuted axes
    options 4 1000 3 80           precision, threshold, edge items, line width
    values 0x1p+0 -nan 12         repeated until the tensor is full, row-major; floats in hex, exact
    |tensor([...                  the text, one line after each bar
    end

tapegrad does not print dtypes. So f64 is printed with float64 as torch's default dtype; i32 and u8 as int64; and an empty
tensor of integers as one of floats, because torch prints the dtype of every other empty tensor.
"""
import contextlib
import math
import pathlib
import random
import re

import torch

assert torch.__version__.startswith("2.13.0")
DEFAULT = (4, 1000, 3, 80)
FLOATS = {"f32": torch.float32, "f64": torch.float64}
draw = random.Random(2013)
names = set()


def token(value, dtype):
    if dtype not in FLOATS:
        return str(value)
    if math.isnan(value):
        return "-nan" if math.copysign(1, value) < 0 else "nan"
    return re.sub(r"\.?0*p", "p", value.hex())


def case(name, dtype, shape, values, options=DEFAULT, permute=None):
    assert name not in names, name
    names.add(name)
    default = FLOATS.get(dtype, torch.float32)
    torch.set_default_dtype(default)
    precision, threshold, edge_items, line_width = options
    torch.set_printoptions(precision=precision, threshold=threshold, edgeitems=edge_items, linewidth=line_width)
    count = math.prod(shape)
    if dtype in FLOATS:
        values = torch.tensor(values, dtype=default).tolist()  # rounded to the dtype
    repeated = [values[i % len(values)] for i in range(count)]
    kind = torch.int64 if dtype not in FLOATS and count > 0 else default
    x = torch.tensor(repeated, dtype=kind).reshape(shape)
    if permute:
        x = x.permute(permute)
    print("case", name)
    print("dtype", dtype)
    print(" ".join(["shape", *map(str, shape)]))
    if permute:
        print(" ".join(["permute", *map(str, permute)]))
    print("options", precision, threshold, edge_items, line_width)
    tokens = [token(v, dtype) for v in values]
    for i in range(0, len(tokens), 8):
        print(" ".join(["values", *tokens[i : i + 8]]))
    for line in str(x).split("\n"):
        print("|" + line)
    print("end")


def normals(count, scale=1.0):
    return [draw.gauss(0, scale) for _ in range(count)]


def scalars_and_small_rows():
    values = [0.0, -0.0, 1.0, -1.0, 3.5, 1e-4, 1.0001e-4, 1e8, 1.00000008e8, 123456.0, -123456.5, 5e-324, 1e300,
              math.nan, math.inf, -math.inf, 1 / 3]
    for i, value in enumerate(values):
        if value == 0 or not math.isfinite(value) or 1e-38 < abs(value) < 1e38:
            case(f"scalar_f32_{i}", "f32", (), [value])
        case(f"scalar_f64_{i}", "f64", (), [value])
    case("scalar_negative_nan", "f32", (), [math.copysign(math.nan, -1)])
    case("scalar_i32", "i32", (), [-2147483648])
    case("scalar_u8", "u8", (), [255])
    case("one_f32", "f32", (1,), [2.5])
    case("one_of_rank_8", "f32", (1,) * 8, [2.5])
    case("row_whole", "f32", (2,), [1, 2])
    case("row_whole_signs", "f32", (5,), [1, -20, 0, -0.0, 300])
    case("row_fixed", "f32", (3,), [0.5, -1.25, 10])
    case("row_zeros", "f32", (4,), [0, -0.0])
    case("row_fixed_zeros", "f32", (4,), [0, -0.0, 0.25, 12])
    case("row_i32", "i32", (5,), [1, -20, 0, 2147483647, -2147483648])
    case("row_u8", "u8", (6,), [0, 1, 255, 10])


def empty():
    for shape in [(0,), (0, 3), (3, 0), (2, 0, 4), (0,) * 8, (1,) * 7 + (0,)]:
        for dtype in ["f32", "f64", "i32", "u8"]:
            case(f"empty_{dtype}_{'_'.join(map(str, shape))}", dtype, shape, [0])
    case("empty_size_fits", "f32", (0, 10**12, 10**3), [0], (4, 1000, 3, 42))
    case("empty_size_wraps", "f32", (0, 10**12, 10**3), [0], (4, 1000, 3, 41))


def styles():
    """The three thresholds of the scientific style from both sides, in both dtypes: 1e-4 as f32 is below 1e-4."""
    for dtype in FLOATS:
        for name, values in {
            "ratio_1000": [0.5, 500.0],
            "ratio_above": [0.5, 500.5],
            "ratio_whole": [1.0, -1000.0, 7.0],
            "ratio_whole_above": [1.0, -1001.0, 7.0],
            "max_1e8": [1e8, 1.5e7],
            "max_above": [100000008.0, 1.5e7],
            "min_1e-4": [1e-4, 2e-2],
            "min_above": [1.00001e-4, 2e-2],
            "min_below": [0.9999e-4, 2e-2],
            "zeros_do_not_vote": [0.0, -0.0, 5.5, 9.25],
            "special_fixed": [math.nan, 1.5, -math.inf, math.inf, -2.25],
            "special_whole": [math.nan, 1.0, -math.inf, math.inf, 0.0, 2.0],
            "special_scientific": [math.nan, 1e-5, -math.inf, math.inf, -0.0, 1.0],
            "special_only": [math.nan, -math.inf, math.inf, 0.0],
            "signed_nan": [math.copysign(math.nan, -1), math.nan, -12.0],
            "rounding": [0.00005, 0.99995, 0.03125, 0.15625, 0.28125, 9.99995],
            "rounds_wider": [9.99999, 1.0],
            "rounds_to_negative_zero": [-0.0001, 0.03],
            "rounds_to_next_exponent": [9.99996e-5, 1.0],
        }.items():
            case(f"{dtype}_{name}", dtype, (len(values),), values)
    case("f64_three_digit_exponents", "f64", (4,), [1e-300, 1.0, -1e300, 5e-324])
    case("f32_largest_and_smallest", "f32", (3,), [3.4028234663852886e38, 2.0**-149, 1.0])
    case("f64_quotient_overflows", "f64", (2,), [1e300, 1e-300])


def wrapping():
    case("wrap_fixed", "f32", (20,), normals(20))
    case("wrap_whole", "f32", (40,), [float(i) for i in range(40)])
    case("wrap_zeros", "f32", (40,), [0])
    case("wrap_zeros_i32", "i32", (40,), [0])
    case("wrap_i32", "i32", (45,), list(range(-3, 42)))
    case("wrap_u8", "u8", (33,), [0, 1])
    case("wrap_matrix", "f32", (3, 13), normals(39))
    case("wrap_cube", "f64", (2, 2, 11), normals(44))
    # an indent of 7 and 9 characters a number: 79 holds 8 of them, 88 holds 9, and there is always one
    for width in [78, 79, 87, 88, 24, 25, 15, 16, 0, -5]:
        case(f"wrap_width_{width}".replace("-", "minus_"), "f32", (9,), [-0.25, 1.5], (4, 1000, 3, width))
    case("wrap_rank_3_width_44", "f32", (1, 2, 6), [-0.25, 1.5], (4, 1000, 3, 44))
    case("wrap_rank_3_width_45", "f32", (1, 2, 6), [-0.25, 1.5], (4, 1000, 3, 45))


def ranks():
    case("matrix", "f32", (2, 3), [0.3374, -0.1778, -0.1690, 0.9178, 1.5810, 1.3010])
    case("column", "f32", (3, 1), [1, 2.5, 3])
    case("rank_3", "f32", (2, 2, 3), normals(12))
    case("rank_4", "f32", (2, 2, 2, 2), normals(16))
    case("rank_5", "f64", (2, 1, 2, 1, 2), normals(8))
    case("rank_8", "i32", (2, 1, 2, 1, 1, 2, 1, 2), list(range(16)))
    case("transposed", "f32", (2, 3), [1, 2, 3, 4, 5, 6.5], permute=(1, 0))
    case("permuted", "i32", (2, 3, 4), list(range(24)), permute=(2, 0, 1))


def summaries():
    case("threshold_is_not_above", "u8", (1000,), [3, 200, 0])
    case("threshold_is_not_above_f32", "f32", (10, 100), normals(97))
    case("threshold_above", "u8", (1001,), [3, 200, 0])
    case("summary_i32", "i32", (5000,), list(range(-7, 400)))
    case("summary_matrix", "f32", (50, 30), normals(97))
    case("summary_cube", "f32", (11, 13, 17), normals(97))
    case("summary_rank_4", "f32", (7, 2, 8, 10), normals(97))
    case("summary_only_first_axis", "f32", (400, 6), normals(97))
    case("summary_only_last_axis", "f64", (6, 400), normals(97))
    case("summary_nothing_long", "i32", (5, 6, 6, 6), list(range(97)))
    case("summary_rank_8", "i32", (3, 1, 7, 1, 2, 7, 1, 8), list(range(101)))
    case("summary_transposed", "f32", (40, 50), normals(97), permute=(1, 0))
    # what is left out does not vote: a fraction, a large and a small number in the middle
    middle = [1.0] * 3 + [0.5, 1e9, 1e-9] + [2.0] * 1995
    case("summary_middle_does_not_vote", "f32", (2001,), middle)
    case("summary_edge_votes", "f32", (2001,), [1.0] * 2000 + [0.5])
    case("summary_wide_middle", "i32", (1500,), [1, 2, 3] + [1000000] * 1494 + [4, 5, 6])
    for edge_items in [1, 2, 5, 10]:
        case(f"summary_edge_{edge_items}", "f32", (60, 21), normals(97), (4, 1000, edge_items, 80))
    case("summary_wraps", "f32", (2000,), normals(97), (4, 1000, 9, 80))
    case("summary_wraps_at_dots", "i32", (20,), list(range(20)), (4, 10, 3, 19))
    case("threshold_0_scalar", "f32", (), [1.5], (4, 0, 3, 80))
    case("threshold_0_row", "f32", (7,), [1.5, 2.5], (4, 0, 3, 80))
    case("threshold_0_short_row", "f32", (6,), [1.5, 2.5], (4, 0, 3, 80))


def edge_items_0():
    options = (4, 10, 0, 80)
    case("edge_0_scalar", "f32", (), [1.5], options)
    case("edge_0_row", "f32", (11,), [1.5], options)
    case("edge_0_matrix", "i32", (4, 5), [1], options)
    case("edge_0_not_summarised", "f32", (2, 5), [1.5, 2.25], options)
    case("edge_0_rank_1_not_summarised", "u8", (5,), [1], options)
    case("edge_0_size_fits", "f32", (2, 5), [1.5, 2.25], (4, 10, 0, 64))
    case("edge_0_size_wraps", "f32", (2, 5), [1.5, 2.25], (4, 10, 0, 63))


def precisions():
    values = [0.123456789, -1.5, 2.5, 99.996]
    for precision in [0, 1, 2, 3, 8, 17, 30]:
        options = (precision, 1000, 3, 80)
        case(f"precision_{precision}_fixed", "f64", (4,), values, options)
        case(f"precision_{precision}_scientific", "f64", (3,), [1.5e-7, -2.5, 9.96], options)
    case("precision_8_whole", "f32", (3,), [1, 20, -3], (8, 1000, 3, 80))
    case("precision_8_whole_scientific", "f32", (3,), [1, 20000, -3], (8, 1000, 3, 80))
    case("precision_0_half_to_even", "f32", (4,), [0.5, 1.5, 2.5, -3.5], (0, 1000, 3, 80))
    case("precision_1074", "f64", (), [5e-324 * 3], (1074, 1000, 3, 80))


if __name__ == "__main__":
    with open(pathlib.Path(__file__).parent / "print.txt", "w") as out, contextlib.redirect_stdout(out):
        scalars_and_small_rows()
        empty()
        styles()
        wrapping()
        ranks()
        summaries()
        edge_items_0()
        precisions()
        print("cases", len(names))

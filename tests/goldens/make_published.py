"""Writes tests/goldens/published.txt with torch 2.13.0+cpu and transformers 5.24.0: python3 make_published.py

Small models of published families (tests/published/cases.py), whose weights are a formula, so that the test computes
them. Of each:

    case NAME DTYPE FILES               the dtype in the files, and their number
    config JSON                         config.json
    tensor NAME EXPONENT OFFSET RANK SIZES... NORM SUM SUM
                                        a tensor of the files: value i is OFFSET + n_i / 2^EXPONENT, with the numbers n
                                        of its name; the norm of its gradient, and two sums of value i times n_i / 64,
                                        with the numbers n of the names "one" and "two"
    ids, targets COUNT VALUES...        two texts; a target of -100 does not count
    loss 1 VALUE
    last COUNT VALUES...                the logits of the last positions (2,V)
    sums COUNT VALUES...                of each position: the sum of logit i times n_i / 64, with those of "one"
    prompt, next COUNT VALUES...        three prompts, each followed by its 50 greedy tokens
    end

All are computed in f64.
"""
import json
import pathlib
import sys
import tempfile

import safetensors
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "published"))
import make
from cases import CASES, draw, formula_of
from models import compute, doubled, open_folder, write_folder

assert torch.__version__.startswith("2.13.0") and transformers.__version__ == "5.24.0"
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def weights(name, count):
    return torch.from_numpy(draw(name, count)) / 64.0


def write(key, values, out):
    print(key, len(values), *("%.12g" % v for v in values), file=out)


def write_case(case, folder, out):
    write_folder(case, folder)
    model = open_folder(case, folder)
    ids, targets = make.batch_of(case)
    logits, loss, gradients = compute(doubled(model), ids, targets)
    files = sorted(folder.glob("*.safetensors"))
    print("case", case.name, {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}[case.dtype], len(files), file=out)
    print("config", json.dumps(json.loads((folder / "config.json").read_text())), file=out)
    for file in files:
        with safetensors.safe_open(file, "pt") as tensors:
            for name in sorted(tensors.keys()):
                gradient = gradients[name].flatten()
                exponent, offset = formula_of(case, name)
                print("tensor", name, exponent, "%g" % offset, gradients[name].dim(), *gradients[name].shape,
                      *("%.12g" % v for v in (gradient.norm(), gradient @ weights("one", len(gradient)).double(),
                                              gradient @ weights("two", len(gradient)).double())), file=out)
    write("ids", ids.flatten().tolist(), out)
    write("targets", targets.flatten().tolist(), out)
    write("loss", [loss.item()], out)
    write("last", logits[:, -1].flatten().tolist(), out)
    write("sums", (logits @ weights("one", logits.shape[-1]).double()).flatten().tolist(), out)
    for prompt, tokens in zip(*make.prompts_of(case, model)):
        write("prompt", prompt, out)
        write("next", tokens, out)
    print("end", file=out)


with open(pathlib.Path(__file__).parent / "published.txt", "w") as out:
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            write_case(case, pathlib.Path(folder), out)

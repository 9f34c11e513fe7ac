"""Writes tests/goldens/optim/*.txt with torch 2.13.0+cpu: python3 make_optim.py

gradients.txt      50 steps of an embedding's gradients, which do not depend on the values: a table (12,5), looked up at
                   8 ids of which some repeat and some of the 12 never occur, and a bias (5) that has no gradient at
                   first and at every seventh step. All are multiples of 1/1024, so exact in float. One line per step:
                       rows id.. : value.. (5 per row, in the order of first use) bias 0|1 value..
trajectories.txt   the values of table and bias after steps 1, 10 and 50 of each optimizer of CASES, one line each for f64
                   and f32:  name dtype step value.. (65)
deferred.txt       a table (200,2) after 60 steps with the gradients of three rows each and a falling learning rate, in f64:
                   name value.. (400)
rows.txt           the same as trajectories.txt for SparseAdam, which updates only the rows with a gradient
own.txt            the same optimizers on a problem with computed gradients: cross_entropy(table[ids] + bias, targets)
                   for 50 steps, with the ids and targets of own_batch(); the values after them, as in trajectories.txt
                   (in f64 torch's exp depends on the processor: other ones give values that differ by up to 4e-16)
clip.txt           clip_grad_norm_ and clip_grad_value_ of step 0's gradients: name dtype norm value.. (65)
muon.txt           three matrices after steps 1, 5 and 20 of Muon, with the gradients of muon_gradient(), which
                   test_muon.c has, too: name dtype step value..
schedules.txt      torch.optim.lr_scheduler's learning rates of steps 0..39: name value..
inits.txt          torch.nn.init after manual_seed(7): name dtype count bits of the values..
"""
import pathlib
import warnings

import torch

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
assert torch.__version__.startswith("2.13.0")
out = pathlib.Path(__file__).parent / "optim"
out.mkdir(exist_ok=True)
ROWS, WIDTH, STEPS = 12, 5, 50



class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, program 1, written from the paper: PyTorch has none."""

    def __init__(self, params, lr, betas, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for x in group["params"]:
                if x.grad is None:
                    continue
                m = self.state[x].setdefault("m", torch.zeros_like(x))
                first, second = group["betas"]
                x.mul_(1 - group["lr"] * group["weight_decay"])
                x.sub_(group["lr"] * torch.sign(first * m + (1 - first) * x.grad))
                m.copy_(second * m + (1 - second) * x.grad)


class RowwiseAdagrad(torch.optim.Optimizer):
    """FBGEMM's EXACT_ROWWISE_ADAGRAD, written from its documentation; weight decay is its WeightDecayMode.L2. Each index
    on axis 0 is a row."""

    def __init__(self, params, lr, eps, weight_decay=0, initial=0):
        super().__init__(params, dict(lr=lr, eps=eps, weight_decay=weight_decay, initial=initial))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for x in group["params"]:
                if x.grad is None:
                    continue
                rows = x.view(len(x), -1)
                g = x.grad.view(len(x), -1) + group["weight_decay"] * rows
                s = self.state[x].setdefault("s", torch.full_like(rows[:, :1], group["initial"]))
                s += (g * g).mean(1, keepdim=True)
                rows -= group["lr"] / (s.sqrt() + group["eps"]) * g


CASES = {
    "sgd_plain": (torch.optim.SGD, dict(lr=0.1)),
    "sgd_decay": (torch.optim.SGD, dict(lr=0.1, weight_decay=0.05)),
    "sgd_momentum": (torch.optim.SGD, dict(lr=0.05, momentum=0.9)),
    "sgd_dampening": (torch.optim.SGD, dict(lr=0.05, momentum=0.8, dampening=0.3, weight_decay=0.01)),
    "sgd_nesterov": (torch.optim.SGD, dict(lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.02)),
    "adam_plain": (torch.optim.Adam, dict(lr=0.02)),
    "adam_decay": (torch.optim.Adam, dict(lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
    "adam_amsgrad": (torch.optim.Adam, dict(lr=0.02, betas=(0.9, 0.9), amsgrad=True)),
    "adam_amsgrad_decay": (torch.optim.Adam, dict(lr=0.02, betas=(0.9, 0.9), weight_decay=0.1, amsgrad=True)),
    "adamw_default": (torch.optim.AdamW, dict()),
    "adamw_decay": (torch.optim.AdamW, dict(lr=0.02, betas=(0.9, 0.95), weight_decay=0.5)),
    "adamw_amsgrad": (torch.optim.AdamW, dict(lr=0.02, betas=(0.9, 0.9), weight_decay=0.1, amsgrad=True)),
    "adagrad_plain": (torch.optim.Adagrad, dict(lr=0.05)),
    "adagrad_decay": (torch.optim.Adagrad, dict(lr=0.05, lr_decay=0.1, weight_decay=0.02, initial_accumulator_value=0.5)),
    "rmsprop_plain": (torch.optim.RMSprop, dict()),
    "rmsprop_momentum": (torch.optim.RMSprop, dict(lr=0.005, alpha=0.9, momentum=0.8, weight_decay=0.01)),
    "rmsprop_centered": (torch.optim.RMSprop, dict(lr=0.005, alpha=0.9, centered=True, eps=1e-2)),
    "adagrad_by_rows": (RowwiseAdagrad, dict(lr=0.05, eps=1e-8)),
    "adagrad_by_rows_initial": (RowwiseAdagrad, dict(lr=0.05, eps=0.01, initial=0.5)),
    "lion": (Lion, dict(lr=0.01, betas=(0.9, 0.97), weight_decay=0.1)),
}


def start(dtype):
    table = torch.arange(ROWS * WIDTH, dtype=torch.float64).reshape(ROWS, WIDTH) * 0.25
    table = ((table * 7) % 3 - 1.5).to(dtype)
    bias = torch.tensor([0.5, -0.25, 1.0, 0.0, -1.0], dtype=dtype)
    return table.requires_grad_(), bias.requires_grad_()


def text(values):
    return " ".join(repr(v) if v == v else "nan" for v in values)


generator = torch.Generator().manual_seed(11)
draw = torch.tensor([0, 1, 2, 4, 5, 7, 8, 9, 11])  # rows 3, 6 and 10 are never touched
gradients = []
with open(out / "gradients.txt", "w") as file:
    for step in range(STEPS):
        ids = draw[torch.randint(0, len(draw), (8,), generator=generator)]
        dy = torch.round(torch.randn(8, WIDTH, generator=generator) * 1024).double() / 1024
        embedding = torch.nn.Embedding(ROWS, WIDTH, dtype=torch.float64)
        (embedding(ids) * dy).sum().backward()
        has_bias = step >= 3 and step % 7 != 0
        bias = dy.sum(0) if has_bias else None
        gradients.append((embedding.weight.grad, bias))
        order = list(dict.fromkeys(ids.tolist()))
        rows = embedding.weight.grad[order].flatten().tolist()
        file.write(f"{len(order)} {' '.join(map(str, order))} : {text(rows)}")
        file.write(f" bias {int(has_bias)} {text(bias.tolist() if has_bias else [])}\n")

with open(out / "trajectories.txt", "w") as file:
    for name, (kind, options) in CASES.items():
        for dtype in (torch.float64, torch.float32):
            table, bias = start(dtype)
            optimizer = kind([table, bias], **options)
            for step, (dtable, dbias) in enumerate(gradients, 1):
                table.grad = dtable.to(dtype)
                bias.grad = None if dbias is None else dbias.to(dtype)
                optimizer.step()
                if step in (1, 10, STEPS):
                    values = torch.cat([table.detach().flatten(), bias.detach()]).tolist()
                    file.write(f"{name} {'f64' if dtype == torch.float64 else 'f32'} {step} {text(values)}\n")


# Rows rarely have a gradient here: test_deferred_values.c has the same steps.
with open(out / "deferred.txt", "w") as file:
    for name in ("sgd_momentum", "sgd_dampening", "sgd_nesterov", "adam_plain", "adamw_decay"):
        kind, options = CASES[name]
        table = ((torch.arange(400, dtype=torch.float64) * 31) % 17 / 8 - 1).reshape(200, 2).requires_grad_()
        optimizer = kind([table], **options)
        for step in range(60):
            table.grad = torch.zeros_like(table)
            for k in range(3):
                for c in range(2):
                    table.grad[(step * 37 + k * 61) % 200, c] = ((step * 7 + k * 5 + c * 3) % 16 - 8) / 16
            optimizer.param_groups[0]["lr"] = options["lr"] * (1 - step / 60)
            optimizer.step()
        file.write(f"{name} {text(table.detach().flatten().tolist())}\n")


# SparseAdam sees rows alone: the table's gradient is given as those of the step, the bias's as all of its values.
with open(out / "rows.txt", "w") as file:
    for dtype in (torch.float64, torch.float32):
        table, bias = start(dtype)
        optimizer = torch.optim.SparseAdam([table, bias], lr=0.02, betas=(0.8, 0.95), eps=1e-6)
        for step, (dtable, dbias) in enumerate(gradients, 1):
            rows = dtable.abs().sum(1).nonzero().flatten()
            table.grad = torch.sparse_coo_tensor(rows[None], dtable[rows].to(dtype), table.shape)
            bias.grad = None if dbias is None else torch.sparse_coo_tensor(torch.arange(WIDTH)[None], dbias.to(dtype), (WIDTH,))
            optimizer.step()
            if step in (1, 10, STEPS):
                values = torch.cat([table.detach().flatten(), bias.detach()]).tolist()
                file.write(f"sparse_adam {'f64' if dtype == torch.float64 else 'f32'} {step} {text(values)}\n")


MUON = {
    "default": dict(),
    "plain": dict(lr=0.02, momentum=0.8, nesterov=False, weight_decay=0.0),
    "rms": dict(lr=0.02, momentum=0.3, adjust_lr_fn="match_rms_adamw", ns_steps=3, ns_coefficients=(3.0, -4.0, 1.5)),
}


def muon_gradient(step, rows, columns):
    i = torch.arange(rows * columns, dtype=torch.float64)
    return (((i * i + 5 * i + 7 * step) % 23 - 11) / 16).reshape(rows, columns)


with open(out / "muon.txt", "w") as file:
    for name, options in MUON.items():
        for dtype in (torch.float64, torch.float32):
            matrices = [muon_gradient(99, *shape).to(dtype).requires_grad_() for shape in ((9, 4), (3, 8), (5, 5))]
            optimizer = torch.optim.Muon(matrices, **options)
            for step in range(1, 21):
                for x in matrices:
                    x.grad = muon_gradient(step, *x.shape).to(dtype)
                optimizer.step()
                if step in (1, 5, 20):
                    values = torch.cat([x.detach().flatten() for x in matrices]).tolist()
                    file.write(f"{name} {'f64' if dtype == torch.float64 else 'f32'} {step} {text(values)}\n")


def own_batch(step):
    ids = [int(draw[(step * 5 + k * k * 3) % len(draw)]) for k in range(8)]
    return torch.tensor(ids), torch.tensor([(step + 2 * k) % WIDTH for k in range(8)])


with open(out / "own.txt", "w") as file:
    for name, (kind, options) in CASES.items():
        for dtype in (torch.float64, torch.float32):
            table, bias = start(dtype)
            optimizer = kind([table, bias], **options)
            for step in range(STEPS):
                ids, targets = own_batch(step)
                optimizer.zero_grad()
                logits = torch.nn.functional.embedding(ids, table) + bias
                torch.nn.functional.cross_entropy(logits, targets).backward()
                optimizer.step()
            values = torch.cat([table.detach().flatten(), bias.detach()]).tolist()
            file.write(f"{name} {'f64' if dtype == torch.float64 else 'f32'} {STEPS} {text(values)}\n")

with open(out / "clip.txt", "w") as file:
    for name, clip in {
        "norm_half": lambda p: torch.nn.utils.clip_grad_norm_(p, 0.5),
        "norm_zero": lambda p: torch.nn.utils.clip_grad_norm_(p, 0.0),
        "norm_huge": lambda p: torch.nn.utils.clip_grad_norm_(p, 1000.0),
        "value": lambda p: torch.nn.utils.clip_grad_value_(p, 0.75),
    }.items():
        for dtype in (torch.float64, torch.float32):
            table, bias = start(dtype)
            table.grad, bias.grad = (g.to(dtype, copy=True) for g in gradients[4])  # clipped in place
            norm = clip([table, bias])
            values = torch.cat([table.grad.flatten(), bias.grad]).tolist()
            norm = 0.0 if norm is None else norm.item()
            file.write(f"{name} {'f64' if dtype == torch.float64 else 'f32'} {norm!r} {text(values)}\n")

lr_scheduler = torch.optim.lr_scheduler


def linear_then_cosine(optimizer):
    return lr_scheduler.SequentialLR(
        optimizer,
        [
            lr_scheduler.LinearLR(optimizer, start_factor=0.1, end_factor=1.0, total_iters=10),
            lr_scheduler.CosineAnnealingLR(optimizer, T_max=20, eta_min=1e-4),
        ],
        milestones=[10],
    )


def trapezoid(optimizer):
    return lr_scheduler.SequentialLR(
        optimizer,
        [
            lr_scheduler.LinearLR(optimizer, start_factor=0.1, end_factor=1.0, total_iters=5),
            lr_scheduler.ConstantLR(optimizer, factor=1.0),
            lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.05, total_iters=10),
        ],
        milestones=[5, 20],
    )


with open(out / "schedules.txt", "w") as file:
    for name, make, count in (
        ("cosine", lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=30, eta_min=1e-3), 31),
        ("warm_cosine", linear_then_cosine, 31),
        ("linear", lambda o: lr_scheduler.LinearLR(o, start_factor=1.0, end_factor=0.2, total_iters=25), 40),
        ("step", lambda o: lr_scheduler.StepLR(o, step_size=7, gamma=0.5), 40),
        ("constant", lambda o: lr_scheduler.ConstantLR(o, factor=1.0), 40),
        ("polynomial", lambda o: lr_scheduler.PolynomialLR(o, total_iters=25, power=2.5), 40),
        ("trapezoid", trapezoid, 40),
        ("one_cycle", lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.01, total_steps=33), 33),
        ("one_cycle_short", lambda o: lr_scheduler.OneCycleLR(o, 0.01, total_steps=9, pct_start=0.05, div_factor=5), 9),
    ):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.01)
        schedule = make(optimizer)
        rates = []
        for _ in range(count):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        file.write(f"{name} {count} {text(rates)}\n")

init = torch.nn.init
with open(out / "inits.txt", "w") as file:
    for name, shape, fill in (
        ("xavier_uniform", (6, 4), lambda x: init.xavier_uniform_(x, gain=1.5)),
        ("xavier_normal", (6, 4, 3), lambda x: init.xavier_normal_(x)),
        ("kaiming_uniform_in", (5, 7), lambda x: init.kaiming_uniform_(x, a=5**0.5)),
        ("kaiming_uniform_out", (5, 7), lambda x: init.kaiming_uniform_(x, a=0.2, mode="fan_out")),
        ("kaiming_normal_in", (3, 5), lambda x: init.kaiming_normal_(x)),
        ("kaiming_normal_out", (3, 5, 2), lambda x: init.kaiming_normal_(x, mode="fan_out")),
        ("trunc_default", (9, 11), lambda x: init.trunc_normal_(x)),
        ("trunc_cut", (9, 11), lambda x: init.trunc_normal_(x, mean=0.5, std=0.25, a=0.2, b=0.6)),
        ("trunc_tail", (9, 11), lambda x: init.trunc_normal_(x, mean=0.0, std=1.0, a=1.0, b=3.0)),
        ("trunc_few", (2, 3), lambda x: init.trunc_normal_(x, mean=0.0, std=1.0, a=-0.5, b=0.7)),
    ):
        for dtype in (torch.float64, torch.float32):
            torch.manual_seed(7)
            x = torch.empty(shape, dtype=dtype)
            fill(x)
            after = torch.empty((), dtype=torch.int64).random_().item()  # where the stream is
            bits = x.view(torch.int64 if dtype == torch.float64 else torch.int32).flatten().tolist()
            mask = 2**64 - 1 if dtype == torch.float64 else 2**32 - 1
            file.write(f"{name} {'f64' if dtype == torch.float64 else 'f32'} {after} {len(bits)} ")
            file.write(" ".join(f"{b & mask:x}" for b in bits) + "\n")

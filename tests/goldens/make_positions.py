#!/usr/bin/env python3
"""Writes positions.txt for tests/nn/test_positional.c: relative positions computed pair by pair from the papers'
formulas, in double, with gradients by PyTorch 2.13's autograd.

    python3 make_positions.py > positions.txt

Every tensor is filled by `fill`, which the test repeats. One line per result: case, name, values.
"""
import math

import torch

B, T, M, C, H, CONTEXT = 2, 7, 3, 12, 3, 64
D = C // H
torch.set_default_dtype(torch.float64)


def fill(salt, *shape):
    n = math.prod(shape)
    return (torch.sin(torch.arange(n) * 0.7 + salt) * 0.5).reshape(shape).requires_grad_()


def turned(x, position, neighbours, base, scale):
    """One vector of D channels at a position: Su et al. 2021, equation 34."""
    out = [None] * D
    for i in range(D // 2):
        a, b = (2 * i, 2 * i + 1) if neighbours else (i, i + D // 2)
        u = position / scale * base ** (-2 * i / D)
        out[a] = x[a] * math.cos(u) - x[b] * math.sin(u)
        out[b] = x[a] * math.sin(u) + x[b] * math.cos(u)
    return torch.stack(out)


def slope(h):
    """Press et al. 2022: for three heads the two of a power of two, then the first of the next power's."""
    return [2 ** -4.0, 2 ** -8.0, 2 ** -2.0][h]


def bucket(relative, buckets, most, both):
    """mesh_tensorflow's relative_position_bucket; relative is key minus query."""
    ret, n = 0, -relative
    if both:
        buckets //= 2
        ret += buckets if n < 0 else 0
        n = abs(n)
    else:
        n = max(n, 0)
    exact = buckets // 2
    if n < exact:
        return ret + n
    large = torch.log(torch.tensor(n / exact, dtype=torch.float32)) / math.log(most / exact) * (buckets - exact)
    return ret + min(exact + int(large), buckets - 1)


def deberta_bucket(distance, buckets, most):
    """He et al. 2021's code, utils.make_log_bucket_position; -1 buckets are the distances themselves."""
    exact, size = buckets // 2, abs(distance)
    if buckets < 0 or size <= exact:
        return distance
    beyond = math.ceil(math.log(size / exact) / math.log((most - 1) / exact) * (exact - 1))
    return (exact + beyond) * (1 if distance > 0 else -1)


def deberta_vectors(p, distance, wq, wk, terms, shared, log_buckets, most):
    """The key and the query of a distance: He et al. 2021, equations 4 and 5."""
    span = log_buckets if log_buckets > 0 else most
    e = p[0][max(0, min(2 * span - 1, span + deberta_bucket(distance, log_buckets, most)))]
    if shared:
        return e @ wk.T, e @ wq.T
    own = iter(p[1:])
    return [next(own) @ e + next(own) if term in terms else None for term in ("c2p", "p2c")]


def sinusoid(position):
    """PositionalEmbedding of Dai et al. 2019's code, mem_transformer.py: all sines, then all cosines."""
    angles = [position / 10000 ** (c / C) for c in range(0, C, 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles])


def run(case, kind, both=False, memory=0, **options):
    x, direction = fill(1, B, T, C), fill(2, B, T, C).detach()
    wq, wk, wv, wo, bo = fill(3, C, C), fill(4, C, C), fill(5, C, C), fill(6, C, C), fill(7, C)
    past = fill(8, B, memory, C).detach()
    p = {"alibi": [], "rotary": [], "none": [], "t5": [fill(9, options.get("buckets", 0), H)],
         "shaw": [fill(9, 2 * options.get("clip", 0) + 1, D), fill(10, 2 * options.get("clip", 0) + 1, D)],
         "transformer-xl": [fill(9, C, C), fill(10, H, D), fill(11, H, D)],
         "deberta": [fill(9, 2 * options.get("span", 0), C)] +
                    ([] if options.get("shared") else [fill(10 + n, *shape) for n, shape in enumerate(
                        ((C, C), (C,)) * len(options.get("terms", ())))]),
         "relative-key": [fill(9, 2 * CONTEXT - 1, D)], "relative-key-query": [fill(9, 2 * CONTEXT - 1, D)]}[kind]
    seen = torch.cat([past, x], 1)
    out = []
    for b in range(B):
        heads = []
        for h in range(H):
            part = slice(h * D, (h + 1) * D)
            q, k, v = (x[b] @ wq.T)[:, part], (seen[b] @ wk.T)[:, part], (seen[b] @ wv.T)[:, part]
            rows = []
            for t in range(T):
                i, scores, values = memory + t, [], []
                for j in range(memory + T if both else i + 1):
                    a, key = q[t], k[j]
                    if kind == "rotary":
                        where = options["neighbours"], options["base"], options["scale"]
                        a, key = turned(a, i, *where), turned(key, j, *where)
                    score = a @ key
                    if kind == "transformer-xl":
                        r = (p[0] @ sinusoid(i - j))[part]
                        score = (a + p[1][h]) @ key + (a + p[2][h]) @ r
                    clipped = max(-options.get("clip", 0), min(options.get("clip", 0), j - i)) + options.get("clip", 0)
                    if kind in ("relative-key", "relative-key-query"):
                        score = score + a @ p[0][i - j + CONTEXT - 1]
                    if kind == "relative-key-query":
                        score = score + key @ p[0][i - j + CONTEXT - 1]
                    if kind == "shaw":
                        score = score + a @ p[0][clipped]
                    if kind == "deberta":
                        terms = options["terms"]
                        keys, queries = deberta_vectors(p, i - j, wq, wk, terms, options["shared"],
                                                        options["log_buckets"], options["most"])
                        score = score + (a @ keys[part] if "c2p" in terms else 0)
                        score = (score + (key @ queries[part] if "p2c" in terms else 0)) / math.sqrt(1 + len(terms))
                    score = score / math.sqrt(D)
                    if kind == "alibi":
                        score = score - slope(h) * abs(i - j)
                    if kind == "t5":
                        score = score + p[0][bucket(j - i, options["buckets"], options["most"], both), h]
                    scores.append(score)
                    values.append(v[j] + p[1][clipped] if kind == "shaw" else v[j])
                rows.append(torch.softmax(torch.stack(scores), 0) @ torch.stack(values))
            heads.append(torch.stack(rows))
        out.append(torch.cat(heads, 1) @ wo.T + bo)
    y = torch.stack(out)
    (y * direction).sum().backward()
    for name, value in [("y", y), ("dx", x.grad), ("dq", wq.grad)] + [("dp%d" % n, e.grad) for n, e in enumerate(p)]:
        print(case, name, *("%.17g" % e for e in value.detach().flatten()))


def main():
    run("none", "none")
    run("none_both", "none", both=True)
    run("rotary_halves", "rotary", neighbours=False, base=10000.0, scale=1.0)
    run("rotary_neighbours", "rotary", neighbours=True, base=100.0 * 2 ** (D / (D - 2)), scale=3.0)
    run("rotary_both", "rotary", both=True, neighbours=False, base=10000.0, scale=1.0)
    run("alibi", "alibi")
    run("alibi_both", "alibi", both=True)
    run("t5", "t5", buckets=8, most=6)
    run("t5_both", "t5", both=True, buckets=8, most=6)
    run("shaw", "shaw", clip=2)
    run("shaw_both", "shaw", both=True, clip=2)
    run("xl", "transformer-xl")
    run("xl_both", "transformer-xl", both=True)
    run("xl_memory", "transformer-xl", memory=M)
    for kind in ("relative-key", "relative-key-query"):
        run(kind, kind)
        run(kind + "_both", kind, both=True)
        run(kind + "_memory", kind, memory=M)
    terms = ("c2p", "p2c")
    for case, terms, shared, buckets, most, both, memory in (
            ("_both", terms, False, -1, 12, True, 0), ("_memory", terms, False, -1, 12, False, M),
            ("_clipped", terms, False, -1, 3, True, 0), ("_c2p", terms[:1], False, -1, 5, False, M),
            ("_p2c", terms[1:], False, -1, 5, True, 0),
            ("_shared", terms, True, -1, 6, True, 0), ("_buckets", terms, True, 4, 8, False, M),
            ("_buckets_both", terms, False, 5, 6, True, M)):
        run("deberta" + case, "deberta", both=both, memory=memory, terms=terms, shared=shared, log_buckets=buckets,
            most=most, span=buckets if buckets > 0 else most)
    run("rotary_memory", "rotary", memory=M, neighbours=False, base=10000.0, scale=1.0)
    for both in (False, True):
        print("buckets%d" % both, "t5", *(bucket(d, 32, 128, both) for d in range(-1024, 1025)))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Goldens of the losses (tapegrad/losses.h) over torch's options, by torch 2.13.0 and sentence-transformers 6.2.0. Writes
losses.txt beside itself (golden_file.py). The first option is the reduction, in the order of tg_reduction."""
import itertools
import math
import os
import warnings

import torch
import torch.nn.functional as F

import golden_file
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.util import cos_sim, dot_score

warnings.simplefilter("ignore")
torch.manual_seed(21)
torch.set_default_dtype(torch.float64)
REDUCTIONS = ["mean", "sum", "none", "batchmean"]
SHAPES = [(2, 3), (5,), (1,), (), (2, 1, 4), (0, 3)]


def draw(*shape):
    return torch.randn(shape)


def signs(*shape):
    return torch.randint(0, 2, shape) * 2.0 - 1


def pointwise(case):
    for reduction, shape in itertools.product(range(3), SHAPES):
        mode = REDUCTIONS[reduction]
        x, t = draw(*shape), draw(*shape)
        case("mse", [reduction], [x, t], lambda x, t: F.mse_loss(x, t, reduction=mode))
        case("l1", [reduction], [x, t], lambda x, t: F.l1_loss(x, t, reduction=mode))
        for number in (1.0, 0.5, 2.5):
            case("smooth_l1", [reduction, number], [x, t], lambda x, t: F.smooth_l1_loss(x, t, reduction=mode,
                                                                                     beta=number))
            case("huber", [reduction, number], [x, t], lambda x, t: F.huber_loss(x, t, mode, number))
            case("hinge_embedding", [reduction, number], [x, signs(*shape)],
                 lambda x, t: F.hinge_embedding_loss(x, t, number, reduction=mode), [1])
            case("margin_ranking", [reduction, number], [x, t, signs(*shape)],
                 lambda a, b, t: F.margin_ranking_loss(a, b, t, number, reduction=mode))
        case("bce", [reduction], [x * 3, torch.rand(shape)],
             lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction=mode))
    # ties, kinks and other targets
    at = torch.tensor([1.0, -1.0, 0.5, -0.5, 0.0, 2.0, -3.0])
    zero = torch.zeros(7)
    case("l1", [2], [at, zero], lambda x, t: F.l1_loss(x, t, reduction="none"))
    case("smooth_l1", [2, 0.0], [at, zero], lambda x, t: F.smooth_l1_loss(x, t, reduction="none", beta=0.0))
    case("smooth_l1", [2, 0.5], [at, zero], lambda x, t: F.smooth_l1_loss(x, t, reduction="none", beta=0.5))
    case("huber", [2, 0.5], [at, zero], lambda x, t: F.huber_loss(x, t, reduction="none", delta=0.5))
    case("hinge_embedding", [2, 0.5], [at, torch.tensor([1.0, -1, -1, 0.5, 0.0, -1, 1])],
         lambda x, t: F.hinge_embedding_loss(x, t, 0.5, reduction="none"), [1])
    case("margin_ranking", [2, 0.5], [at, zero, torch.tensor([1.0, 1, 1, 1, -1, 0, -1])],
         lambda a, b, t: F.margin_ranking_loss(a, b, t, 0.5, reduction="none"))
    # more than one chunk
    x, t = torch.arange(1100).remainder(13) / 4 - 1, torch.arange(1100).remainder(7) / 4 - 1
    for reduction in range(2):
        mode = REDUCTIONS[reduction]
        case("mse", [reduction], [x, t], lambda x, t: F.mse_loss(x, t, reduction=mode))


def binary(case):
    x, t = draw(2, 3) * 3, torch.rand(2, 3)
    for reduction in range(3):
        mode = REDUCTIONS[reduction]
        for weight in ((2, 3), (3,), (2, 1), ()):
            w, p = torch.rand(weight), torch.rand(weight) * 3
            case("bce_weight", [reduction], [x, t, w],
                 lambda x, t, w: F.binary_cross_entropy_with_logits(x, t, w, reduction=mode), [2])
            case("bce_pos_weight", [reduction], [x, t, p],
                 lambda x, t, p: F.binary_cross_entropy_with_logits(x, t, reduction=mode, pos_weight=p.detach()), [2])
            case("bce_both", [reduction], [x, t, w, p], lambda x, t, w, p: F.binary_cross_entropy_with_logits(
                x, t, w, reduction=mode, pos_weight=p.detach()), [2, 3])
    far = torch.tensor([100.0, -100.0, 800.0, -800.0, 0.0, 30.0])
    case("bce", [2], [far, torch.tensor([0.0, 1, 1, 0, 0.5, 1])],
         lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"))


def divergence(case):
    for reduction, shape in itertools.product(range(4), [(2, 3), (4,), (3, 1, 2), (0, 3)]):
        mode = REDUCTIONS[reduction]
        x = torch.log_softmax(draw(*shape), -1)
        t = torch.softmax(draw(*shape), -1)
        case("kl_div", [reduction, 0], [x, t], lambda x, t: F.kl_div(x, t, reduction=mode))
        case("kl_div", [reduction, 1], [x, t.log()], lambda x, t: F.kl_div(x, t, reduction=mode, log_target=True))
    case("kl_div_constant", [2, 0], [torch.log_softmax(draw(3), -1), torch.tensor([0.0, 1.0, 0.0])],
         lambda x, t: F.kl_div(x, t.detach(), reduction="none"), [1])


def rows(case):
    for reduction in range(3):
        mode = REDUCTIONS[reduction]
        for shape in ((4, 3), (5,), (0, 3), (2, 1)):
            a, b, c = draw(*shape), draw(*shape), draw(*shape)
            for margin in (0.0, 0.5, -0.5):
                case("cosine_embedding", [reduction, margin], [a, b, signs(*shape[:-1])],
                     lambda a, b, t: F.cosine_embedding_loss(a, b, t, margin, reduction=mode), [2])
            for margin, p, swap in ((1.0, 2.0, 0), (0.3, 1.0, 1), (2.0, 3.0, 1), (1.0, math.inf, 0), (1.0, 1.5, 1)):
                case("triplet_margin", [reduction, margin, p, 1e-6, swap], [a, b, c],
                     lambda a, p_, n: F.triplet_margin_loss(a, p_, n, margin, p, 1e-6, bool(swap), reduction=mode))
    a = draw(3, 4)
    case("cosine_embedding", [2, 0.0], [torch.cat([a, a * 0]), torch.cat([a, a]), torch.tensor([1.0, -1, 0, 1, -1, 1])],
         lambda a, b, t: F.cosine_embedding_loss(a, b, t, 0.0, reduction="none"), [2])
    case("triplet_margin", [2, 5.0, 2.0, 0.0, 0], [a, a, a + 1],
         lambda a, p, n: F.triplet_margin_loss(a, p, n, 5.0, 2.0, 0.0, reduction="none"))
    for axis, eps, left, right in ((1, 1e-8, (2, 3), (2, 3)), (0, 1e-8, (2, 3), (2, 3)), (-1, 1e-8, (4, 1, 3), (2, 3)),
                                   (1, 2.0, (2, 3), (2, 3)), (0, 1e-8, (3,), (3,)), (1, 1e-8, (2, 3, 2), (1, 3, 1)),
                                   (1, 1e-8, (0, 3), (0, 3))):
        case("cosine_similarity", [axis, eps], [draw(*left), draw(*right)],
             lambda a, b: F.cosine_similarity(a, b, axis, eps))
    case("cosine_similarity", [1, 1e-8], [torch.cat([a, a * 0]), torch.cat([a, a])],
         lambda a, b: F.cosine_similarity(a, b, 1, 1e-8))


def classes(case):
    weight = torch.rand(4) + 0.1
    ids = torch.tensor([0, 3, -100, 2, 3])
    for reduction, smooth in itertools.product(range(3), (0.0, 0.2, 1.0)):
        mode = REDUCTIONS[reduction]
        x = draw(5, 4) * 2
        case("cross_entropy_weight", [reduction, smooth], [x, ids, weight],
             lambda x, t, w: F.cross_entropy(x, t, w.detach(), reduction=mode, label_smoothing=smooth), [2])
        p = torch.softmax(draw(5, 4), -1)
        case("cross_entropy_probabilities", [reduction, smooth], [x, p],
             lambda x, t: F.cross_entropy(x, t, reduction=mode, label_smoothing=smooth))
        case("cross_entropy_probabilities_weight", [reduction, smooth], [x, p, weight],
             lambda x, t, w: F.cross_entropy(x, t, w.detach(), reduction=mode, label_smoothing=smooth), [2])
        if smooth == 0:
            case("nll_weight", [reduction], [x, ids, weight], lambda x, t, w: F.nll_loss(x, t, w.detach(), reduction=mode),
                 [2])
    case("cross_entropy_weight", [0, 0.1], [draw(2, 4), torch.tensor([-100, -100]), weight],
         lambda x, t, w: F.cross_entropy(x, t, w.detach(), label_smoothing=0.1), [2])
    case("cross_entropy_probabilities", [0, 0.1], [draw(4), torch.softmax(draw(4), -1)],
         lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1))
    case("cross_entropy_probabilities", [0, 0.0], [draw(0, 3), draw(0, 3)], F.cross_entropy)
    case("cross_entropy_probabilities", [2, 0.0], [draw(2, 3) * 300, torch.eye(3)[:2]],
         lambda x, t: F.cross_entropy(x, t, reduction="none"))


def heads(case):
    weight, ids = torch.rand(4) + 0.1, torch.tensor([0, 3, -100, 2, 3])
    for reduction, smooth in itertools.product(range(3), (0.0, 0.2)):
        mode = REDUCTIONS[reduction]
        case("linear_cross_entropy", [reduction, smooth], [draw(5, 3), draw(4, 3), ids], lambda x, head, t:
             F.linear_cross_entropy(x, head, t, reduction=mode, label_smoothing=smooth))
        case("linear_cross_entropy_weight", [reduction, smooth], [draw(5, 3), draw(4, 3), ids, weight],
             lambda x, head, t, w: F.linear_cross_entropy(x, head, t, weight=w.detach(), reduction=mode,
                                                          label_smoothing=smooth), [3])
    case("linear_cross_entropy", [0, 0.0], [draw(2, 3) * 100, draw(4, 3), torch.tensor([1, 2])], F.linear_cross_entropy)


def skip_gram(centers, table, targets, contexts, mode):
    """word2vec's loss by embeddings, products and logsigmoid; a negative equal to the first target is left out."""
    scores = (F.embedding(targets, contexts) * F.embedding(centers, table)[:, None]).sum(-1)
    losses = -torch.cat([F.logsigmoid(scores[:, :1]), F.logsigmoid(-scores[:, 1:])], 1)
    counts = torch.cat([torch.ones_like(targets[:, :1]), targets[:, 1:] != targets[:, :1]], 1).bool()
    losses = torch.where(counts, losses, 0).sum(-1)
    return losses.mean() if mode == "mean" else losses.sum() if mode == "sum" else losses


def words(case):
    for reduction, (pairs, negatives, width) in itertools.product(range(3), [(7, 3, 3), (20, 5, 37), (1, 0, 16),
                                                                            (0, 2, 3)]):
        mode = REDUCTIONS[reduction]
        centers = torch.randint(0, 5, (pairs,)).sort().values  # pairs with the same center follow each other
        case("skip_gram", [reduction], [centers, draw(5, width), torch.randint(0, 6, (pairs, 1 + negatives)),
                                        draw(6, width)], lambda c, w, t, u: skip_gram(c, w, t, u, mode))
    far = torch.tensor([[30.0], [-30.0], [200.0], [-900.0]])
    case("skip_gram", [2], [torch.arange(4), far, torch.tensor([[0, 1]]).expand(4, 2).contiguous(), torch.ones(2, 1)],
         lambda c, w, t, u: skip_gram(c, w, t, u, "none"))


def contrastive(columns, groups, scale, dot, symmetric):
    """MultipleNegativesRankingLoss; with groups, which it does not have, its formula without the pairs of a group."""
    similarity = dot_score if dot else cos_sim
    if groups is None:
        directions = ("query_to_doc", "doc_to_query") if symmetric else ("query_to_doc",)
        loss = MultipleNegativesRankingLoss(None, scale, similarity, directions=directions,
                                            partition_mode="per_direction" if symmetric else "joint")
        return loss.compute_loss_from_embeddings(columns, None)
    count = len(groups)
    hidden = (groups[:, None] == groups[None]) & ~torch.eye(count, dtype=torch.bool)
    scores = scale * similarity(columns[0], torch.cat(columns[1:]))
    kept = torch.zeros(count, scores.shape[1] - count, dtype=torch.bool)
    targets = torch.arange(count)
    loss = F.cross_entropy(scores.masked_fill(torch.cat([hidden, kept], 1), -torch.inf), targets)
    if symmetric:
        scores = (scale * similarity(columns[1], columns[0])).masked_fill(hidden, -torch.inf)
        loss = (loss + F.cross_entropy(scores, targets)) / 2
    return loss


def pairs(case):
    groups = torch.tensor([3, 1, 3, -2, 1])
    for more, has_groups, scale, dot, symmetric in itertools.product((0, 2), (0, 1), (20.0, 1.0, 0.05), (0, 1), (0, 1)):
        # with two negatives for each pair, negative b of the second list belongs to pair b
        inputs = [draw(5, 4), draw(5, 4)] + [draw(5 * more, 4)] * (more > 0) + [groups] * has_groups
        case("contrastive", [0, scale, dot, symmetric, more, has_groups], inputs, lambda a, p, *rest: contrastive(
            [a, p] + list(rest[0].split(5) if more else []), rest[-1] if has_groups else None, scale, dot, symmetric))
    one = draw(1, 3)
    case("contrastive", [0, 20.0, 0, 1, 0, 0], [one, draw(1, 3)], lambda a, p: contrastive([a, p], None, 20.0, 0, 1))
    small = torch.cat([draw(2, 3) * 1e-13, torch.zeros(1, 3)])  # norms below 1e-12
    case("contrastive", [0, 2.0, 0, 1, 0, 0], [small, draw(3, 3)], lambda a, p: contrastive([a, p], None, 2.0, 0, 1))


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "losses.txt"), "w") as out:
        def case(name, options, inputs, function, constants=()):
            golden_file.write(out, name, options, inputs, function, constants)
        for family in (pointwise, binary, divergence, rows, classes, heads, words, pairs):
            family(case)


if __name__ == "__main__":
    main()

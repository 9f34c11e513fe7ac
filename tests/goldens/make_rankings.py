#!/usr/bin/env python3
"""Metrics of rankings by sentence-transformers 6.2.0's InformationRetrievalEvaluator, one query at a time, and rank
correlations by scipy 1.17. Writes rankings.txt beside itself. A line "query": the number of results and of relevant rows,
recall, the reciprocal rank, NDCG, the results and the relevant rows. A line "pairs": their number, the correlation, and
the values of both sides."""
import os

import numpy
import scipy.stats
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

draw = numpy.random.default_rng(5)


def query(results, relevant):
    k = len(results)
    evaluator = InformationRetrievalEvaluator({'q': ''}, {str(row): '' for row in relevant}, {'q': {str(r) for r in relevant}},
                                              mrr_at_k=[k], ndcg_at_k=[k], precision_recall_at_k=[k])
    hits = [{'corpus_id': str(row), 'score': -place} for place, row in enumerate(results) if row >= 0]
    metrics = evaluator.compute_metrics([hits])
    values = [metrics[name][k] for name in ('recall@k', 'mrr@k', 'ndcg@k')]
    return ' '.join(['query', str(k), str(len(relevant))] + [repr(float(v)) for v in values] +
                    [str(row) for row in list(results) + list(relevant)])


def pairs(a, b):
    return ' '.join(['pairs', str(len(a)), repr(float(scipy.stats.spearmanr(a, b).statistic))] +
                    [repr(float(v)) for v in list(a) + list(b)])


lines = []
for k, relevant in ((10, 1), (10, 3), (3, 5), (1, 1), (10, 12), (5, 2)):
    for _ in range(6):
        lines.append(query(draw.permutation(15)[:k], draw.permutation(15)[:relevant]))
lines.append(query([4, 2, -1, -1], [2]))
lines.append(query([7, 8, 9], [1, 2]))
for count, step in ((2, 0), (5, 0), (40, 0), (40, 1), (300, 0.5)):
    a, b = draw.normal(size=(2, count))
    b += a / 2
    lines.append(pairs(a, b) if step == 0 else pairs(numpy.round(a / step) * step, numpy.round(b / step) * step))
lines.append(pairs([1, 2, 3], [-1e300, 0, numpy.inf]))
lines.append(pairs([1, 2, 2, 3], [3, 2, 2, 1]))
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'rankings.txt'), 'w') as file:
    file.write('\n'.join(lines) + '\n')

"""torch_ops: the rows of `bench --ops` in PyTorch, for beside_torch. The expression of an op is in its row of tests/rows.
Other rows are found here by their name, or, if they do what their op's name says in torch, by that of their op. The
inputs are those that `bench --list --json` names, in their order."""
import math

import torch
import torch.nn.functional as F

FIRST, LAST = 0, -1


def axis_of(text, x):
    """The axes that the name of a row ends with."""
    return {'first axis': (0,), 'second axis': (1,), 'last axis': (-1,), 'outer axes': (0, -1),
            'all': tuple(range(x.dim()))}[text]


def along(call, names, **options):
    """{row: call(x, axes)} for rows 'op, first axis' and so on."""
    def row(where):
        return lambda x: call(x, axis_of(where, x), **options)
    return {'%s, %s' % (op, where): row(where) for op, where in names}


def everywhere(op, wheres=('first axis', 'last axis', 'all')):
    return [(op, where) for where in wheres]


ONE_AXIS = ('first axis', 'last axis')


def rotary(x):
    """As in Llama of transformers, with angles that are computed in each call."""
    t, half = x.shape[-2], x.shape[-1] // 2
    angles = torch.outer(torch.arange(t), 10000 ** -(torch.arange(half) / half)).to(x.dtype)
    cos, sin = torch.cos(angles).repeat(1, 2), torch.sin(angles).repeat(1, 2)
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def conv1d(x, w, b):
    return F.conv1d(x, w, b, padding=w.shape[2] // 2, groups=x.shape[1] // w.shape[1])


def gru(x, *weights):
    return torch._VF.gru(x, x.new_zeros(1, x.shape[0], weights[1].shape[1]), weights, True, 1, 0.0, True, False, True)[0]


def lstm(x, *weights):
    zeros = x.new_zeros(1, x.shape[0], weights[1].shape[1])
    return torch._VF.lstm(x, [zeros, zeros], weights, True, 1, 0.0, True, False, True)[0]


def halves(axis):
    def call(x):
        a, b = x.split(x.shape[axis] // 2, axis)[:2]
        return a + b
    return call


def attention(causal=False):
    return lambda q, k, v, bias=None: F.scaled_dot_product_attention(q, k, v, bias, is_causal=causal)


def bag(mode):
    return lambda table, ids: F.embedding_bag(ids, table, mode=mode)


def index_along(axis, call):
    """gather and index_select have x and ids; scatter_add and index_add have a source, too."""
    return lambda x, ids, *source: call(x, axis, ids, *source)


def skip_gram_loss(centers, table, targets, contexts):
    scores = torch.bmm(F.embedding(targets, contexts), F.embedding(centers, table)[:, :, None]).squeeze(-1)
    return -(F.logsigmoid(scores[:, 0]).sum() + F.logsigmoid(-scores[:, 1:]).sum())


ROWS = {
    'add, x x': lambda x: x + x,
    'mul, transposed': lambda a, b: a * b.t(),
    'clamp_tensor': torch.clamp,
    'multinomial': lambda p: torch.multinomial(p, 8, True),
    'multinomial, without replacement': lambda p: torch.multinomial(p, 8, False),
    'full': lambda x: torch.full(x.shape, 0.5, dtype=x.dtype),
    'constant': torch.clone,
    'masked_fill': lambda x, mask: x.masked_fill(mask, -1),
    'triu': lambda x: torch.triu(x, 1),
    'one_hot': lambda ids, classes: F.one_hot(ids, len(classes)),
    **along(torch.sum, everywhere('sum') + [('sum', 'second axis'), ('sum', 'outer axes')]),
    'sum, all, mask': torch.sum,
    **along(torch.mean, everywhere('mean')),
    **along(torch.amax, everywhere('amax')),
    **along(torch.amin, everywhere('amin')),
    **along(torch.logsumexp, everywhere('logsumexp')),
    **along(lambda x, axes: torch.linalg.vector_norm(x, 2, axes), everywhere('norm')),
    'norm, p 1': lambda x: torch.linalg.vector_norm(x, 1, -1),
    'norm, p 3': lambda x: torch.linalg.vector_norm(x, 3, -1),
    'norm, p infinite': lambda x: torch.linalg.vector_norm(x, math.inf, -1),
    **along(torch.any, everywhere('any', ('last axis', 'all'))),
    **along(torch.all, everywhere('all', ONE_AXIS)),
    **along(torch.var, everywhere('var')),
    **along(torch.std, everywhere('std')),
    **along(lambda x, axes: torch.argmax(x, *axes), everywhere('argmax', ONE_AXIS)),
    **along(lambda x, axes: torch.argmin(x, *axes), everywhere('argmin', ONE_AXIS)),
    **along(lambda x, axes: torch.topk(x, 5, *axes)[0], everywhere('topk', ONE_AXIS)),
    'topk, 50 of 50257': lambda x: torch.topk(x, 50)[0],
    **along(lambda x, axes: torch.sort(x, dim=axes[0], stable=True)[0], everywhere('sort', ONE_AXIS)),
    **along(lambda x, axes: torch.cumsum(x, *axes), everywhere('cumsum', ONE_AXIS)),
    'reshape, and a product': lambda x: x.reshape(-1) * 1.5,
    'reshape, transposed': lambda x: x.transpose(0, -1).reshape(-1),
    'transpose, and a product': lambda x: x.transpose(0, -1) * 1.5,
    'permute, and a product': lambda x: x.permute(0, 2, 1, 3) * 1.5,
    'contiguous': lambda x: x.contiguous(),
    'contiguous, transposed': lambda x: x.transpose(0, -1).contiguous(),
    'contiguous, permuted': lambda x: x.permute(0, 2, 1, 3).contiguous(),
    'slice, and a product': lambda x: x[..., ::2] * 1.5,
    'contiguous, every second column': lambda x: x[..., ::2].contiguous(),
    'contiguous, all rows but one': lambda x: x[1:].contiguous(),
    'flip, last axis': lambda x: torch.flip(x, (-1,)),
    'flip, first axis': lambda x: torch.flip(x, (0,)),
    'repeat': lambda x: x.repeat(2, 2),
    'select, and a product': lambda x: x[1] * 1.5,
    'select, column': lambda x: x[..., 1].contiguous(),
    'expand, and a product': lambda x, to: x.expand(to.shape) * 1.5,
    'contiguous, expanded column': lambda x, to: x.expand(to.shape).contiguous(),
    'contiguous, expanded row': lambda x, to: x.expand(to.shape).contiguous(),
    'unsqueeze, and a product': lambda x: x.unsqueeze(1) * 1.5,
    'squeeze, and a product': lambda x: x.squeeze(-1) * 1.5,
    'detach': lambda x: x.detach(),
    'cast': lambda x: x.to(torch.float64 if x.dtype == torch.float32 else torch.float32),
    'cast, mask': lambda x: x.to(torch.float32),
    'cat, first axis': lambda a, b: torch.cat((a, b), 0),
    'cat, last axis': lambda a, b: torch.cat((a, b), -1),
    'stack, first axis': lambda a, b: torch.stack((a, b), 0),
    'stack, last axis': lambda a, b: torch.stack((a, b), -1),
    'split, rows, and their sum': halves(0),
    'split, columns, and their sum': halves(-1),
    'embedding': lambda table, ids: F.embedding(ids, table),
    'embedding_bag, mean': bag('mean'),
    'embedding_bag, sum': bag('sum'),
    'embedding_bag, max': bag('max'),
    'linear': F.linear,
    'scaled_dot_product_attention': attention(),
    'scaled_dot_product_attention, causal': attention(causal=True),
    'rotary': rotary,
    **along(lambda x, axes: torch.softmax(x, *axes), everywhere('softmax', ONE_AXIS)),
    **along(lambda x, axes: torch.log_softmax(x, *axes), everywhere('log_softmax', ONE_AXIS)),
    'layer_norm': lambda x, *weights: F.layer_norm(x, x.shape[-1:], *weights),
    'rms_norm': lambda x, weight: F.rms_norm(x, x.shape[-1:], weight, 1e-5),
    'dropout, 0.1': lambda x: F.dropout(x, 0.1),
    'dropout, 0.5': lambda x: F.dropout(x, 0.5),
    'cross_entropy, smoothed': lambda x, ids: F.cross_entropy(x, ids, label_smoothing=0.1),
    'kl_div, log target': lambda x, target: F.kl_div(x, target, log_target=True),
    'cosine_similarity, first axis': lambda a, b: F.cosine_similarity(a, b, 0),
    'contrastive_loss': lambda a, p: F.cross_entropy(20 * F.normalize(a) @ F.normalize(p).T, torch.arange(len(a))),
    'skip_gram_loss': skip_gram_loss,
    'cosine_similarity, last axis': lambda a, b: F.cosine_similarity(a, b, -1),
    'conv1d': conv1d,
    'conv1d, 3 taps, stride 2': lambda x, w, b: F.conv1d(x, w, b, stride=2),
    'max_pool1d': lambda x: F.max_pool1d(x, 2),
    'avg_pool1d': lambda x: F.avg_pool1d(x, 3),
    'nn_gru_forward': gru,
    'nn_lstm_forward': lstm,
    'nn_conv1d_forward': F.conv1d,
}
for name, axis in (('first axis', FIRST), ('last axis', LAST)):
    for op in ('gather', 'index_select', 'scatter_add', 'index_add'):
        ROWS['%s, %s' % (op, name)] = index_along(axis, getattr(torch, op))

# Ops that do what torch's function of the same name does, with the same arguments.
SAME = set('bernoulli eq ne lt le gt ge logical_and logical_or logical_not where tril matmul'.split())
SAME_LOSS = set('''cross_entropy nll_loss binary_cross_entropy_with_logits kl_div mse_loss l1_loss smooth_l1_loss
    huber_loss cosine_embedding_loss hinge_embedding_loss margin_ranking_loss triplet_margin_loss
    linear_cross_entropy'''.split())

# {name: the reason}: rows that have no counterpart in torch.
WITHOUT = {}


# Rows whose ids are no indices: they have 32 bits in torch, too, whose indices have 64.
NUMBERS = {'constant', 'eq, ids'}


def function_of(expression, inputs, options=''):
    """The function of an expression such as 'F.softplus(x, p, q)': of x, or of a and b; the options are p and q."""
    names = 'x' if inputs == 1 else ', '.join('abc'[:inputs])
    numbers = dict(zip('pq', map(float, options.split())))
    return eval('lambda %s: %s' % (names, expression), {'torch': torch, 'F': F, **numbers})


def call_of(row):
    """Returns the call of a row, or None."""
    name, op = row['name'], row['name'].split(',')[0]
    return (ROWS.get(name) or ROWS.get(op) or
            ('torch' in row and function_of(row['torch'], len(row['inputs']), row['options'])) or
            (op in SAME and getattr(torch, op)) or (op in SAME_LOSS and getattr(F, op, None)) or None)


def tensor_of(kind, shape, below, strided, dtype, name):
    if kind == 'ids':
        return torch.randint(0, below, shape, dtype=torch.int32 if name in NUMBERS else torch.int64)
    if kind == 'model':
        return torch.zeros(shape, dtype=dtype)
    sizes = [*shape[:-1], 2 * shape[-1]] if strided else shape
    if kind == 'mask':
        x = torch.rand(sizes) < 0.5
    elif kind == 'sign':
        x = torch.randint(0, 2, sizes).to(dtype) * 2 - 1
    elif kind in ('positive', 'probability'):
        x = torch.rand(sizes, dtype=dtype) + (0.5 if kind == 'positive' else 0)
    else:
        x = torch.randn(sizes, dtype=dtype) * (0.05 if kind == 'weight' else 1)
    x = x[..., ::2] if strided else x
    return x.requires_grad_() if kind in ('real', 'positive', 'weight', 'table') else x

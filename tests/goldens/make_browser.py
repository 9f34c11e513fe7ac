"""Writes browser.json: answers of the page in examples/browser, computed by PyTorch. tests/examples/browser compares
them with those of browser_stations."""
import json
import pathlib

import torch


def figures(x):
    return [[f'{value:.4f}' for value in row] for row in x.tolist()]


def table():
    torch.manual_seed(123)
    return torch.nn.Embedding(6, 3)


def lookup(ids):
    embedding = table()
    return {'table': figures(embedding.weight), 'ids': ids, 'rows': figures(embedding(torch.tensor(ids))),
            'one_hot': torch.nn.functional.one_hot(torch.tensor(ids), 6).tolist()}


def step(method, steps, ids):
    embedding = table()
    optimizer = (torch.optim.SGD if method == 0 else torch.optim.Adam)(embedding.parameters(), lr=0.1)
    for i in range(steps):
        before = embedding.weight.detach().clone()
        used = ids if i == 0 else ids[:1]
        y = embedding(torch.tensor(used))
        y.retain_grad()
        loss = (y ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    gradient = embedding.weight.grad
    return {'loss': f'{loss.item():.4f}', 'ids': used, 'dy': figures(y.grad), 'before': figures(before),
            'after': figures(embedding.weight), 'same': [bool((a == b).all()) for a, b in zip(before, embedding.weight)],
            'gradient': [{'id': i, 'values': figures(gradient[i:i + 1])[0]} for i in dict.fromkeys(used)]}


def counts(ids):
    x = torch.zeros(6, 3, dtype=torch.float64, requires_grad=True)
    torch.nn.functional.embedding(torch.tensor(ids), x).sum().backward()
    return [[f'{value:.3f}' for value in row] for row in x.grad.tolist()]


def main():
    token, position = torch.tensor([0.5, -0.2, 0.1]), torch.tensor([0.1, 0.3, -0.1])
    cases = {
        'b.lookup\n2 3 5 1': lookup([2, 3, 5, 1]),
        'b.lookup\n0 0': lookup([0, 0]),
        'c.sum': {'sum': [f'{value:.1f}' for value in (token + position).tolist()]},
        'd.step 0 1\n2 3 5 2': step(0, 1, [2, 3, 5, 2]),
        'd.step 0 3\n4 0 4 4': step(0, 3, [4, 0, 4, 4]),
        'd.step 1 3\n2 3 5 2': step(1, 3, [2, 3, 5, 2]),
        'd.step 2 5\n2 3 5 2': step(1, 5, [2, 3, 5, 2]),
        'f.check 0\n2 3 5 2': {'passed': True, 'analytic': counts([2, 3, 5, 2]), 'numeric': counts([2, 3, 5, 2])},
        'f.check 2\n2 3 5 2': {'passed': False, 'numeric': counts([2, 3, 5, 2]), 'wrong_entries': 3},
    }
    lines = ',\n'.join(f'{json.dumps(request)}: {json.dumps(answer)}' for request, answer in cases.items())
    pathlib.Path(__file__).with_name('browser.json').write_text('{\n' + lines + '\n}\n')


main()

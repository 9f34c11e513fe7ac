#!/usr/bin/env python3
"""Writes folders of small models of transformers, and what these compute, for tests/published/compare.c. Needs torch,
transformers, peft, numpy and safetensors.

    tests/published/make.py OUT [NAME...]        default: all cases of cases.py

    OUT/NAME/                   the folder, as save_pretrained writes it, with the keys of the case
    OUT/NAME.figures            a safetensors file: ids, targets, logits, loss and "gradient.TENSOR" in f32, the last
                                three in f64, too ("64.logits"), and prompts with their 50 next tokens ("prompt.N",
                                "next.N"), the same alone and in a batch with left padding; "adapter.losses" of the
                                steps of a training of LoRA in f32, and "adapter.logits" after them
    OUT/NAME.adapter/           peft's adapter before a training of 20 steps
    OUT/NAME.trained/           and after it

Fails if a model would hide mistakes: if attention is flat, if the logits hardly spread, if a gradient is nearly zero,
or if the roundings of transformers' own f32 are near the limits of the comparison.
"""
import pathlib
import sys
import warnings

import peft
import safetensors.torch
import torch
import transformers

from cases import CASES, draw, ids_of
from models import compute, doubled, greedy, loss_of, open_folder, sharpness, write_folder

ENTROPY, SPREAD = 0.5, 5.0
LENGTHS, TOKENS, MARGIN = (3, 17, 30), 50, 2e-3
STEPS, RANK, ALPHA, RATE = 20, 4, 6, 1e-2


def prompts_of(case, model):
    """Prompts whose next tokens no rounding changes, and these tokens."""
    for salt in range(100):
        prompts = [ids_of(case, f'prompt {salt} {i}', n).tolist() for i, n in enumerate(LENGTHS)]
        tokens, margin = greedy(model, prompts, TOKENS)
        alone = [greedy(model, [prompt], TOKENS) for prompt in prompts]
        if min(margin, *(m for _, m in alone)) > MARGIN and tokens == [t[0] for t, _ in alone] and \
                min(len(set(t)) for t in tokens) > 8:
            return prompts, tokens
    raise SystemExit(f'{case.name}: no prompts')


def batch_of(case):
    """Two texts, and targets of which some do not count."""
    ids = torch.from_numpy(ids_of(case, 'ids', 2 * case.length)).reshape(2, -1)
    targets = torch.from_numpy(ids_of(case, 'targets', 2 * case.length)).reshape(2, -1)
    targets[:, ::5] = -100
    return ids, targets


def check(case, model, ids, targets, texts):
    """Compares f32 and f64, and returns the figures of both."""
    logits, loss, gradients = compute(model, ids, targets)
    logits64, loss64, gradients64 = compute(doubled(model), ids, targets)
    entropy, spread = sharpness(model, ids)
    rounding = (logits - logits64).abs().max().item()
    of_loss = (loss - loss64).abs().item()
    of_gradients = max((gradients[n] - g).abs().max().item() / g.abs().max().item() for n, g in gradients64.items())
    least = min(g.abs().max().item() for g in gradients64.values())
    print(f'{case.name:18} entropy {entropy:.2f} of the largest, logits spread {spread:4.1f}, smallest gradient '
          f'{least:.3f}; roundings of f32: logits {rounding:.1e}, loss {of_loss:.1e}, gradients {of_gradients:.1e}',
          flush=True)
    if entropy >= ENTROPY or spread <= SPREAD or least < 5e-3 or rounding > 1.3e-5 or of_loss > 3e-7 * loss or \
            of_gradients > 2e-5:
        raise SystemExit(f'{case.name}: this model would hide mistakes')
    figures = {'ids': ids, 'targets': targets, 'logits': logits, 'loss': loss, '64.logits': logits64, '64.loss': loss64}
    figures.update({f'gradient.{name}': x for name, x in gradients.items()})
    figures.update({f'64.gradient.{name}': x for name, x in gradients64.items()})
    for i, (prompt, tokens) in enumerate(zip(*texts)):
        figures[f'prompt.{i}'], figures[f'next.{i}'] = torch.tensor(prompt), torch.tensor(tokens)
    return figures


# ---- LoRA ----

# Which layers get it, in turn.
TARGETS = [['q_proj', 'v_proj'], ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
           ['o_proj', 'down_proj'], 'all-linear', ['gate_proj', 'k_proj']]


def targets_of(case):
    return ['c_proj', 'c_fc'] if case.family == 'gpt2' else TARGETS[CASES.index(case) % len(TARGETS)]


def train_adapter(case, folder, out):
    """20 steps of AdamW, whose batch is one of the two texts in turn. Returns their figures."""
    targets = targets_of(case)
    config = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=targets, task_type='CAUSAL_LM',
                             fan_in_fan_out=case.family == 'gpt2')
    model = peft.get_peft_model(open_folder(case, folder), config)
    with torch.no_grad():
        for name, x in model.named_parameters():
            if 'lora_' in name:  # B as peft begins it, zeros, would hide what is wrong with A
                scale = 2.0 ** (-9 if 'lora_B' in name else -8)
                x.copy_(torch.from_numpy(draw(name, x.numel()).reshape(x.shape) * scale))
    model.eval().save_pretrained(out / f'{case.name}.adapter')
    optimizer = torch.optim.AdamW([x for x in model.parameters() if x.requires_grad], lr=RATE)
    ids, labels = batch_of(case)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        text = slice(step % 2, step % 2 + 1)
        loss = loss_of(model(ids[text]).logits, labels[text])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.save_pretrained(out / f'{case.name}.trained')
    with torch.no_grad():
        logits = model(ids).logits
    print(f'{case.name:18} LoRA on {targets}: loss {losses[0]:.3f} to {losses[-1]:.3f}', flush=True)
    return {'adapter.losses': torch.tensor(losses, dtype=torch.float64), 'adapter.logits': logits}


def write(out, names):
    """Writes the cases with these names, or all."""
    out = pathlib.Path(out)
    unknown = set(names) - {case.name for case in CASES}
    if unknown:
        raise SystemExit(f'make.py: no case {", ".join(sorted(unknown))}')
    out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter('ignore')
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for case in CASES:
        if names and case.name not in names:
            continue
        folder = out / case.name
        write_folder(case, folder)
        model = open_folder(case, folder)
        figures = check(case, model, *batch_of(case), prompts_of(case, model))
        figures.update(train_adapter(case, folder, out))
        safetensors.torch.save_file({name: x.contiguous() for name, x in figures.items()}, out / f'{case.name}.figures')


if __name__ == '__main__':
    write(sys.argv[1], sys.argv[2:])

#!/usr/bin/env python3
"""Writes deberta.txt beside itself: a small DebertaV2Model of transformers 4.46.3 with several options of disentangled
attention, in double, in evaluation: hidden states, and the gradients of all parameters. PyTorch 2.13.

Every parameter is filled by `fill`, with the sum of the bytes of its name as salt. Projections and distances are twice
as large, so that attention depends on them. The loss is the sum of the hidden states of existing tokens, each times a
function of its channel and of its index: the gradients are then large enough for a comparison in float. A case is
OPTIONS_LENGTH, with two sequences: the second one has LEFT tokens fewer than the first one if the length allows, and
padding behind them.

transformers computes the divisor of the scores, sqrt(D (1 + n)), and the buckets in float. The width of a head makes
the divisor a whole number, so that it has no rounding. The buckets of all distances are written, too. A version that
ignores an option would give the same numbers with and without it, which fails here.
"""
import os

import torch
import transformers
from transformers import DebertaV2Config, DebertaV2Model
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

from transformers_file import fill, line

assert transformers.__version__ == "4.46.3" and torch.__version__.startswith("2.13.0")
torch.set_num_threads(1)
VOCABULARY, HEADS, LAYERS, HIDDEN, CONTEXT, LEFT = 7, 2, 2, 5, 512, 3
BOTH = {"pos_att_type": ["c2p", "p2c"], "width": 6}
CASES = {
    "own": dict(BOTH),
    "c2p": dict(pos_att_type=["c2p"], width=4, max_relative_positions=40),
    "p2c": dict(pos_att_type=["p2c"], width=4, share_att_key=True, position_buckets=9, max_relative_positions=100),
    "own_buckets": dict(BOTH, position_buckets=8, max_relative_positions=64, norm_rel_ebd="layer_norm"),
    "shared": dict(BOTH, share_att_key=True, position_buckets=32, norm_rel_ebd="layer_norm"),
}
LENGTHS = (1, 63, 512)
# Options that must change the results of case "shared" with 63 tokens.
OTHERS = (dict(pos_att_type=["c2p"]), dict(pos_att_type=["p2c"]), dict(share_att_key=False), dict(position_buckets=-1),
          dict(position_buckets=16), dict(max_relative_positions=30), dict(norm_rel_ebd="none"))
BUCKETS = ((256, 512), (32, 128), (7, 40), (2, 20), (4, 512))


def run(options, length):
    options = dict(options)
    width = options.pop("width")
    config = DebertaV2Config(vocab_size=VOCABULARY, hidden_size=width, num_hidden_layers=LAYERS,
                             num_attention_heads=HEADS, intermediate_size=HIDDEN, max_position_embeddings=CONTEXT,
                             pad_token_id=None, relative_attention=True, position_biased_input=False,
                             type_vocab_size=0, **options)
    model = DebertaV2Model(config).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = fill(sum(name.encode()), parameter.shape)
            factor = 2 if "_proj" in name or "rel_" in name else 1
            parameter.copy_(values + 1 if name.endswith("LayerNorm.weight") else factor * values)
    ids = torch.tensor([[(5 * i + 3 * b) % VOCABULARY for i in range(length)] for b in range(2)])
    mask = torch.ones(2, length, dtype=torch.long)
    mask[1, max(1, length - LEFT):] = 0
    hidden = model(ids, attention_mask=mask).last_hidden_state * mask[:, :, None]
    (hidden * (fill(0.5, (width,)) + fill(0.5, hidden.shape) / 2)).sum().backward()
    return hidden, dict(model.named_parameters())


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "deberta.txt"), "w") as out:
        for buckets, most in BUCKETS:
            rows = make_log_bucket_position(torch.arange(-600, 601), buckets, most).long().clamp(-buckets, buckets)
            line("buckets_%d_%d" % (buckets, most), "all", rows, out)
        for case, options in CASES.items():
            for length in LENGTHS:
                hidden, parameters = run(options, length)
                name = "%s_%d" % (case, length)
                line(name, "hidden", hidden, out)
                for parameter, x in parameters.items():
                    line(name, parameter, torch.zeros_like(x) if x.grad is None else x.grad, out)
    usual = run(CASES["shared"], 63)[0]
    for other in OTHERS:
        assert (run(dict(CASES["shared"], **other), 63)[0] - usual).abs().max() > 1e-3, "%s is ignored" % other


if __name__ == "__main__":
    main()

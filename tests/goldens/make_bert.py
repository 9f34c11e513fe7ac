#!/usr/bin/env python3
"""Writes bert.txt beside itself: a small BertForMaskedLM of transformers 4.46.3 with each position_embedding_type, in
double, in evaluation: hidden states, logits, and the gradients of the loss. PyTorch 2.13.

Every parameter is filled by `fill` with a salt of its own; the test repeats it. The loss is the sum of the logits of
existing tokens, each times a function of its index. A case is KIND_LENGTH, with two sequences: the second one has LEFT
tokens fewer than the first one if the length allows, and padding behind them.

transformers 5 has no relative kinds. A version that ignores the field would
give the same numbers for all kinds, which fails here.
"""
import os

import torch
import transformers
from transformers import BertConfig, BertForMaskedLM

from transformers_file import fill, line

assert transformers.__version__ == "4.46.3" and torch.__version__.startswith("2.13.0")
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
VOCABULARY, WIDTH, HEADS, LAYERS, HIDDEN, LEFT = 11, 8, 2, 2, 12, 3
LENGTHS = (1, 2, 9, 63, 512)
KINDS = {"absolute": "absolute", "relative-key": "relative_key", "relative-key-query": "relative_key_query"}


# The parameters in the order of their salts: names of a layer, with its number, then the others.
LAYER = ("attention.self.query.weight", "attention.self.query.bias", "attention.self.key.weight",
         "attention.self.key.bias", "attention.self.value.weight", "attention.self.value.bias",
         "attention.output.dense.weight", "attention.output.dense.bias", "attention.output.LayerNorm.weight",
         "attention.output.LayerNorm.bias", "intermediate.dense.weight", "intermediate.dense.bias",
         "output.dense.weight", "output.dense.bias", "output.LayerNorm.weight", "output.LayerNorm.bias",
         "attention.self.distance_embedding.weight")
OTHERS = ("bert.embeddings.word_embeddings.weight", "bert.embeddings.token_type_embeddings.weight",
          "bert.embeddings.LayerNorm.weight", "bert.embeddings.LayerNorm.bias",
          "cls.predictions.transform.dense.weight", "cls.predictions.transform.dense.bias",
          "cls.predictions.transform.LayerNorm.weight", "cls.predictions.transform.LayerNorm.bias",
          "cls.predictions.bias", "bert.embeddings.position_embeddings.weight")
NAMES = ["bert.encoder.layer.%d.%s" % (i, name) for i in range(LAYERS) for name in LAYER] + list(OTHERS)


def run(kind, length, out):
    config = BertConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                        intermediate_size=HIDDEN, max_position_embeddings=64 if length < 64 else 512, pad_token_id=None,
                        position_embedding_type=KINDS[kind], attn_implementation="eager")
    model = BertForMaskedLM(config).double().eval()
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, parameter in parameters.items():
            values = fill(NAMES.index(name) + 1, parameter.shape)
            parameter.copy_(values + 1 if name.endswith("LayerNorm.weight") else values)
    ids = torch.tensor([[(5 * i + 3 * b) % VOCABULARY for i in range(length)] for b in range(2)])
    types = torch.tensor([[int(i >= length // 2) for i in range(length)]] * 2)
    mask = torch.ones(2, length)
    mask[1, max(1, length - LEFT):] = 0
    result = model(ids, attention_mask=mask, token_type_ids=types, output_hidden_states=True)
    weight = fill(0.5, result.logits.shape) * mask[:, :, None]
    (result.logits * weight).sum().backward()
    case = "%s_%d" % (kind, length)
    for name, x in (("hidden", result.hidden_states[-1]), ("logits", result.logits)):
        line(case, name, x * mask[:, :, None], out)
    for name in ("bert.encoder.layer.0.attention.self.query.weight", "bert.encoder.layer.1.attention.self.key.weight",
                 "bert.encoder.layer.0.attention.self.distance_embedding.weight",
                 "bert.encoder.layer.0.intermediate.dense.weight", "bert.embeddings.word_embeddings.weight",
                 "bert.embeddings.token_type_embeddings.weight", "bert.embeddings.position_embeddings.weight"):
        if name in parameters and parameters[name].grad is not None:
            line(case, name, parameters[name].grad, out)
    return result.logits.detach()


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "bert.txt"), "w") as out:
        for length in LENGTHS:
            logits = [run(kind, length, out) for kind in KINDS]
            for i in range(1, 3):
                for k in range(i):
                    differ = (logits[i] - logits[k]).abs().max() > 1e-3
                    assert differ or length == 1, "position_embedding_type is ignored"


if __name__ == "__main__":
    main()

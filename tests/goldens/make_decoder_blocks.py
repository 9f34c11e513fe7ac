#!/usr/bin/env python3
"""Writes decoder_blocks.txt beside itself: small models of transformers 5.24.0 without the tokens' table and the head,
in double: the result, the gradient of the input, and, of the plain input, those of all parameters. PyTorch 2.13.

transformers computes norms, angles and softmax in float. Here float is double for it, so that goldens have the digits
of a double.

The parameters are in the order of the library, and filled by `fill` with their number in this order; see the test. The
loss is the sum of the results, each times a function of its index. A case is FAMILY_INPUT: plain; with LEFT positions of
padding before the second sequence; packed, with two texts in each sequence.
"""
import os

import torch
from transformers import Gemma3TextConfig, Gemma3TextModel, LlamaConfig, LlamaModel, Qwen3Config, Qwen3Model
from transformers import __version__ as version

from transformers_file import fill, line

assert version == "5.24.0" and torch.__version__.startswith("2.13.0")
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
torch.float = torch.float32 = torch.float64
torch.Tensor.float = torch.Tensor.double
B, T, LEFT, CUTS = 2, 9, 3, (4, 6)
COMMON = dict(vocab_size=2, num_hidden_layers=2, max_position_embeddings=64, attn_implementation="eager",
              pad_token_id=None, bos_token_id=None, eos_token_id=None)
FAMILIES = {
    "llama": (LlamaModel, LlamaConfig(hidden_size=12, num_attention_heads=4, num_key_value_heads=2, head_dim=6,
                                      intermediate_size=14, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-5,
                                      rope_parameters={"rope_type": "default", "rope_theta": 500.0}, **COMMON)),
    "qwen3": (Qwen3Model, Qwen3Config(hidden_size=8, num_attention_heads=3, num_key_value_heads=1, head_dim=4,
                                      intermediate_size=6, rms_norm_eps=1e-6,
                                      rope_parameters={"rope_type": "default", "rope_theta": 1000.0}, **COMMON)),
    "gemma3": (Gemma3TextModel, Gemma3TextConfig(
        hidden_size=12, num_attention_heads=4, num_key_value_heads=2, head_dim=8, intermediate_size=12,
        rms_norm_eps=1e-6, query_pre_attn_scalar=5, sliding_window=3,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 10.0},
                         "full_attention": {"rope_type": "default", "rope_theta": 1000.0}}, **COMMON)),
}
# The library's names and those of transformers, in the order of the library.
LAYER = [("att.W_query", "self_attn.q_proj"), ("att.W_key", "self_attn.k_proj"), ("att.W_value", "self_attn.v_proj"),
         ("att.out_proj", "self_attn.o_proj"), ("att.q_norm", "self_attn.q_norm"), ("att.k_norm", "self_attn.k_norm"),
         ("ff.fc1", "mlp.gate_proj"), ("ff.fc2", "mlp.up_proj"), ("ff.fc3", "mlp.down_proj"),
         ("norm1", "input_layernorm"), ("norm2", "post_attention_layernorm")]
LAYER_OF_GEMMA = LAYER[:-1] + [("norm2", "pre_feedforward_layernorm"), ("norm1_after", "post_attention_layernorm"),
                               ("norm2_after", "post_feedforward_layernorm")]


def named(family, model):
    """Yields each parameter with the library's name."""
    parameters = dict(model.named_parameters())
    names = [("blocks.%d.%s" % (i, ours), "layers.%d.%s" % (i, theirs)) for i in range(2)
             for ours, theirs in (LAYER_OF_GEMMA if family == "gemma3" else LAYER)]
    for ours, theirs in names + [("final_norm", "norm")]:
        for part in ("weight", "bias"):
            if theirs + "." + part in parameters:
                yield ours + "." + ("scale" if "norm" in ours else part), parameters[theirs + "." + part]


def run(family, inputs, out):
    kind, config = FAMILIES[family]
    model = kind(config).double().eval()
    parameters = list(named(family, model))
    assert len(parameters) == len(list(model.parameters())) - 1
    with torch.no_grad():
        for i, (name, parameter) in enumerate(parameters):
            factor = 4 if "W_query.weight" in name or "W_key.weight" in name else 1
            plus = ("scale" in name and family != "gemma3") + 2 * ("q_norm" in name or "k_norm" in name)
            parameter.copy_(factor * fill(i + 1, parameter.shape) + plus)
    x = (4 * fill(0.25, (B, T, config.hidden_size))).requires_grad_()
    weight = fill(0.5, x.shape)
    if inputs == "padded":
        mask = torch.ones(B, T, dtype=torch.int64)
        mask[1, :LEFT] = 0
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        y = model(inputs_embeds=x, attention_mask=mask, position_ids=positions, use_cache=False).last_hidden_state
        weight = weight * mask[:, :, None]
        y = y * mask[:, :, None]
    elif inputs == "packed":
        rows = [torch.cat([model(inputs_embeds=part[None], use_cache=False).last_hidden_state
                           for part in (x[b, :cut], x[b, cut:])], 1) for b, cut in enumerate(CUTS)]
        y = torch.cat(rows)
    else:
        result = model(inputs_embeds=x, use_cache=False, output_attentions=True)
        y = result.last_hidden_state
        last = result.attentions[-1][:, :, -1]
        entropy = -(last * last.clamp(min=1e-300).log()).sum(-1).mean() / torch.tensor(float(T)).log()
        assert entropy < 0.5, "attention is too flat to show mistakes"
    (y * weight).sum().backward()
    case = family + "_" + inputs
    line(case, "y", y, out)
    line(case, "dx", x.grad, out)
    for name, parameter in parameters if inputs == "plain" else []:
        line(case, name, parameter.grad, out)


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "decoder_blocks.txt"), "w") as file:
    for family in FAMILIES:
        for inputs in ("plain", "padded", "packed"):
            run(family, inputs, file)

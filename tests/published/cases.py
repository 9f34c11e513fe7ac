"""The models that the comparison with transformers uses: families and variants, their sizes, and how their folders are
written. Their weights are a formula, so a program in C computes them, too."""
import dataclasses
import math

import numpy


@dataclasses.dataclass
class Case:
    name: str
    family: str
    config: dict
    length: int = 44  # of the two texts
    dtype: str = 'float32'  # in the file
    shards: bool = False
    keys: int = 5  # the version of transformers whose keys config.json has
    more_keys: dict = dataclasses.field(default_factory=dict)  # that published files have, and that change no number
    without_keys: tuple = ()  # that published files lack

    @property
    def is_tied(self):
        return self.config.get('tie_word_embeddings', self.family in ('gpt2', 'gemma3'))


def llama3(original, factor=8.0, base=500.0, low=1.0, high=4.0):
    return {'rope_type': 'llama3', 'rope_theta': base, 'factor': factor, 'low_freq_factor': low,
            'high_freq_factor': high, 'original_max_position_embeddings': original}


def base(value):
    return {'rope_type': 'default', 'rope_theta': value}


def bases(full, sliding):
    return {'full_attention': base(full), 'sliding_attention': base(sliding)}


def decoder(**more):
    """The sizes that most models have; 6 channels of each of 4 heads."""
    return {'vocab_size': 83, 'hidden_size': 24, 'intermediate_size': 40, 'num_hidden_layers': 2,
            'num_attention_heads': 4, 'num_key_value_heads': 2, 'max_position_embeddings': 112, 'rms_norm_eps': 1e-5,
            'bos_token_id': 81, 'eos_token_id': 82, 'pad_token_id': None, **more}


GPT2 = {'vocab_size': 83, 'n_positions': 112, 'n_embd': 24, 'n_layer': 2, 'n_head': 4, 'bos_token_id': 82,
        'eos_token_id': 82}
# Keys of published files that do not change numbers.
LLAMA_KEYS = {'pretraining_tp': 1, 'attention_dropout': 0.0, 'initializer_range': 0.02, 'use_cache': True,
              'transformers_version': '4.45.0.dev0'}
SMOL_KEYS = {'is_llama_config': True, 'rope_interleaved': False, 'pretraining_tp': 1, 'initializer_range': 0.041666666,
             'transformers.js_config': {'dtype': 'q4', 'kv_cache_dtype': {'q4f16': 'float16', 'fp16': 'float16'}}}
# The window is none, because it is not used.
QWEN_KEYS = {'max_window_layers': 0, 'attention_dropout': 0.0, 'sliding_window': 9, 'use_sliding_window': False}
GEMMA_KEYS = {'cache_implementation': 'hybrid', 'rope_theta': 3000, 'rope_local_base_freq': 40,
              'eos_token_id': [1, 82], 'attn_logit_softcapping': None, 'final_logit_softcapping': None,
              'attention_dropout': 0.0, 'use_bidirectional_attention': False}
# Queries and keys that a norm has made, of 10 channels, need larger weights of the norm for attention as sharp.
GEMMA = {'head_dim': 10, 'query_pre_attn_scalar': 7, 'sliding_window': 9, 'num_hidden_layers': 3,
         'hidden_activation': 'gelu_pytorch_tanh'}

CASES = [
    Case('gpt2', 'gpt2', GPT2),
    Case('gpt2_untied', 'gpt2', {**GPT2, 'tie_word_embeddings': False}, keys=4, shards=True),
    Case('gpt2_inner', 'gpt2', {**GPT2, 'n_inner': 52, 'layer_norm_epsilon': 0.01, 'n_head': 2}, dtype='bfloat16'),
    Case('llama', 'llama', decoder(rope_parameters=base(10000.0))),
    Case('llama_scaled', 'llama', decoder(head_dim=12, rope_parameters=llama3(32), tie_word_embeddings=True),
         length=46, keys=4, dtype='bfloat16', more_keys=LLAMA_KEYS),
    Case('llama_scaled_other', 'llama',
         decoder(head_dim=16, rope_parameters=llama3(20, 3.5, 1000.0, 1.5, 3.0), num_key_value_heads=4), length=52),
    Case('llama_biases', 'llama', decoder(attention_bias=True, mlp_bias=True, rope_parameters=base(700.0),
                                          num_key_value_heads=1), shards=True, length=36),
    Case('llama_narrow_heads', 'llama', decoder(head_dim=4, rope_parameters=base(50.0), num_key_value_heads=4),
         keys=4, without_keys=('attention_bias', 'mlp_bias', 'num_key_value_heads'), dtype='float16'),
    Case('llama_eps', 'llama', decoder(rms_norm_eps=0.0625, rope_parameters=base(10000.0),
                                       num_attention_heads=6, num_key_value_heads=3, hidden_size=30,
                                       head_dim=6), dtype='float16'),
    Case('smollm2', 'llama', decoder(hidden_size=27, intermediate_size=48, num_attention_heads=3,
                                     num_key_value_heads=1, head_dim=14, tie_word_embeddings=True, rms_norm_eps=1e-5,
                                     rope_parameters=base(100000.0)), keys=4, dtype='bfloat16', more_keys=SMOL_KEYS),
    Case('mistral', 'mistral', decoder(sliding_window=11, rope_parameters=base(10000.0)), keys=4, shards=True,
         without_keys=('head_dim',)),
    Case('mistral_wide', 'mistral', decoder(sliding_window=None, head_dim=10, hidden_size=22, rms_norm_eps=1e-6,
                                            rope_parameters=base(1000000.0)), dtype='bfloat16'),
    Case('mistral_window', 'mistral', decoder(sliding_window=16, num_key_value_heads=4,
                                              rope_parameters=base(300.0), tie_word_embeddings=True)),
    Case('qwen2', 'qwen2', decoder(rope_parameters=base(1000000.0), tie_word_embeddings=True, rms_norm_eps=1e-6),
         keys=4, dtype='bfloat16', more_keys={**QWEN_KEYS, 'use_mrope': False}),
    Case('qwen2_groups', 'qwen2', decoder(rope_parameters=base(10000.0), num_attention_heads=6, num_key_value_heads=1),
         shards=True),
    Case('qwen2_window', 'qwen2', decoder(rope_parameters=base(10000.0), use_sliding_window=True, sliding_window=7,
                                          max_window_layers=1, num_hidden_layers=3)),
    Case('qwen3', 'qwen3', decoder(head_dim=10, rope_parameters=base(1000000.0), tie_word_embeddings=True,
                                   rms_norm_eps=1e-6), dtype='bfloat16', keys=4, more_keys={**QWEN_KEYS, 'rope_theta': 1000000}),
    Case('qwen3_untied', 'qwen3', decoder(head_dim=6, rope_parameters=base(900.0), num_key_value_heads=4,
                                          rms_norm_eps=0.0625), shards=True),
    Case('qwen3_biases', 'qwen3', decoder(head_dim=8, hidden_size=26, num_attention_heads=6, num_key_value_heads=3,
                                          attention_bias=True, rope_parameters=base(10000.0)), dtype='float16'),
    Case('gemma3', 'gemma3', decoder(**GEMMA, rope_parameters=bases(1000000.0, 10000.0), rms_norm_eps=1e-6,
                                     layer_types=['sliding_attention', 'sliding_attention', 'full_attention']),
         dtype='bfloat16'),
    Case('gemma3_pattern', 'gemma3', decoder(**{**GEMMA, 'num_hidden_layers': 4}, sliding_window_pattern=2,
                                             rope_parameters=bases(3000.0, 40.0), num_key_value_heads=1),
         keys=4, more_keys=GEMMA_KEYS, without_keys=('tie_word_embeddings',), length=56),
    Case('gemma3_untied', 'gemma3', decoder(**{**GEMMA, 'head_dim': 6, 'query_pre_attn_scalar': 3,
                                               'sliding_window': 20}, tie_word_embeddings=False,
                                            rope_parameters=bases(1000000.0, 10000.0), num_key_value_heads=4,
                                            rms_norm_eps=0.0625,
                                            layer_types=['full_attention', 'sliding_attention', 'full_attention']),
         shards=True, length=52),
]


# ---- weights ----

# The names of all families, by a part: value = offset + n / 2^exponent, with n in [-64,64). So a bias is in (-0.5,0.5),
# a weight of a norm in [0.5,1.5), and each has at most 8 bits, which f16 and bf16 hold exactly.
FORMULA = [
    # of norms of queries and keys
    ('q_norm.weight', 6, 1.75), ('k_norm.weight', 6, 1.75),
    ('norm.weight', 7, 1.0), ('ln_1.weight', 7, 0.75), ('ln_2.weight', 7, 1.0), ('ln_f.weight', 7, 1.0),
    ('.bias', 7, 0.0),
    ('wpe.weight', 6, 0.0), ('wte.weight', 6, 0.0), ('embed_tokens.weight', 6, 0.0), ('lm_head.weight', 7, 0.0),
    ('c_attn.weight', 6, 0.0), ('q_proj.weight', 6, 0.0), ('k_proj.weight', 7, 0.0), ('v_proj.weight', 7, 0.0),
    ('o_proj.weight', 8, 0.0), ('down_proj.weight', 8, 0.0), ('c_proj.weight', 8, 0.0), ('c_fc.weight', 7, 0.0),
    ('gate_proj.weight', 7, 0.0), ('up_proj.weight', 7, 0.0),
]


def formula_of(case, name):
    """The exponent and the offset of a tensor."""
    if case.is_tied and name in ('model.norm.weight', 'transformer.ln_f.weight'):
        exponent, offset = 6, 0.0  # of both signs, or else the next token would often be the last one
    else:
        exponent, offset = next((exponent, offset) for part, exponent, offset in FORMULA if part in name)
    return exponent, offset - (case.family == 'gemma3' and name.endswith('norm.weight'))  # Gemma adds 1 itself


def draw(name, count):
    """Whole numbers in [-64,64): the upper bits of a hash of the name (FNV-1a) plus multiples of the golden ratio,
    mixed as at the end of MurmurHash3."""
    mask = 0xffffffff
    seed = 0x811c9dc5
    for byte in name.encode():
        seed = (seed ^ byte) * 0x01000193 & mask
    x = (seed + numpy.arange(count, dtype=numpy.uint64) * 0x9e3779b9) & mask
    x = (x ^ x >> 16) * 0x85ebca6b & mask
    x = (x ^ x >> 13) * 0xc2b2ae35 & mask
    x ^= x >> 16
    return (x >> 25).astype(numpy.int64) - 64


def weight_of(case, name, shape):
    exponent, offset = formula_of(case, name)
    return offset + draw(name, math.prod(shape)).reshape(shape) * 2.0 ** -exponent


def ids_of(case, name, count):
    """Token ids of the formula."""
    return (draw(f'{case.name} {name}', count) + 64) * case.config['vocab_size'] // 128

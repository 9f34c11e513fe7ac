"""Models of transformers with the weights of a formula: their folders, and what they compute in f32 and in f64."""
import contextlib
import json
import math
import pathlib

import torch
import transformers

from cases import weight_of

CLASSES = {'gpt2': (transformers.GPT2Config, transformers.GPT2LMHeadModel),
           'llama': (transformers.LlamaConfig, transformers.LlamaForCausalLM),
           'mistral': (transformers.MistralConfig, transformers.MistralForCausalLM),
           'qwen2': (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
           'qwen3': (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
           'gemma3': (transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM)}


class Doubles(torch.overrides.TorchFunctionMode):
    """Computes in f64 what transformers would convert to f32 for norms and probabilities. Angles remain floats, with
    which published models were trained; their sines and cosines are the nearest floats, while those of torch may be the
    second nearest."""
    in_angles = False

    def __torch_function__(self, function, types, arguments=(), options=None):
        def double(x):
            return torch.float64 if x is torch.float32 else x

        options = options or {}
        if Doubles.in_angles:
            if function in (torch.Tensor.cos, torch.Tensor.sin):
                return function(arguments[0].double()).float()
            return function(*arguments, **options)
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        return function(*map(double, arguments), **{key: double(x) for key, x in options.items()})


def keep_floats(model, double):
    """Gives a model in f64 the angles of the one in f32, and its scale of embeddings."""
    for name, scale in model.model.embed_tokens.named_buffers():
        setattr(double.model.embed_tokens, name, scale)
    rotary = double.model.rotary_emb
    for name, frequencies in model.model.rotary_emb.named_buffers():
        setattr(rotary, name, frequencies)
    forward = rotary.forward

    def floats(*arguments, **options):
        Doubles.in_angles = True
        try:
            return forward(*arguments, **options)
        finally:
            Doubles.in_angles = False

    rotary.forward = floats


@contextlib.contextmanager
def in_double():
    torch.set_default_dtype(torch.float64)
    try:
        with Doubles():
            yield
    finally:
        torch.set_default_dtype(torch.float32)


def new_model(case, config=None):
    """The model in f32."""
    config_class, model_class = CLASSES[case.family]
    config = config_class(**case.config) if config is None else config
    config._attn_implementation = 'eager'  # returns the probabilities
    model = model_class(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(weight_of(case, name, tuple(parameter.shape))))
    return model


def doubled(model):
    """The same model in f64."""
    with in_double():
        double = type(model)(model.config).eval()
    double.load_state_dict({name: x.double() for name, x in model.state_dict().items()})
    if hasattr(double, 'model'):
        keep_floats(model, double)
    return double


# ---- folders ----

def keys_of_4(config):
    """config.json as transformers 4 wrote it."""
    config = dict(config)
    config['torch_dtype'] = config.pop('dtype')
    rope = config.pop('rope_parameters', None)
    if config['model_type'] == 'gemma3_text':
        config['rope_theta'] = rope['full_attention']['rope_theta']
        config['rope_local_base_freq'] = rope['sliding_attention']['rope_theta']
        config['rope_scaling'] = None
        config.pop('_sliding_window_pattern', None)
        config.pop('layer_types')
    elif rope:
        config['rope_theta'] = rope.pop('rope_theta')
        config['rope_scaling'] = None if rope['rope_type'] == 'default' else rope
        config.pop('layer_types', None)
    return config


def write_folder(case, folder):
    """Writes the folder, whose config.json has the keys of the case."""
    folder = pathlib.Path(folder)
    model = new_model(case).to(getattr(torch, case.dtype))
    model.save_pretrained(folder, max_shard_size='20KB' if case.shards else '1GB')
    config = json.loads((folder / 'config.json').read_text())
    config = keys_of_4(config) if case.keys == 4 else config
    config.update(case.more_keys)
    for key in case.without_keys:
        config.pop(key, None)
    (folder / 'config.json').write_text(json.dumps(config, indent=2))
    files = sorted(path.name for path in folder.glob('*.safetensors*'))
    if case.shards != ('model.safetensors.index.json' in files):
        raise SystemExit(f'{case.name}: {files}')


def open_folder(case, folder):
    """The model of a folder as transformers opens it, in f32. Nothing may be missing or unknown."""
    model, found = CLASSES[case.family][1].from_pretrained(folder, dtype=torch.float32, attn_implementation='eager',
                                                           output_loading_info=True)
    if any(found.values()):
        raise SystemExit(f'{folder}: {found}')
    return model.eval()


# ---- what they compute ----

def loss_of(logits, targets):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)


def compute(model, ids, targets):
    """Logits, loss, and the gradients by the names of the parameters."""
    with in_double() if model.dtype == torch.float64 else contextlib.nullcontext():
        model.zero_grad()
        logits = model(ids).logits
        loss = loss_of(logits, targets)
        loss.backward()
    return logits.detach(), loss.detach(), {name: x.grad.clone() for name, x in model.named_parameters()}


def sharpness(model, ids):
    """The largest of the layers' mean entropies of attention, relative to the largest possible ones, and the smallest
    spread (largest - smallest) of the logits of a position, on average."""
    with torch.no_grad():
        out = model(ids, output_attentions=True)
    entropies = []
    for p in out.attentions:  # (B,H,T,T)
        most = (p > 0).sum(-1).double().log()
        entropy = -(p.double() * p.double().clamp_min(1e-300).log()).sum(-1)
        entropies.append((entropy[..., 1:] / most[..., 1:].clamp_min(math.log(2))).mean().item())
    spread = out.logits.amax(-1) - out.logits.amin(-1)
    return max(entropies), spread.mean().item()


def greedy(model, prompts, count):
    """The next `count` tokens of each prompt, with left padding if their lengths differ, and the smallest margin
    between the largest and the second logit."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(p)) + list(p) for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    out = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=count, min_new_tokens=count,
                         pad_token_id=0, eos_token_id=None, output_logits=True, return_dict_in_generate=True)
    two = torch.stack(out.logits).topk(2).values
    return out.sequences[:, longest:].tolist(), (two[..., 0] - two[..., 1]).min().item()

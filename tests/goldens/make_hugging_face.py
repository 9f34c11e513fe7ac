"""Writes tests/goldens/hugging_face with torch 2.13.0+cpu and transformers 5.23.0: python3 make_hugging_face.py

Three small GPT-2s (2 layers, width 16, 4 heads, context 12, V 31), each with the logits of ids.npy. All weights get
noise, because biases and norms would else be zeros and ones.

    tied/             GPT2LMHeadModel.save_pretrained: the prefix "transformer.", a head that is the token table
    published/        GPT2Model in BF16, with the causal masks of OpenAI's files: no prefix
    sharded/          GPT2LMHeadModel with a head of its own, in several files with an index
    NAME/logits.npy   (2,12,31), computed in f32
"""
import pathlib

import numpy
import safetensors.torch
import torch
import transformers

assert torch.__version__.startswith("2.13.0") and transformers.__version__ == "5.23.0"
folder = pathlib.Path(__file__).parent / "hugging_face"
folder.mkdir(exist_ok=True)


def make(seed, tied):
    torch.manual_seed(seed)
    config = transformers.GPT2Config(vocab_size=31, n_positions=12, n_embd=16, n_layer=2, n_head=4, bos_token_id=30,
                                     eos_token_id=30, tie_word_embeddings=tied)
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return model


def save_logits(model, name):
    with torch.no_grad():
        numpy.save(folder / name / "logits.npy", model(torch.from_numpy(ids).long()).logits.numpy())


def keep(name):
    """Removes what the tests do not read."""
    for file in (folder / name).iterdir():
        if not file.name.startswith("model"):
            file.unlink()


ids = numpy.random.default_rng(1).integers(0, 31, (2, 12)).astype(numpy.int32)
numpy.save(folder / "ids.npy", ids)

tied = make(1, True)
tied.save_pretrained(folder / "tied")
keep("tied")
save_logits(tied, "tied")

published = make(2, True).to(torch.bfloat16)
tensors = {name: x.contiguous() for name, x in published.transformer.state_dict().items()}
for layer in range(2):
    tensors["h.%d.attn.bias" % layer] = torch.ones(12, 12, dtype=torch.uint8).tril().reshape(1, 1, 12, 12)
    tensors["h.%d.attn.masked_bias" % layer] = torch.tensor(-1e4)
(folder / "published").mkdir(exist_ok=True)
safetensors.torch.save_file(tensors, folder / "published/model.safetensors", {"format": "pt"})
save_logits(published.float(), "published")

sharded = make(3, False)
sharded.save_pretrained(folder / "sharded", max_shard_size="20KB")
keep("sharded")
save_logits(sharded, "sharded")

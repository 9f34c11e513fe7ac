"""Writes a small Qwen3, which transformers has trained for a minute, to the folder `small`, and 100 instructions to
answers.json. The current folder has instruction-data.json, chapter 7 of the book."""
import json

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

data = json.load(open('instruction-data.json'))
json.dump(data[:100], open('answers.json', 'w'))
texts = ['\n'.join(example.values()) for example in data[100:]]

bpe = Tokenizer(models.BPE())
bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
bpe.decoder = decoders.ByteLevel()
bpe.train_from_iterator(texts, trainers.BpeTrainer(
    vocab_size=2000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    special_tokens=['<|endoftext|>', '<|im_start|>', '<|im_end|>']))
tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token='<|im_end|>', pad_token='<|endoftext|>')
tokenizer.chat_template = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")

torch.set_num_threads(1)  # more are no faster for a model of this size
torch.manual_seed(123)
model = Qwen3ForCausalLM(Qwen3Config(
    vocab_size=len(tokenizer), hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4,
    num_key_value_heads=2, head_dim=32, max_position_embeddings=512, tie_word_embeddings=True,
    bos_token_id=0, pad_token_id=0, eos_token_id=tokenizer.eos_token_id))
ids = torch.tensor(tokenizer('<|endoftext|>'.join(texts)).input_ids)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(300):
    begins = torch.randint(len(ids) - 64, (16,))
    batch = torch.stack([ids[begin:begin + 64] for begin in begins])
    loss = model(input_ids=batch, labels=batch).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print('loss %.2f' % loss.item())
model.save_pretrained('small')
tokenizer.save_pretrained('small')

"""torch_gpt: the training step of tests/bench/gpt.c in PyTorch. GPT-2 small as the course's chapter 5 builds it:
dropout, no bias of the queries, keys and values, and a head of its own."""
import torch
import torch.nn.functional as F
from torch import nn

B, T, C, V, H, LAYERS, DROPOUT = 2, 256, 768, 50257, 12, 12, 0.1


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.qkv, self.out = nn.Linear(C, 3 * C, bias=False), nn.Linear(C, C)
        self.up, self.down = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, H, C // H).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=DROPOUT, is_causal=True)
        x = x + F.dropout(self.out(mixed.transpose(1, 2).reshape(B, T, C)), DROPOUT)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")), DROPOUT)


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(V, C), nn.Embedding(T, C)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(C), nn.Linear(C, V, bias=False)

    def forward(self, ids):
        x = F.dropout(self.tokens(ids) + self.positions(torch.arange(T)), DROPOUT)
        return self.head(self.norm(self.blocks(x)))


def make_step(compiled):
    """Returns a function that runs one step."""
    model = GPT()
    forward = torch.compile(model) if compiled else model
    optim = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    inputs, targets = torch.randint(0, V, (2, B, T))

    def step():
        optim.zero_grad()
        F.cross_entropy(forward(inputs).view(B * T, V), targets.view(B * T)).backward()
        optim.step()

    return step

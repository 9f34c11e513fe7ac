"""post_training: shared by the programs of this folder: a small decoder that answers sums in a chat, the chats as
tokens, their log-probabilities, a training on right answers before the actual one, and the count of right answers.
All computes in f64: a draw then depends on no rounding, so that a twin draws the same tokens over hundreds of
steps."""
import copy
import re
import sys

import torch
import torch.nn.functional as F
from torch import nn

TOKENS = [*"0123456789", "+", "\n", "user", "assistant", "<|im_start|>", "<|im_end|>"]
# the digits are their own ids
VOCABULARY = len(TOKENS)
NEWLINE, USER, ASSISTANT, BEGIN, END = range(11, VOCABULARY)
# the tokens of a question, of an answer with its END, and of both without the last one; the sums of two digits
QUESTION, ANSWER, SUMS = 11, 3, 100
LENGTH = QUESTION + ANSWER - 1
# the longest text, and the target that does not count
CONTEXT, NO_TARGET = 64, -100

torch.set_default_dtype(torch.float64)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.queries, self.keys, self.values = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.ff = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def attention(self, x, mask):
        """x (N,T,C) -> (N,T,C); mask (N,1,T,T) is true for the keys that a query sees"""
        N, T, C = x.shape
        q, k, v = (f(x).view(N, T, self.heads, C // self.heads).transpose(1, 2)
                   for f in (self.queries, self.keys, self.values))
        y = F.scaled_dot_product_attention(q, k, v, mask)
        return self.out(y.transpose(1, 2).flatten(2))

    def forward(self, x, mask):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.ff(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, vocabulary, width, layers, heads=4):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids, positions=None, first_keys=None):
        """ids, their positions, and the first key that each sees (N,T) -> logits (N,T,V)"""
        T = ids.shape[1]
        positions = torch.arange(T).expand_as(ids) if positions is None else positions
        mask = torch.ones(T, T).tril().bool().expand(len(ids), 1, T, T)
        if first_keys is not None:
            mask = mask & (torch.arange(T) >= first_keys[..., None])[:, None]
        x = self.tokens(ids) + self.positions(positions)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


def copy_of(decoder):
    """Returns a second decoder with the same values."""
    blocks = decoder.blocks
    # the initial values of the copy are drawn, and not used, as in C
    Decoder(decoder.tokens.num_embeddings, decoder.tokens.embedding_dim, len(blocks), blocks[0].heads)
    return copy.deepcopy(decoder)


def check_tokens(reference, decoder):
    """Ends the program if the two have different tokens: their probabilities cannot be compared."""
    found, expected = (d.tokens.num_embeddings for d in (reference, decoder))
    if found != expected:
        sys.exit(f"the reference model has a vocabulary of {found}; it must be that of the model, {expected}")


def encode(text):
    """Returns the ids of a text that consists of the tokens."""
    tokens = re.findall("|".join(map(re.escape, TOKENS)), text)
    return [TOKENS.index(token) for token in tokens]


def answers_of(numbers, digits):
    """Returns the answers with the last digits of numbers, of 7 and 12: 07 and 12, or 7 and 2. Behind END there is
    END again; (N,ANSWER)"""
    ids = [[*encode(f"{number:02}"[-count:]), END, END][:ANSWER] for number, count in zip(numbers.tolist(), digits)]
    return torch.tensor(ids)


def lengths_of(answers):
    """Returns the numbers of the tokens of answers, END included; (N)"""
    return ((answers == END).cumsum(1) == 0).sum(1).add(1).clamp(max=ANSWER)


def are_right(sums, answers, digits):
    """Returns whether answers are the sums, with their last digits; (N)"""
    return (answers == answers_of(sums.sum(1), len(sums) * [digits])).all(1)


def ask(sums):
    """Returns the tokens of questions and of the beginning of their answers, in the format ChatML; (N,QUESTION)"""
    chat = "<|im_start|>user\n{}+{}<|im_end|>\n<|im_start|>assistant\n"
    return torch.tensor([encode(chat.format(*s)) for s in sums.tolist()])


def make_chats(sums, answers):
    """Returns chats with one question and its answer each: ids, and targets that are NO_TARGET outside of the answers;
    (N,LENGTH) each"""
    texts = torch.cat([ask(sums), answers], 1)
    end = QUESTION - 1 + lengths_of(answers)
    k = torch.arange(LENGTH)
    is_answer = (k >= QUESTION - 1) & (k < end[:, None])
    return texts[:, :-1], torch.where(is_answer, texts[:, 1:], NO_TARGET)


def log_probs_of(decoder, ids, targets):
    """Returns log p(target | the tokens before it), (N,LENGTH); 0 where there is no target."""
    return -F.cross_entropy(decoder(ids).transpose(1, 2), targets, reduction="none")


@torch.no_grad()
def reference_log_probs(reference, decoder, ids, targets):
    """Returns the same for the reference of a decoder, without a gradient. Ends the program if the two have different
    tokens."""
    check_tokens(reference, decoder)
    return log_probs_of(reference, ids, targets)


@torch.no_grad()
def answer_sums(decoder, sums, greedy):
    """Returns the answers of the model, and the log-probabilities of their tokens; (N,ANSWER) each"""
    texts = ask(sums)
    answers, log_probs = torch.full((len(sums), ANSWER), END), torch.zeros(len(sums), ANSWER)
    goes_on = torch.ones(len(sums)).bool()
    for k in range(ANSWER):
        logits = decoder(texts)[:, -1]
        for i in goes_on.nonzero().flatten().tolist():
            probs = logits[i].softmax(-1)
            answers[i, k] = probs.argmax() if greedy else torch.multinomial(probs, 1)
        log_probs[:, k] = logits.log_softmax(-1).gather(1, answers[:, k:k + 1])[:, 0]
        goes_on &= answers[:, k] != END
        texts = torch.cat([texts, answers[:, k:k + 1]], 1)
    return answers, log_probs


def count_right(decoder, digits=2):
    """Returns the number of answers to all SUMS that are right, with their last digits. Each token is the most probable
    one."""
    sums = torch.tensor([divmod(i, 10) for i in range(SUMS)])
    return are_right(sums, answer_sums(decoder, sums, True)[0], digits).sum()


def group_advantages(rewards):
    """Returns the advantages of groups of answers, (groups,answers), from their rewards: reward less the mean of its
    group, divided by the group's standard deviation; 0 for a group without spread."""
    return (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)


def step_down(optim, decoder, loss):
    """A step that lowers the loss; the norm of the gradient is at most 1."""
    optim.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(decoder.parameters(), 1)
    optim.step()


def train_on_answers(decoder, steps, two_digits):
    """Trains on chats of sums, whose answers are right. This share of them has two digits, and the others one."""
    optim = torch.optim.AdamW(decoder.parameters(), lr=0.003)
    for _ in range(steps):
        sums = torch.randint(0, 10, (32, 2))
        digits = torch.where(torch.rand(32) < two_digits, 2, 1).tolist()
        ids, targets = make_chats(sums, answers_of(sums.sum(1), digits))
        step_down(optim, decoder, F.cross_entropy(decoder(ids).transpose(1, 2), targets))

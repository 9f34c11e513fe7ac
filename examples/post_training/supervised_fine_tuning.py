#!/usr/bin/env python3
"""supervised_fine_tuning: chats of one to three sums each. Only the tokens of answers are targets (Ouyang et al. 2022),
and the others are -100. The chats have different lengths, so several of them are packed into a row (Krell et al.
2021): the positions of each begin at 0, and its first key is its own first token, so that no text sees another.
Prints the loss of the same chats with a row for each, packed, and packed without first keys: the first two are
equal. Then it trains on packed chats, and prints the losses, and the right answers before and after."""
import argparse

import torch
import torch.nn.functional as F

from post_training import (ANSWER, ASSISTANT, END, NO_TARGET, QUESTION, SUMS, VOCABULARY, Decoder, count_right, encode,
                           step_down)

WIDTH, LAYERS, CHATS, TURNS, TURN = 32, 2, 16, 3, QUESTION + ANSWER + 1
ROW = 4 * TURN
STEPS, SHOWN, RATE = 300, 75, 0.003


def write_chat(sums):
    """Returns the tokens of a chat, and the targets of its answers."""
    turn = "<|im_start|>user\n{}+{}<|im_end|>\n<|im_start|>assistant\n{:02}<|im_end|>\n"
    ids = encode("".join(turn.format(a, b, a + b) for a, b in sums))
    # an answer begins behind the newline after its role, and ends with END
    targets, is_answer = [], False
    for i, id in enumerate(ids):
        is_answer = id != END if is_answer else i > 0 and ids[i - 1] == ASSISTANT
        targets.append(ids[i + 1] if is_answer else NO_TARGET)
    return ids, targets


def draw_chats():
    sums = torch.randint(0, 10, (CHATS, TURNS, 2)).tolist()
    turns = torch.randint(1, TURNS + 1, (CHATS,)).tolist()
    return [write_chat(s[:count]) for s, count in zip(sums, turns)]


def pack_texts(texts, texts_of_row):
    """Packs each text behind the one before if the row has space for it. `texts_of_row` is the most texts of a row. The
    rest of a row is a text without targets. Returns ids, targets, positions and first keys, (rows,ROW) each."""
    rows, used = [], ROW
    for ids, targets in texts:
        if used + len(ids) > ROW or in_row == texts_of_row:
            rows.append([[], [], [], []])
            used = in_row = 0
        # the text and the rest of the row, which the next text may overwrite
        rest = ROW - used - len(ids)
        text = (ids + rest * [END], targets + rest * [NO_TARGET], list(range(ROW - used)), (ROW - used) * [used])
        for values, own in zip(rows[-1], text):
            values[used:] = own
        used += len(ids)
        in_row += 1
    return torch.tensor(rows).unbind(1)


def loss_of(decoder, pack, has_first_keys):
    ids, targets, positions, first_keys = pack
    logits = decoder(ids, positions, first_keys if has_first_keys else None)
    return F.cross_entropy(logits.transpose(1, 2), targets)


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.manual_seed(123)
    decoder = Decoder(VOCABULARY, WIDTH, LAYERS)
    texts = draw_chats()
    apart, packed = pack_texts(texts, 1), pack_texts(texts, CHATS)
    print(f"{len(apart[0])} rows: loss {loss_of(decoder, apart, True):.6f}")
    print(f"{len(packed[0])} rows: loss {loss_of(decoder, packed, True):.6f}, "
          f"if texts see those before {loss_of(decoder, packed, False):.6f}")

    print(f"{count_right(decoder)} of {SUMS} sums right before")
    optim = torch.optim.AdamW(decoder.parameters(), lr=RATE)
    for step in range(1, STEPS + 1):
        packed = pack_texts(draw_chats(), CHATS)
        loss = loss_of(decoder, packed, True)
        step_down(optim, decoder, loss)
        if step % SHOWN == 0:
            print(f"step {step}: {len(packed[0])} rows, loss {loss:.3f}")
    print(f"{count_right(decoder)} of {SUMS} sums right after")


if __name__ == "__main__":
    main()

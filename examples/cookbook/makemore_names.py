"""makemore_names: the names of an invented language, which the programs makemore_* learn. A name has two or three
syllables. Its vowels are all bright or all dark, and its beginning decides how it may end. So a model that sees only
the character before the next one cannot know all rules."""
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F

ONSETS = ["b", "d", "k", "l", "m", "t", "f", "n", "r", "s", "br", "th"]
ENDINGS = ["", "n", "l", "s", "r", "k"]
VOWELS = ["eiy", "aou"]

# "." is before and after each name, and has the id 0; "a" to "z" have 1 to 26
ALPHABET = ".abcdefghijklmnopqrstuvwxyz"
CHARACTERS = len(ALPHABET)

# the largest number of syllables
SYLLABLES = 3


def letters(count):
    """Returns names in one string, each with a "." after it."""
    # 12, the largest number of choices, and the others are divisors of 12
    text = ""
    for d in torch.randint(0, len(ONSETS), (count, 3 + 2 * SYLLABLES)).tolist():
        for s in range(2 + d[1] % 2):
            text += ONSETS[d[3 + 2 * s]] + VOWELS[d[0] % 2][d[4 + 2 * s] % 3]
        text += ENDINGS[d[3] // 6 * 3 + d[2] % 3] + "."
    return text


class Windows(NamedTuple):
    """For each character of the names its id, targets (N), and those of the characters before it, inputs (N,context),
    with "." where the name has not begun. The bound is the loss of the grammar itself; on many names, no model has a
    lower one."""
    inputs: torch.Tensor
    targets: torch.Tensor
    bound: float


def draw(count, context):
    """Draws names, and returns their windows."""
    text = letters(count)
    inputs, targets, window, bound = [], [], [0] * context, 0
    for c in text:
        inputs.append(window)
        targets.append(ALPHABET.index(c))
        window = [0] * context if c == "." else window[1:] + targets[-1:]
        # the choices of a name: its vowels, number of syllables and ending; those of a syllable: onset and vowel
        choices = 2 * 2 * 3 if c == "." else len(ONSETS) * 3 if c in "aeiouy" else 1
        bound += math.log(choices) / len(text)
    return Windows(torch.tensor(inputs), torch.tensor(targets), bound)


def batch(size, windows):
    """Draws a batch of the windows, with replacement."""
    rows = torch.randint(0, len(windows.targets), (size,))
    return windows.inputs[rows], windows.targets[rows]


@torch.no_grad()
def loss(model, windows):
    """Returns the loss of a model on all windows, in evaluation."""
    model.eval()
    loss = F.cross_entropy(model(windows.inputs), windows.targets).item()
    model.train()
    return loss


@torch.no_grad()
def write(model, context, count):
    """Prints names that the model draws, in a line."""
    model.eval()
    names = []
    for _ in range(count):
        window, name = torch.zeros(1, context, dtype=torch.long), ""
        while not name.endswith("."):
            following = torch.multinomial(model(window).softmax(-1), 1, replacement=True)
            window = torch.cat([window[:, 1:], following], 1)
            name += ALPHABET[following.item()]
        names.append(name[:-1])
    model.train()
    print(" ".join(names))

"""Planted mistakes: their lists, and copies of the sources. tests/reference/plant describes the blocks of a list."""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def read_mistakes(path, keys):
    """The heads of the blocks of a list, and their texts. Each head has these keys."""
    mistakes = []
    for block in path.read_text().strip().split('\n\n'):
        head, pairs, last = {}, [], ''
        for line in block.splitlines():
            mark = line[:2].strip()
            if mark == '-':
                if last != '-':
                    pairs.append(([], []))
                pairs[-1][0].append(line[2:])
            elif mark == '+':
                pairs[-1][1].append(line[2:])
            else:
                key, value = line.split(' ', 1)
                head[key] = value
            last = mark
        missing = keys - set(head)
        if missing or not pairs:
            sys.exit(f'plant: {path}: no {", ".join(sorted(missing)) or "lines to replace"} in the block\n{block}')
        mistakes.append((head, pairs))
    return mistakes


def planted(pairs, text):
    """The text of the file with the mistake in it, and what is stale: the texts that it has not once."""
    lines, stale = text.split('\n'), []
    for old, new in pairs:
        at = [i for i in range(len(lines)) if lines[i:i + len(old)] == old]
        if len(at) == 1:
            lines[at[0]:at[0] + len(old)] = new
        else:
            stale.append(f'this text {len(at)} times, not once\n' + '\n'.join(old))
    return '\n'.join(lines), stale


def stale_texts(mistakes):
    """A message for each text that its file has not once."""
    for head, pairs in mistakes:
        path = ROOT / head['file']
        for text in planted(pairs, path.read_text())[1] if path.is_file() else ['gone']:
            yield f'{head["mistake"]}: {head["file"]}: {text}'


def self_test():
    for old, text, stale in (('b', 'a\nb\n', 0), ('a', 'a\na\n', 1), ('a', 'aa\n', 1), ('b', 'a\n', 1)):
        if len(planted([([old], ['c'])], text)[1]) != stale:
            sys.exit(f'plant: {stale} stale texts expected for {old!r} in {text!r}')


def copy_tree(to_folder):
    """Copies the tracked files to a folder; those that are equal keep their time, so that a second run builds little."""
    tracked = subprocess.run(['git', 'ls-files', '-z'], cwd=ROOT, capture_output=True, text=True, check=True)
    names = {name for name in tracked.stdout.split('\0') if name and (ROOT / name).is_file()}
    for name in names:
        to, content = to_folder / name, (ROOT / name).read_bytes()
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.is_file() or to.read_bytes() != content:
            shutil.copyfile(ROOT / name, to)
            shutil.copymode(ROOT / name, to)
    for path in to_folder.rglob('*'):
        name = str(path.relative_to(to_folder))
        if path.is_file() and name not in names and not name.startswith('build/'):
            path.unlink()

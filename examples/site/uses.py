"""uses: finds where an example program calls a function, so that each entry shows code that is compiled and tested."""
import collections
import glob
import os
import re

Use = collections.namedtuple('Use', 'place lines')
# The shortest programs come first.
PLACES = ('examples/site/programs/*.c', 'examples/book/ch0*/*.c', 'examples/cookbook/*.c', 'examples/positions/*.c',
          'examples/word_vectors/*.c', 'examples/train_embeddings/*.c', 'examples/sentences/*.c', 'examples/gpt/*.c', 'tests/package/*.c')
LONGEST = 4


class Uses:
    def __init__(self, tree):
        self.found = {}
        for pattern in PLACES:
            for path in sorted(glob.glob(os.path.join(tree, pattern))):
                self.read(os.path.relpath(path, tree), open(path, encoding='utf-8').read().split('\n'))

    def read(self, path, lines):
        for number, line in enumerate(lines):
            if not line.startswith('    ') or line.lstrip().startswith(('*', '/*', '"')):
                continue
            for name in re.findall(r'\b(tg_\w+)\(', line):
                end = number
                while end < len(lines) and not lines[end].rstrip().endswith((';', '{')) and end - number < LONGEST:
                    end += 1
                if name not in self.found and end - number < LONGEST:
                    block = lines[number:end + 1]
                    margin = min(len(l) - len(l.lstrip()) for l in block if l.strip())
                    self.found[name] = Use('%s:%d' % (path, number + 1), [l[margin:] for l in block])

    def of(self, names):
        return next((self.found[n] for n in names if n in self.found), None)

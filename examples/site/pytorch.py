"""pytorch: the table "PyTorch -> tapegrad" of examples/README.md, and an index of PyTorch's names, which also reads the
comments of the headers. The pages are written from these two; no name is kept a second time."""
import os
import re

CELL = re.compile(r'`([^`]*)`')
NAME = re.compile(r'\b(?:torch|F|nn|x|p|model|optimizer|numpy)\.(?:\w+\.)*(\w+)|\b([A-Z]\w*[a-z]\w*[A-Z]\w*)\b')


class Table:
    def __init__(self, tree):
        text = open(os.path.join(tree, 'examples', 'README.md'), encoding='utf-8').read()
        section = text[text.index('\n## PyTorch -> tapegrad'):]
        self.rows = [[cell.strip() for cell in re.split(r'(?<!\\)\|', line)[1:-1]]
                     for line in section.split('\n') if line.startswith('| ')]
        self.rows = [row for row in self.rows if len(row) == 2 and row[0] != 'PyTorch']
        self.of, self.names = {}, {}
        for theirs, ours in self.rows:
            left, right = CELL.findall(theirs), CELL.findall(ours)
            pairs = zip(left, right) if len(left) == len(right) else [(l, r) for l in left[:1] for r in right]
            for call, code in pairs:
                for name in re.findall(r'\btg_\w+', code):
                    if call not in self.of.setdefault(name, []) and not re.search(r'_(config|default)$', name):
                        self.of[name].append(call)
            for call in left:
                self.add_names(call, re.findall(r'\btg_\w+', ours))

    def add_names(self, call, functions):
        for m in NAME.finditer(call):
            name = m.group(1) or m.group(2)
            if name[0] != '_' and not name.isupper():
                found = self.names.setdefault(name, [])
                found += [f for f in functions if f not in found]

    def add_header(self, entry, is_op):
        """The names in the comment of an entry; an op also has the name of its PyTorch function."""
        for name in re.findall(r'\btorch(?:\.\w+)*\.(\w+)', entry.comment):
            found = self.names.setdefault(name, [])
            found += [n for n in entry.names if n not in found]
        for name in entry.names if is_op else []:
            found = self.names.setdefault(name[3:], [])
            if name not in found:
                found.append(name)


def link(code, links):
    """The code of a cell, its public names as links."""
    known = [n for n in re.findall(r'\b(?:tg|TG)_\w+', code) if n in links.kinds]
    return '``%s``' % code if not known else ':c:%s:`%s <%s>`' % (
        {'function': 'func', 'opaque': 'struct'}.get(links.kinds[known[0]], links.kinds[known[0]]),
        code.replace('<', '\\<').replace('`', '').replace('*', '\\*'), known[0])


def cell(text, links):
    parts = re.split(r'(`[^`]*`)', text.replace('\\|', '|'))
    return ''.join(link(p[1:-1], links) if p.startswith('`') else p for p in parts)


def pages(table, reference):
    ops = {'ops', 'losses', 'conv'}
    for header in reference.headers:
        for section in header.sections:
            for entry in reference.entries(header):
                table.add_header(entry, header.name in ops and entry.kind == 'function')
    links = reference.links
    out = ['PyTorch\'s names', '===============', '',
           'A call in PyTorch, and the one here. The order of arguments is: the context (``tape``, ``params`` or an object), '
           'the inputs, the sizes, and an optional config.', '', 'Calls', '-----', '',
           '.. list-table::', '   :header-rows: 1', '   :widths: 45 55', '   :class: pytorch', '',
           '   * - PyTorch', '     - tapegrad']
    for theirs, ours in table.rows:
        out += ['   * - ' + ''.join('``%s``' % p[1:-1] if p.startswith('`') else p for p in re.split(r'(`[^`]*`)', theirs)),
                '     - ' + cell(ours, links)]
    out += ['', 'Index of names', '--------------', '',
            'Each name of PyTorch that a header mentions, or whose function an op follows, without its module.', '']
    for name in sorted(table.names, key=str.lower):
        ours = [links.name(n, 'PyTorch index') for n in table.names[name] if n in links.kinds]
        if ours:
            out += ['``%s``' % name, '   ' + ', '.join(ours), '']
    reference.write('guides/pytorch', out)

"""markup: turns the plain text of a header's comment into reStructuredText, with a link for each public name."""
import re

ROLES = {'function': 'func', 'struct': 'struct', 'opaque': 'struct', 'enum': 'enum', 'enumerator': 'enumerator',
         'macro': 'macro', 'type': 'type', 'member': 'member'}
# Names in comments that stand for a family of names; an environment variable; macros of the headers themselves.
PLACEHOLDERS = re.compile(r'TG_(CPU_LEVEL|API|PRINTF_LIKE)$|tg_(x|nn|tensor|checkpoint|op|mpi|json|text|config|params|optim)?_?$|tg_x_\w+$|tg_\w+_$')


class Links:
    """The public names, and the pages of the headers. Remembers each name that is not known."""

    def __init__(self):
        self.kinds, self.pages, self.unknown = {}, {}, []

    def add(self, name, kind):
        self.kinds.setdefault(name, kind)

    def name(self, name, where):
        kind = self.kinds.get(name)
        if kind:
            return ':c:%s:`%s`' % (ROLES[kind], name)
        if not PLACEHOLDERS.match(name):
            self.unknown.append('%s: %s is not a public name' % (where, name))
        return '``%s``' % name


def escape(text):
    text = re.sub(r'([\\*`|])', r'\\\1', text)
    return re.sub(r'_(?!\w)', r'\\_', text)


TOKEN = re.compile(r'`([^`]+)`|\b(?:tapegrad/)?(\w+\.h)\b|\b((?:tg|TG)_\w+(?:\.\w+)?)(\(\))?')


def inline(text, links, where):
    """One paragraph, in one line."""
    text, out, position = ' '.join(text.split()), '', 0

    def append(markup, following):
        # a role begins and ends at a space or a bracket; elsewhere an escaped space makes it so
        nonlocal out
        if out and not re.search(r'[\s\-:/\'"<(\[{]$', out):
            out += '\\ '
        out += markup
        if following and not re.match(r'[\s\-.,:;!?\\/\'")\]}>]', following):
            out += '\\ '

    for m in TOKEN.finditer(text):
        code, header, name, _ = m.groups()
        out += escape(text[position:m.start()])
        position = m.end()
        following = text[position:position + 1]
        if code is not None:
            known = re.match(r'(tg_\w+|TG_\w+)(\(\))?$', code)
            append(links.name(known.group(1), where) if known and known.group(1) in links.kinds else '``%s``' % code,
                   following)
        elif header:
            page = links.pages.get(header[:-2])
            append(':doc:`%s </%s>`' % (header, page) if page else '``%s``' % m.group(0), following)
        else:
            base = name.split('.')[0]
            if name not in links.kinds and base in links.kinds and '.' in name:
                position -= len(m.group(0)) - len(base)
                name = base
            if name.endswith('_') or text[position:position + 1] == '*':
                append('``%s``' % name, following)
            else:
                append(links.name(name, where), text[position:position + 1])
    out += escape(text[position:])
    return '\\ ' + out if re.match(r'(\(?\w{1,3}[.)]|[-+•]|:|>>>|\.\.|--)(\s|$)', out) else out


def is_indented(line):
    return line.startswith('    ')


def blocks(text):
    """Yields ('code', text), ('literal', text), ('item', text with its bullet) or ('text', text)."""
    lines, paragraph, kind = text.split('\n') + [''], [], 'text'
    i = 0
    while i < len(lines):
        line = lines[i]
        bullet = re.match(r'  (-|\d+\.) ', line)
        # lines with a margin of four, after an empty line, are figures or code
        literal = is_indented(line) and not paragraph
        if line.strip() == '```c' or literal or bullet or not line.strip():
            if paragraph:
                yield kind, '\n'.join(paragraph)
            paragraph, kind = [], 'text'
        if line.strip() == '```c':
            end = lines.index('```', i + 1)
            yield 'code', '\n'.join(lines[i + 1:end])
            i = end
        elif literal:
            end = i
            while end < len(lines) and (is_indented(lines[end]) or
                                        not lines[end].strip() and end + 1 < len(lines) and is_indented(lines[end + 1])):
                end += 1
            yield 'literal', '\n'.join(l[4:] for l in lines[i:end])
            i = end - 1
        elif bullet:
            paragraph, kind = [line.strip()], 'item'
        elif line.strip():
            paragraph.append(line.strip())
        i += 1


def to_rst(text, links, where, margin='', heads=False):
    """A comment as reStructuredText, each line behind the margin. With heads the first words of a paragraph, such as
    "Errors.", are bold."""
    out = []
    for kind, block in blocks(text):
        if kind in ('code', 'literal'):
            out += ['', '.. code-block:: %s' % ('c' if kind == 'code' else 'text'), '']
            out += ['   ' + line if line else '' for line in block.split('\n')] + ['']
        elif kind == 'item':
            bullet, _, rest = block.partition(' ')
            out += ['', '%s %s' % (bullet, inline(rest, links, where)), '']
        else:
            head = re.match(r'([A-Z][a-z]+(?: [a-z]+){0,2})\. (?=\S)', block) if heads else None
            text = inline(block[head.end():], links, where) if head else inline(block, links, where)
            out += ['', '**%s.** %s' % (head.group(1), text) if head else text, '']
    return '\n'.join(margin + line if line else '' for line in out)

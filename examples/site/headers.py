"""headers: reads the public headers into sections and entries, by their written style.

A header is its file comment, and then sections that begin with a rule (`/* ---- name ---- */`). In a section a comment
that a blank line follows is a text of its own; any other comment belongs to the declarations below it, up to the next
blank line or comment. What does not follow this style is an error, with its line, so nothing is left out in silence.

Why not Doxygen: its comments would need marks, which a filter would have to add, and a comment of a section would stick
to the first function behind it. The style above is checked by tests/lint already, and reading it takes this one file.
"""
import collections
import os
import re

Entry = collections.namedtuple('Entry', 'kind names signatures comment members')
# kind: function, struct, enum, type, macro; members: of a struct or an enum, entries of the kind member or enumerator
Text = collections.namedtuple('Text', 'comment')
Section = collections.namedtuple('Section', 'title items')
Header = collections.namedtuple('Header', 'name path title comment sections')


def plain(comment):
    """The lines of a comment without its margin, as one text."""
    text = re.sub(r'^/\*', '', comment.strip())
    text = re.sub(r'\s*\*/$', '', text)
    lines = [re.sub(r'^ \* ?', '', line) for line in text.split('\n')]
    return '\n'.join(lines).strip()


def squeeze(code):
    """A declaration in one line."""
    code = re.sub(r'\s+', ' ', code).strip().rstrip(';').strip()
    code = re.sub(r'^TG_API ', '', code)
    return re.sub(r' TG_PRINTF_LIKE\([^)]*\)$', '', code)


def for_c(text):
    """The header as a C compiler reads it: without what is for C++, and without the guard and the includes. Lines keep
    their numbers."""
    def keep_lines(m, kept=''):
        return kept + '\n' * (m.group(0).count('\n') - kept.count('\n'))

    text = re.sub(r'#ifdef __cplusplus\n(?:(?!#endif|#else).*\n)*(?:#else\n((?:(?!#endif).*\n)*))?#endif\n',
                  lambda m: keep_lines(m, m.group(1) or ''), text)
    text = re.sub(r'#if defined .*\n(?:(?!#endif).*\n)*#endif\n', keep_lines, text)
    text = re.sub(r'#ifdef __FAST_MATH__\n.*\n#endif\n', keep_lines, text)
    text = re.sub(r'^#(ifndef|define) TAPEGRAD\w*_H$', '', text, flags=re.M)
    return re.sub(r'^#(include|endif).*$', '', text, flags=re.M)


def declarators(code):
    """'double mean, std' -> [('mean', 'double mean'), ('std', 'double std')]"""
    code = squeeze(code)
    m = re.search(r'\(\*(\w+)\)', code)
    if m:
        return [(m.group(1), code)]
    m = re.match(r'(.*?)(\**\w+(?:\[[^\]]*\])*(?:\s*,\s*\**\w+(?:\[[^\]]*\])*)*)$', code)
    if not m:
        raise SystemExit('not a member: ' + code)
    found = []
    for part in m.group(2).split(','):
        name = re.search(r'\w+', part).group(0)
        found.append((name, m.group(1).strip() + ' ' + part.strip()))
    return found


def body_pieces(body):
    """Yields ('comment', text), ('code', text) and ('blank', '') of a struct's or an enum's body."""
    pattern = re.compile(r'(?P<comment>/\*.*?\*/)[ \t]*\n?|(?P<blank>\n[ \t]*(?=\n))|(?P<code>[^;,/\n][^;/]*?;)|\s+', re.S)
    position = 0
    while position < len(body):
        m = pattern.match(body, position)
        if not m:
            raise ValueError('not understood: ' + body[position:position + 60])
        if m.lastgroup:
            yield m.lastgroup, m.group(m.lastgroup)
        position = m.end()


def fields(body):
    """The members of a struct. Those below one comment, without a blank line between them, share it."""
    found, comment = [], ''
    body = re.sub(r'    union \{\n(.*?)    \};\n', r'\1', body, flags=re.S)  # its members are those of the struct
    for kind, text in body_pieces(body):
        if kind == 'comment':
            comment = re.sub(r'\n\s*\* ?', '\n', plain(text))
            found.append(None)
        elif kind == 'blank':
            comment = ''
            found.append(None)
        else:
            names = declarators(text)
            if found and found[-1] and found[-1].comment == comment:
                last = found.pop()
                names = list(zip(last.names, last.signatures)) + names
            found.append(Entry('member', [n for n, _ in names], [s for _, s in names], comment, []))
    return [entry for entry in found if entry]


def enumerators(body):
    found, comment = [], ''
    for m in re.finditer(r'/\*(.*?)\*/|(\w+)( = [^,\s]+)?', body, flags=re.S):
        if m.group(2):
            found.append(Entry('enumerator', [m.group(2)], [m.group(2) + (m.group(3) or '')], comment, []))
            comment = ''
        else:
            comment = re.sub(r'\n\s*\* ?', '\n', plain(m.group(0)))
    return found


DECLARATIONS = [
    ('macro', re.compile(r'#define (\w+)(\([^)]*\))?((?:\\\n|.)*)\n')),
    ('struct', re.compile(r'(?:typedef )?struct (\w+) \{\n(.*?)\n\}(?: \w+)?;\n', re.S)),
    ('enum', re.compile(r'typedef enum (\w+) \{(.*?)\} \w+;\n', re.S)),
    ('opaque', re.compile(r'(?:typedef )?struct (\w+)(?: \w+)?;\n')),
    ('type', re.compile(r'typedef ([^;{]*);\n')),
    ('function', re.compile(r'TG_API ([^;{]*);\n')),
    ('inline', re.compile(r'static inline ([^;{]*)\n\{\n.*?\n\}\n', re.S)),
]


def declaration(kind, m):
    if kind == 'macro':
        return Entry('macro', [m.group(1)], [m.group(1) + (m.group(2) or '')], '', [])
    if kind == 'struct':
        return Entry('struct', [m.group(1)], [m.group(1)], '', fields(m.group(2)))
    if kind == 'enum':
        return Entry('enum', [m.group(1)], [m.group(1)], '', enumerators(m.group(2)))
    if kind == 'opaque':
        return Entry('opaque', [m.group(1)], [m.group(1)], '', [])
    code = squeeze(m.group(1))
    if kind == 'type':
        pointer = re.search(r'\(\*(\w+)\)', code)
        return Entry('type', [pointer.group(1) if pointer else code.split()[-1].lstrip('*')], [code], '', [])
    return Entry('function', [re.search(r'\b(tg_\w+)\(', code).group(1)], [code], '', [])


def parse(path, name):
    text = for_c(open(path, encoding='utf-8').read())
    sections, group, comment, position = [Section('', [])], False, '', 0
    file_comment = None
    while position < len(text):
        if text[position] == '\n':
            group, comment = False, ''
            position += 1
            continue
        m = re.compile(r'/\*.*?\*/\n', re.S).match(text, position)
        if m:
            rule = re.match(r'/\* -{4} (.*?) -*\s*\*/', m.group(0))
            position, group, comment = m.end(), False, ''
            if file_comment is None:
                file_comment = plain(m.group(0))
            elif rule:
                sections.append(Section(rule.group(1), []))
            elif position < len(text) and text[position] != '\n':
                comment = plain(m.group(0))
            else:
                sections[-1].items.append(Text(plain(m.group(0))))
            continue
        for kind, pattern in DECLARATIONS:
            m = pattern.match(text, position)
            if m:
                break
        else:
            line = text.count('\n', 0, position) + 1
            raise SystemExit('%s:%d: not in the style of a header: %s' % (path, line, text[position:].split('\n')[0]))
        entry, items, position = declaration(kind, m), sections[-1].items, m.end()
        if group and not comment and entry.kind == items[-1].kind and entry.kind in ('function', 'macro'):
            items[-1].names.extend(entry.names)
            items[-1].signatures.extend(entry.signatures)
        else:
            items.append(entry._replace(comment=comment))
        group, comment = True, ''
    # the first sentence, without the name of the header
    title, *rest = re.split(r'\.(?:\s+|$)', file_comment, maxsplit=1)
    return Header(name, path, title.replace('\n', ' ').partition(': ')[2], ''.join(rest), sections)


def read(include):
    """All headers, in the order in which the umbrella headers include them."""
    names = []
    for umbrella in ('tapegrad.h', 'tapegrad_text.h', 'tapegrad_tools.h'):
        names += re.findall(r'#include <tapegrad/(\w+)\.h>', open(os.path.join(include, umbrella)).read())
    folder = os.path.join(include, 'tapegrad')
    others = sorted(n[:-2] for n in os.listdir(folder) if n[:-2] not in names)
    headers = [parse(os.path.join(folder, n + '.h'), n) for n in names + others]
    return headers + [parse(os.path.join(include, 'tapegrad_mpi.h'), 'tapegrad_mpi')]

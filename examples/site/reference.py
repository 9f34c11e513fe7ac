"""reference: writes a page for each header, and one for each section of a large header."""
import os
import re

import headers
import markup
import uses

SMALL = 12  # a header with fewer functions is one page


def slug(title):
    return re.sub(r'\W+', '_', re.split(r'[:(]', title)[0].strip().lower()).strip('_') or 'section'


def heading(text, mark='='):
    return '%s\n%s\n' % (text, mark * max(4, len(text)))


def capital(text):
    return text[:1].upper() + text[1:]


def is_private(entry):
    return entry.comment.startswith('private')


class Reference:
    def __init__(self, tree, out, table):
        self.tree, self.out, self.table = tree, out, table
        self.headers = headers.read(os.path.join(tree, 'include'))
        self.uses = uses.Uses(tree)
        self.links = markup.Links()
        self.problems, self.functions, self.members = [], [], []
        self.mentions, self.modules = {}, {}
        structs = {n for h in self.headers for e in self.entries(h) if e.kind == 'struct' for n in e.names}
        seen = set()
        for header in self.headers:
            is_split = self.is_split(header)
            self.links.pages[header.name] = 'reference/%s%s' % (header.name, '/index' if is_split else '')
            for section in header.sections:
                torch = re.search(r'torch\.nn\.\w+', section.title)
                for entry in section.items:
                    if torch and not isinstance(entry, headers.Text):
                        self.modules.update((n, torch.group(0)) for n in entry.names)
                # a type that is only declared here has its entry elsewhere
                section.items[:] = [i for i in section.items if isinstance(i, headers.Text) or i.kind != 'opaque' or
                                    i.names[0] not in structs | seen]
                seen.update(n for i in section.items if not isinstance(i, headers.Text) for n in i.names)
            for entry in self.entries(header):
                for name in entry.names:
                    self.links.add(name, entry.kind)
                    for other in re.findall(r'\btg_\w+', entry.comment):
                        self.mentions.setdefault(other, []).append(name)
                for member in entry.members:
                    for name in member.names:
                        self.links.add(name if entry.kind == 'enum' else '%s.%s' % (entry.names[0], name), member.kind)
        for name in ('tg_op_declaration', 'tg_part_kind'):  # private structs, which are named only
            self.links.kinds.pop(name, None)

    @staticmethod
    def entries(header):
        return [i for s in header.sections for i in s.items if not isinstance(i, headers.Text)]

    def is_split(self, header):
        functions = sum(len(e.names) for e in self.entries(header) if e.kind == 'function')
        return functions >= SMALL and len([s for s in header.sections if s.title]) > 1

    # ---- texts that a declaration needs none of in a header, because its name follows a rule

    def text_of(self, entry, before):
        name = entry.names[0]
        if entry.comment:
            return entry.comment
        if entry.kind == 'function' and name.endswith('_config_default'):
            also = ' The other call takes them, or NULL for the defaults.' if len(entry.names) > 1 else ''
            return 'Returns the defaults.' + also
        if entry.kind == 'function' and before:
            return 'See %s.' % before.names[0]
        if entry.kind == 'struct' and name.endswith('_config'):
            calls = [n for n in (name[:-7], name[:-7] + '_make', name[:-7] + '_new') if n in self.links.kinds]
            return 'The options of %s.' % calls[-1] if calls else 'Options; %s_default returns the defaults.' % name
        if entry.kind == 'struct' and name + '_make' in self.links.kinds:
            return 'A module, which %s_make makes.' % name
        if entry.kind == 'opaque':
            ways = [n for n in (name + '_new', name + '_open', name + '_train') if n in self.links.kinds]
            end = ', and %s_free frees it' % name if name + '_free' in self.links.kinds else ''
            return 'An object; %s returns it%s.' % (ways[0], end) if ways else 'An object whose members are private.'
        return ''

    def text_of_member(self, entry, member):
        if member.comment:
            return member.comment
        if member.names == ['module']:
            return 'The first member of every module.'
        if member.names == ['context']:
            return 'The argument of the function above.'
        return ''

    # ---- one entry

    def cross_references(self, entry):
        lines = []
        for name in entry.names:
            for call in self.table.of.get(name, [])[:2]:
                lines.append('PyTorch: ``%s``' % call)
            module = 'tg_nn_%s_forward' % name[3:]
            if module in self.links.kinds:
                torch = self.modules.get(module)
                lines.append('Module: :c:func:`%s`%s' % (module, ', ``%s``' % torch if torch else ''))
            op = re.match(r'tg_nn_(\w+)_forward$', name)
            if op and 'tg_' + op.group(1) in self.links.kinds:
                lines.append('Op: :c:func:`tg_%s`' % op.group(1))
        others = [n for name in entry.names for n in self.mentions.get(name, [])
                  if n not in entry.names and not any('`%s`' % n in line for line in lines)]
        others = list(dict.fromkeys(others))[:6]
        if others:
            lines.append('See also: ' + ', '.join(self.links.name(n, '') for n in others))
        return lines

    def entry(self, header, entry, before, out):
        where = '%s.h: %s' % (header.name, entry.names[0])
        directive = {'opaque': 'struct', 'type': 'type'}.get(entry.kind, entry.kind)
        out.append('.. c:%s:: %s' % (directive, entry.signatures[0]))
        out += [' ' * (len(directive) + 9) + s for s in entry.signatures[1:]]
        text = self.text_of(entry, before)
        # the values of an enum, and a version number, may speak for themselves
        if not text and entry.kind not in ('enum', 'macro') and not any(m.comment for m in entry.members):
            self.problems.append('%s has no text' % where)
        out += ['', markup.to_rst(text, self.links, where, '   ')]
        for member in entry.members:
            if is_private(member):
                continue
            text = self.text_of_member(entry, member)
            if not text and entry.kind == 'struct' and not entry.comment:
                self.problems.append('%s.%s has no text' % (where, member.names[0]))
            out.append('   .. c:%s:: %s' % (member.kind, member.signatures[0]))
            out += [' ' * (len(member.kind) + 12) + s for s in member.signatures[1:]]
            out += ['', markup.to_rst(text, self.links, where, '      ')]
            self.members += ['%s.%s' % (entry.names[0], n) for n in member.names]
        if entry.kind == 'function':
            self.functions += entry.names
            lines = self.cross_references(entry)
            if lines:
                out += ['   .. rst-class:: cross', ''] + ['   | ' + line for line in lines] + ['']
            use = None if '```c' in entry.comment else self.uses.of(entry.names)
            if use:
                out += ['   .. code-block:: c', '      :caption: %s' % use.place, '']
                out += ['      ' + line for line in use.lines] + ['']

    def items(self, header, items, out):
        before = None
        for item in items:
            if isinstance(item, headers.Text):
                out.append(markup.to_rst(item.comment, self.links, '%s.h' % header.name, heads=True))
            else:
                self.entry(header, item, before, out)
                before = item

    # ---- pages

    def write(self, page, lines):
        path = os.path.join(self.out, page + '.rst')
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as file:
            file.write('\n'.join(lines) + '\n')

    def header(self, header):
        page = self.links.pages[header.name]
        file = header.name + '.h' if header.name.startswith('tapegrad') else 'tapegrad/%s.h' % header.name
        out = [heading('%s.h' % header.name), markup.inline(capital(header.title) + '.', self.links, file), '',
               '.. code-block:: c', '', '   #include <%s>' % file, '']
        out.append(markup.to_rst(header.comment, self.links, file, heads=True))
        sections, names = [], set()
        for section in header.sections:
            if not section.title:
                self.items(header, section.items, out)
            elif not self.is_split(header):
                out += ['', heading(capital(section.title), '-')]
                self.items(header, section.items, out)
            else:
                name = slug(section.title)
                while name in names or name == 'index':
                    name += '_2'
                names.add(name)
                lines = [heading(capital(section.title)), 'In :doc:`%s.h <index>`.' % header.name, '']
                self.items(header, section.items, lines)
                self.write('reference/%s/%s' % (header.name, name), lines)
                entries = [i for i in section.items if not isinstance(i, headers.Text)]
                sections.append((name, capital(section.title), [n for e in entries if e.kind == 'function' for n in e.names]))
        if sections:
            out += ['', heading('Sections', '-'), '.. toctree::', '   :hidden:', ''] + ['   ' + s[0] for s in sections] + ['']
            for name, title, functions in sections:
                listed = ', '.join(':c:func:`%s`' % f for f in functions) or 'types'
                out += [':doc:`%s <%s>`' % (markup.escape(title), name), '   ' + listed, '']
        self.write(page, out)

    def all(self):
        for header in self.headers:
            self.header(header)
        self.problems += self.links.unknown
        listed = {}
        for library in ('tapegrad', 'tapegrad_text', 'tapegrad_tools'):
            text = open(os.path.join(self.tree, 'include', library + '.h'), encoding='utf-8').read()
            listed[library] = re.findall(r'#include <tapegrad/(\w+)\.h>', text)
        others = [h.name for h in self.headers if h.name not in sum(listed.values(), [])]
        out = [heading('Reference'), 'Each header is a chapter. :doc:`base.h </%s>` (errors, configs) and '
               ':doc:`tensor.h </%s>` (ownership, shapes) have the conventions of all others, so read these two first.'
               % (self.links.pages['base'], self.links.pages['tensor']), '']
        captions = ('The library: tapegrad', 'Texts: tapegrad_text', 'Tools: tapegrad_tools',
                    'Several processes, and libraries on top')
        for caption, names in zip(captions, [*listed.values(), others]):
            out += ['.. toctree::', '   :caption: %s' % caption, '   :maxdepth: 1', '']
            out += ['   ' + self.links.pages[n][len('reference/'):] for n in names] + ['']
        self.write('reference/index', out)

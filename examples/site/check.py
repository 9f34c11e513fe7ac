"""check: what the built pages must have: each exported function and each field with an entry, links that lead to a page and
to a place in it, and a search that finds what a newcomer looks for."""
import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse

# The search must find this place from each of these words.
SEARCHES = {'EmbeddingBag': 'c.tg_embedding_bag', 'scatter': 'c.tg_embedding', 'lookup': 'c.tg_embedding',
            'embeddingbag': 'c.tg_embedding', 'gradcheck': 'c.tg_gradcheck', 'flush': 'c.tg_optim_flush'}


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.targets = set(), []
        self.feed(open(path, encoding='utf-8').read())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == 'id':
                self.ids.add(value)
            elif name in ('href', 'src') and value:
                self.targets.append(value)


def pages(out):
    found = {}
    for folder, _, names in os.walk(out):
        if os.path.basename(folder) != '_static':
            for name in names:
                if name.endswith('.html'):
                    path = os.path.join(folder, name)
                    found[os.path.relpath(path, out)] = Page(path)
    return found


def broken_links(out, found):
    count, broken = 0, []
    for name, page in found.items():
        for target in page.targets:
            parts = urllib.parse.urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            path = os.path.normpath(os.path.join(os.path.dirname(name), urllib.parse.unquote(parts.path))) if parts.path else name
            if not os.path.exists(os.path.join(out, path)):
                broken.append('%s: no page %s' % (name, target))
            elif path in found and parts.fragment and urllib.parse.unquote(parts.fragment) not in found[path].ids:
                broken.append('%s: no place %s' % (name, target))
    return count, broken


def exported(tree):
    for name in ('tapegrad', 'tapegrad_text', 'tapegrad_tools', 'tapegrad_mpi'):
        yield from re.findall(r'\btg_\w+', open(os.path.join(tree, 'lib', name + '.symbols')).read())


def compiled(tree, members):
    """Lets the compiler confirm each member of a struct: that it exists under this name."""
    lines = ['#include <tapegrad.h>', '#include <tapegrad_text.h>', '#include <tapegrad_tools.h>', '#include <tapegrad/extend.h>']
    lines += ['#define M(s, m) sizeof(((struct s *)0)->m),', 'size_t members[] = {']
    lines += ['M(%s)' % m.replace('.', ', ') for m in members if not m.startswith('tg_mpi')] + ['0};']
    with tempfile.NamedTemporaryFile('w', suffix='.c') as file:
        file.write('\n'.join(re.sub(r'M\((tg_\w+), (TG_\w+)\)', r'(size_t)\2,', l) for l in lines) + '\n')
        file.flush()
        return subprocess.run(['cc', '-std=c11', '-fsyntax-only', '-I' + os.path.join(tree, 'include'), file.name],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Search:
    """Sphinx's index, as the script of the search page reads it."""

    def __init__(self, out):
        text = open(os.path.join(out, 'searchindex.js'), encoding='utf-8').read()
        self.index = json.loads(quoted(re.match(r'Search\.setIndex\((.*)\)\s*$', text, re.S).group(1)))

    def documents(self, word):
        """The pages with a word or with an entry whose name has it, or, if no page has it, with longer ones that contain it: those that the search lists.
        The words of SEARCHES are their own stems."""
        word, found = word.lower(), set()
        for terms in (self.index['terms'], self.index['titleterms']):
            for term, documents in terms.items():
                if word == term or word in term and word not in terms:
                    found.update(documents if isinstance(documents, list) else [documents])
        for prefix, objects in self.index['objects'].items():
            for entry in objects if isinstance(objects, list) else ([*o, name] for name, o in objects.items()):
                if word in (prefix + '.' + entry[4]).lower():
                    found.add(entry[0])
        return {self.index['docnames'][d] for d in found}


def quoted(script):
    """A script's object as JSON: its keys get quotation marks. Texts stay as they are."""
    pieces = re.split(r'("(?:\\.|[^"\\])*")', script)
    return ''.join(p if i % 2 else re.sub(r'([{,])([A-Za-z_$0-9]\w*):', r'\1"\2":', p) for i, p in enumerate(pieces))


def check(out, tree, reference):
    found, problems = pages(out), []
    count, broken = broken_links(out, found)
    problems += broken
    places = {i: name for name, page in found.items() for i in page.ids if i.startswith('c.')}
    functions = sorted(set(exported(tree)) | set(reference.functions))
    problems += ['%s has no entry' % f for f in functions if 'c.' + f not in places]
    members = [m for m in reference.members]
    problems += ['%s has no entry' % m for m in members
                 if 'c.' + m not in places and 'c.' + m.split('.')[1] not in places]
    result = compiled(tree, members)
    if result.returncode:
        problems.append(result.stdout)
    search = Search(out)
    for word, place in SEARCHES.items():
        page = places.get(place, '').replace('.html', '')
        if page not in search.documents(word):
            problems.append('the search for %s does not find %s' % (word, place))
    if problems:
        sys.exit('site: ' + '\nsite: '.join(problems[:40]))
    print('%d pages, %d links and none broken, %d functions, %d members, %d searches'
          % (len(found), count, len(functions), len(members), len(SEARCHES)))

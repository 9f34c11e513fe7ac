"""The mutants of tests/mutate: which functions are changed, and how. tests/mutate describes the rules."""
import functools
import glob
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# A loop over a formula (lib/ops/elementwise/elementwise_real.h) counts as a function that returns it.
LOOP = re.compile(r'(TG_LOOP\((\w+), )(.*)(\);.*)')

# Functions of gradients that the names do not show: they serve forward as well, or backward in another file.
SHARED = {'apply_mask', 'scatter_add', 'run_chunk', 'count_below', 'tg_frequency_scales', 'is_larger', 'tg_sort_ids', 'tg_rows_of_ids'}


# ---- which functions ----

class Function:
    def __init__(self, name, returns_number, first, last, body):
        self.name, self.returns_number = name, returns_number
        self.first, self.last, self.body = first, last, body


def functions_of(lines):
    """Functions as the formatter lays them out: '{' and '}' alone in column 0; and loops over a formula."""
    found, start = [], None
    for i, line in enumerate(lines):
        loop = LOOP.fullmatch(line)
        if loop:
            found.append(Function(loop.group(2), True, i, i + 1, loop.group(3)))
        elif line == '{':
            start = i
        elif line == '}' and start is not None:
            head = start
            while head > 0 and re.match(r' *\w', lines[head - 1]) and not lines[head - 1].rstrip().endswith(';'):
                head -= 1
            signature = ' '.join(lines[head:start])
            name = re.search(r'KERNEL\((\w+)\)\(', signature) or re.search(r'(\w+)\(', signature)
            if name:
                returns_number = bool(re.search(r'\b(real|double) \w+\(', signature))
                found.append(Function(name.group(1), returns_number, start + 1, i, '\n'.join(lines[start + 1:i])))
            start = None
    return found


def reachable(functions, roots):
    by_name = {f.name: f for f in functions}
    seen, todo = set(), list(roots)
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += [other for other in by_name if re.search(r'\b%s\b' % other, by_name[name].body)]
    return seen


def without_once(lines):
    """The lines of each pass: those below #ifdef TG_ONCE are empty."""
    left, once = [], False
    for line in lines:
        once = line == '#ifdef TG_ONCE' or once and line not in ('#else', '#endif')
        left.append('' if once else line)
    return left


def backward_functions(lines):
    functions = functions_of(lines)
    kernels = functions_of(without_once(lines))
    roots = [f.name for f in kernels if re.search('backward|gradient', f.name)]
    forward = reachable(kernels, [f.name for f in kernels if re.search('forward', f.name)])
    chosen = set(roots) | (reachable(kernels, roots) - forward)
    return [f for f in functions if f.name in chosen or f.name in SHARED]


# ---- the rules ----

def statements(lines, function):
    """(first line, last line, text) of each statement or header."""
    i = function.first
    while i < function.last:
        first = i
        while i < function.last - 1 and not re.search(r'[;{}:]\s*(/\*.*)?$|^#|^$', lines[i]):
            i += 1
        yield first, i, '\n'.join(lines[first:i + 1])
        i += 1


def depths(text):
    """Inside of how many brackets [] each character is."""
    depth, out = 0, []
    for c in text:
        depth += c == '['
        out.append(depth)
        depth -= c == ']'
    return out


def operand_end(text, at):
    """The end of the factor that begins at `at`."""
    depth = 0
    for i in range(at, len(text)):
        c = text[i]
        if c in '([':
            depth += 1
        elif c in ')]':
            depth -= 1
            if depth < 0:
                return i
        elif depth == 0 and c in ' ,;':
            return i
    return len(text)


def mutants_of_statement(text, loops, returns_number):
    """Yields (rule, mutated text). `loops`: variable -> (first, end) of the loops around."""
    formula = LOOP.fullmatch(text)
    if formula:
        for rule, mutated in mutants_of_statement('return %s;' % formula.group(3), loops, returns_number):
            yield rule, formula.group(1) + mutated[len('return '):-1] + formula.group(4)
        return
    code = re.sub(r'/\*.*?\*/', lambda m: ' ' * len(m.group()), text, flags=re.S)
    def put(a, b, new):
        return text[:a] + new + text[b:]
    loop = re.match(r'\s*for \(.*;\s*(.*?);.*\{', code, flags=re.S)
    if loop:
        bound = re.search(r'(\w+) < ([^;&]+);', code)
        if bound:
            yield 'drop', put(bound.start(2), bound.end(2), '(%s) - 1' % bound.group(2))
        return
    condition = re.match(r'\s*(\} else )?if \((.*)\) \{', code, flags=re.S)
    if condition:
        yield 'condition', put(condition.start(2), condition.end(2), '!(%s)' % condition.group(2))
        return
    if re.match(r'\s*continue;', code):
        yield 'drop', text.replace('continue;', ';', 1)
        return
    if re.match(r'\s*(KERNEL\(\w+\)|\w+)\(', code) and code.rstrip().endswith(';'):
        if not code.strip().startswith('('):
            yield 'drop', re.match(r'\s*', text).group() + ';'
    depth = depths(code)
    for m in re.finditer(r'\btrue\b|\bfalse\b', code):
        yield 'condition', put(m.start(), m.end(), 'false' if m.group() == 'true' else 'true')
    for m in re.finditer(r'(?<=[ (,])!(?=\w)', code):
        yield 'condition', put(m.start(), m.end(), '')
    declares_pointer = re.match(r'\s*(const )?[\w()]+ \*', code)
    declares_integer = re.match(r'\s*(const )?(int|int64_t|int32_t|size_t|bool|tg_\w+)\b', code)
    if declares_pointer or declares_integer or not code.rstrip().endswith(';'):
        return
    for m in re.finditer(r'(\+=|-=|\*=) ', code):
        flipped = {'+=': '-=', '-=': '+=', '*=': '/='}[m.group(1)]
        yield 'sign', put(m.start(1), m.end(1), flipped)
        yield 'drop', put(m.start(1), m.end(1), '=')
    assigned = re.search(r'[\])\w] = (.*);', code, flags=re.S)
    is_number = re.search(r'(\]|^\s*(const )?(real|double) \w+|\*\w+|dl|gradient) = ', code)
    if returns_number and re.match(r'\s*return ', code):
        assigned = is_number = re.search(r'return (.*);', code, flags=re.S)
    if assigned and is_number and ', ' not in re.sub(r'\(.*\)', '', assigned.group(1)):
        value = assigned.group(1)
        yield 'sign', put(assigned.start(1), assigned.end(1), '-(%s)' % value)
        if ' ? ' in value:
            cut = assigned.start(1) + value.index(' ? ')
            yield 'condition', put(assigned.start(1), cut, '!(%s)' % text[assigned.start(1):cut])
    equals = re.search(r'[-+*]?= |return ', code)
    start = equals.end() if equals else len(code)
    for m in re.finditer(r' ([-+*/]) ', code):
        if m.start() < start or depth[m.start()] > 0:
            continue
        if m.group(1) in '+-':
            yield 'sign', put(m.start(1), m.end(1), '-' if m.group(1) == '+' else '+')
        else:
            yield 'drop', put(m.start(), operand_end(code, m.end()), '')
    for m in re.finditer(r'\[([^\[\]]*)\]', code):
        if m.start() < start:
            continue
        for variable, (first, end) in loops.items():
            if re.search(r'\b%s\b' % variable, m.group(1)):
                other = '((%s) + (%s) - 1 - %s)' % (first, end, variable)
                yield 'index', put(m.start(1), m.end(1), re.sub(r'\b%s\b' % variable, other, m.group(1)))


class Mutant:
    def __init__(self, file, function, line, rule, before, after, source):
        self.file, self.function, self.line, self.rule = file, function, line, rule
        self.before, self.after, self.source = before, after, source

    def key(self):
        return self.file, self.function, self.before, self.after


def squeeze(text):
    return ' '.join(re.sub(r'/\*.*?\*/', '', text, flags=re.S).split())


def read_lines(file, root=ROOT):
    with open(os.path.join(root, file), encoding='utf-8') as source:
        return source.read().split('\n')


@functools.cache
def users_of_headers():
    """The number of files that include each header of ops."""
    users = {}
    for path in glob.glob(os.path.join(ROOT, 'lib/**/*.[ch]'), recursive=True):
        for header in set(re.findall(r'^#include "(ops/[\w/]+\.h)"', '\n'.join(read_lines(path)), flags=re.M)):
            users[header] = users.get(header, 0) + 1
    return users


def lines_of(file):
    """The lines of a file. A header that only this file includes stands instead of its #include."""
    lines = read_lines(file)
    for i in reversed(range(len(lines))):
        header = re.match(r'#include "(ops/[\w/]+\.h)"', lines[i])
        if header and users_of_headers()[header.group(1)] == 1:
            lines[i:i + 1] = read_lines('lib/' + header.group(1))
    return lines


def mutants_of_file(file):
    lines = lines_of(file)
    for function in backward_functions(lines):
        loops = []  # (indentation, variable, first, end)
        for first, last, text in statements(lines, function):
            indentation = len(text) - len(text.lstrip())
            loops = [entry for entry in loops if entry[0] < indentation]
            around = {variable: (begin, end) for _, variable, begin, end in loops}
            for rule, mutated in mutants_of_statement(text, around, function.returns_number):
                source = '\n'.join(lines[:first] + [mutated] + lines[last + 1:])
                yield Mutant(file, function.name, first + 1, rule, squeeze(text), squeeze(mutated), source)
            header = re.match(r'\s*for \(int64_t (\w+) = (\w+); \1 < ([^;&]+); \1\+\+\) \{', text)
            if header:
                loops.append((indentation,) + header.groups())

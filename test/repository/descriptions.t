#!/usr/bin/env python3
"""A failing line of a test says what is wrong: descriptions in test/pgtap and test/tap have at least three words. Those
that begin with a variable say it in the variable. And no two tests that run beside each other have one name."""
import pathlib
import re

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
ASSERTION = re.compile(
    r'^[ \t]*(?:select\s+)?(?:is|ok|isnt|cmp_ok|like|unlike|is_deeply|throws_ok|throws_like|lives_ok|results_eq|bag_eq'
    r'|set_eq|is_empty|isnt_empty|performs_ok|hasnt_column|has_column)\(',
    re.M,
)
LITERAL = re.compile(r"""(['"])((?:(?!\1)[^\\]|\\.)*)\1$""", re.S)


def end_of_call(text, start, is_sql):
    """Where the parenthesis that was opened before `start` is closed."""
    depth, i = 1, start
    while i < len(text):
        if is_sql and text.startswith('$$', i):
            i = text.find('$$', i + 2) + 2
            if i == 1:
                break
            continue
        char = text[i]
        if char in '\'"':
            i += 1
            while i < len(text) and text[i] != char:
                i += 2 if text[i] == '\\' and not is_sql else 1
        elif char in '([{':
            depth += 1
        elif char in ')]}':
            depth -= 1
            if depth == 0:
                return i
        i += 1
    return len(text)


def terse(text, is_sql):
    """The descriptions of fewer than three words, with their lines."""
    for call in ASSERTION.finditer(text):
        arguments = text[call.end() : end_of_call(text, call.end(), is_sql)].rstrip()
        literal = LITERAL.search(arguments)
        if not literal or not arguments[: literal.start()].rstrip().endswith(','):
            continue
        words = literal[2].split()
        if len(words) < 3 and not re.search(r'[$@]\w', literal[2]):
            yield text.count('\n', 0, call.start()) + 1, literal[2]


found, count = [], 0
for path in sorted((TOP / 'test/pgtap').glob('*.sql')) + sorted((TOP / 'test/tap').rglob('*.pl')):
    text = path.read_text()
    count += len(ASSERTION.findall(text))
    found += [f'{path.relative_to(TOP)}:{line}: "{words}"' for line, words in terse(text, path.suffix == '.sql')]
examples = [
    ("select is(state(:'f'), 'SUCCESS', 'and ready');", True),
    ("select throws_ok($$select f('a', 'b')$$, '22023', null, 'nor that');", True),
    ("is(ask('GET', '/readyz')->{status}, 200, 'and ready');", False),
]
# those of the shared server have a database by their name
names = [path.stem for folder in ('pgtap', 'hostile') for path in (TOP / 'test' / folder).glob('*.*')]
twice = sorted({name for name in names if names.count(name) > 1})
checks = [
    ('no two tests of the shared server have one name', twice),
    ('assertions are found', [] if count > 3000 else [f'only {count}']),
    ('every description has at least three words', found),
    ('a terse one is found in SQL and in Perl', [text for text, is_sql in examples if not list(terse(text, is_sql))]),
]
print(f'1..{len(checks)}')
for number, (what, lines) in enumerate(checks, 1):
    print(('not ok' if lines else 'ok') + f' {number} - {what}')
    for line in lines:
        print('# ' + line)

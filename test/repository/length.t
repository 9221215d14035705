#!/usr/bin/env python3
"""No source file is longer than a reader keeps in mind: 400 lines. What is longer is split by concern."""
import pathlib
import re
import subprocess

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
LIMIT = 400
SUFFIXES = {'.awk', '.c', '.cpp', '.css', '.def', '.h', '.hpp', '.mk', '.mmd', '.pl', '.pm', '.psql', '.py', '.sh'}
SUFFIXES |= {'.spec', '.sql', '.t', '.ts', '.tsx', ''}
# Files that are longer, and why.
LONGER = {}


def too_long(lengths, longer):
    """What is longer than it may be, and what is in the list without need."""
    found = [
        f'{name} has {lines} lines' for name, lines in sorted(lengths.items()) if lines > LIMIT and name not in longer
    ]
    return found + [
        f'{name} need not be in the list' for name in sorted(longer) if lengths.get(name, 0) <= LIMIT
    ]


names = subprocess.run(['git', 'ls-files'], cwd=TOP, capture_output=True, text=True, check=True).stdout.splitlines()
lengths = {
    name: len((TOP / name).read_text(errors='replace').splitlines())
    for name in names
    if pathlib.Path(name).suffix in SUFFIXES and (TOP / name).is_file()
}


def code_lines(path):
    """The lines of a file in Python or TypeScript without those that are blank, comments or docstrings."""
    text = path.read_text()
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.S) if path.suffix == '.ts' else re.sub(
        r'^\s*"""(?:[^"]|"(?!""))*"""\n', '', text, flags=re.M)
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith(('#', '//')))


CLIENTS = {'client/python/pawl': 800, 'client/typescript/src': 800}
CLIENT_LINES = {folder: sum(code_lines(path) for path in (TOP / folder).iterdir() if path.suffix in ('.py', '.ts'))
                for folder in CLIENTS}
checks = [
    ('there are sources', [] if len(lengths) > 700 else [f'only {len(lengths)}']),
    (f'no source file has more than {LIMIT} lines', too_long(lengths, LONGER)),
    ('the clients stay thin', [f'{folder}: {lines} lines of code' for folder, lines in CLIENT_LINES.items()
                               if not 500 < lines <= CLIENTS[folder]]),
    ('a longer file is found', [] if too_long({'a.sql': LIMIT + 1}, {}) else ['not found']),
    ('an exception without need is found', [] if too_long({'a.sql': LIMIT}, {'a.sql': 'why'}) else ['not found']),
]
print(f'1..{len(checks)}')
for number, (what, found) in enumerate(checks, 1):
    print(('not ok' if found else 'ok') + f' {number} - {what}')
    for line in found:
        print('# ' + line)

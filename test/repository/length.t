#!/usr/bin/env python3
"""No source file is longer than a reader keeps in mind: 400 lines. What is longer is split by concern."""
import pathlib
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
checks = [
    ('there are sources', [] if len(lengths) > 700 else [f'only {len(lengths)}']),
    (f'no source file has more than {LIMIT} lines', too_long(lengths, LONGER)),
    ('a longer file is found', [] if too_long({'a.sql': LIMIT + 1}, {}) else ['not found']),
    ('an exception without need is found', [] if too_long({'a.sql': LIMIT}, {'a.sql': 'why'}) else ['not found']),
]
print(f'1..{len(checks)}')
for number, (what, found) in enumerate(checks, 1):
    print(('not ok' if found else 'ok') + f' {number} - {what}')
    for line in found:
        print('# ' + line)

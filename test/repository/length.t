#!/usr/bin/env python3
"""No source file is longer than a reader keeps in mind: 400 lines. What is longer is split by concern."""
import pathlib
import subprocess

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
LIMIT = 400
SUFFIXES = {'.awk', '.c', '.cpp', '.css', '.def', '.h', '.hpp', '.mk', '.mmd', '.pl', '.pm', '.psql', '.py', '.sh'}
SUFFIXES |= {'.spec', '.sql', '.t', '.ts', '.tsx', ''}
# Files that are longer, with their length at most and the reason.
LONGER = {
    'bench/bulk.py': (463, 'one measurement after the other, each a function that shares the set-up'),
    'sql/pawl_bulk/sql_rows.sql': (496, 'its duties are being rewritten; to be split then'),
    'sql/pawl_dag/operate.sql': (434, 'the orchestrator is being rewritten; to be split then'),
    'sql/pawl_dag/orchestrate.sql': (463, 'the orchestrator is being rewritten; to be split then'),
    'sql/pawl_saga/work.sql': (785, 'its duties are being rewritten; to be split then'),
}


def too_long(lengths, longer):
    """What is longer than it may be, and what is in the list without need."""
    found = [
        f'{name} has {lines} lines, at most {longer.get(name, (LIMIT,))[0]}'
        for name, lines in sorted(lengths.items())
        if lines > longer.get(name, (LIMIT,))[0]
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
    ('a file that has grown is found', [] if too_long({'a.sql': 502}, {'a.sql': (501, 'why')}) else ['not found']),
    ('an exception without need is found', [] if too_long({'a.sql': 400}, {'a.sql': (500, 'why')}) else ['not found']),
]
print(f'1..{len(checks)}')
for number, (what, found) in enumerate(checks, 1):
    print(('not ok' if found else 'ok') + f' {number} - {what}')
    for line in found:
        print('# ' + line)

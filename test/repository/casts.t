#!/usr/bin/env python3
"""Values of users' types in the statements that functions run: no cast and no operator is looked up by name."""
import pathlib
import re

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
# In a format string, the name of a column of a user's table: a literal "%I" or "%2$I",
# with or without an alias before it.
COLUMN = r'(?:\b\w+\.)?%(?:\d+\$)?I'
RULES = [
    (
        'a cast of a column by name: use pawl.value_text, or pawl.value_expression',
        re.compile(COLUMN + r'(?:::|\)::)(?!timestamptz\b)'),
    ),
    ('CAST of a column: use pawl.value_text', re.compile(r'cast\s*\(\s*' + COLUMN, re.I)),
    (
        'a column compared by an operator: use pawl.same_value, pawl._above or pawl._among',
        re.compile(COLUMN + r'\s*(?:=|<>|!=|\bIN\s*\(|IS (?:NOT )?DISTINCT FROM)(?!\s*(?:null\b|\.\.\.))', re.I),
    ),
    (
        'to_jsonb of a whole row of a user\'s table: it calls casts to json',
        re.compile(r"(?:to_jsonb?|row_to_json)\(\w+\) FROM %"),
    ),
    ('_equality names an operator: use pawl.same_value', re.compile(r'pawl\._equality\(')),
]
DECLARED = 'a table that an extension has declared'
# What is no query on a user's table with the rights of a caller, and why.
ALLOWED = {
    (
        'pawl/log/logs.sql',
        "format('n.%1$I %2$s l.%1$I', k.name, pawl._equality(a.atttypid))",
    ): 'the view on a log is parsed once, for its owner',
    ('pawl/placement/arrive.sql', "format('%s.%I = %s.%I', a, c, b, c)"): DECLARED,
    ('pawl/placement/arrive.sql', 'UPDATE %1$s r SET %2$I = h.%3$I FROM %4$s n'): DECLARED,
    ('pawl/placement/arrive.sql', 'WHERE n.%3$I <> h.%3$I AND r.%2$I = n.%3$I'): DECLARED,
    ('pawl/placement/transit.sql', 'SET move = excluded.move, %1$I = excluded.%1$I'): 'a table of pawl',
    ('pawl/placement/transit.sql', "format('r.%I = $2', placed.namespace_column)"): DECLARED,
    ('pawl/enforce/functions.sql', 'CREATE FUNCTION pawl._equality('): 'the function itself',
    ('pawl/enforce/functions.sql', 'COMMENT ON FUNCTION pawl._equality('): 'the function itself',
}
HINT = re.compile(r"'update %s set|'delete from|HINT =|\bhint :=")  # a statement for a reader to run, not one that runs

failures, used = [], set()
for path in sorted((TOP / 'sql').glob('pawl*/**/*.sql')):
    name = str(path.relative_to(TOP / 'sql'))
    for number, line in enumerate(path.read_text().splitlines(), 1):
        code = line.split('-- ')[0]
        if HINT.search(code):
            continue
        for what, rule in RULES:
            if not rule.search(code):
                continue
            allowed = next((key for key in ALLOWED if key[0] == name and key[1] in code), None)
            if allowed:
                used.add(allowed)
            else:
                failures.append(f'{name}:{number}: {what}: {code.strip()[:140]}')
SOURCE = re.compile(r'"[^"]*(?:\$1::%s|%s::pg_catalog\.text|%s\.%s %s \$)[^"]*"')
for path in sorted((TOP / 'src').rglob('*.cpp')):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if SOURCE.search(line):
            failures.append(
                f'src/{path.name}:{number}: a value of a user\'s type by cast or operator: {line.strip()[:140]}'
            )

print('1..2')
print(
    ('not ok' if failures else 'ok')
    + ' 1 - no dynamic statement looks up a cast or an operator of a user\'s type by name'
)
for failure in failures:
    print('# ' + failure)
stale = set(ALLOWED) - used
print(('not ok' if stale else 'ok') + ' 2 - each exception is there')
for key in sorted(stale):
    print(f'# {key}')

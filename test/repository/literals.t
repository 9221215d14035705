#!/usr/bin/env python3
"""Literals in functions mean the same under any setting: with standard_conforming_strings off a backslash in '...' is
an escape, in E'...' it always is. And in any database: extension scripts are read in the encoding of the database."""
import pathlib

TOP = pathlib.Path(__file__).resolve().parent.parent.parent


def plain_literals_with_backslash(text):
    """The offsets of literals '...' that hold a backslash; what continues E'...' on another line is of its kind."""
    i, kind, end = 0, '', -1  # of the literal before
    while i < len(text):
        if text.startswith('--', i):
            i = text.find('\n', i)
            if i < 0:
                return
        elif text[i] == '"':
            i = text.index('"', i + 1) + 1
        elif text[i] == "'":
            before = text[:i][-2:].rjust(2)
            continues = end >= 0 and '\n' in text[end:i] and not text[end:i].strip()
            escapes = kind == 'E' if continues else before[1] in 'Ee' and not (before[0].isalnum() or before[0] == '_')
            begin, i = i, i + 1
            while text[i] != "'" or text[i + 1 : i + 2] == "'":
                i += 2 if text[i] == "'" or (escapes and text[i] == '\\') else 1
            i += 1
            kind, end = 'E' if escapes else '', i
            if not escapes and '\\' in text[begin:i]:
                yield begin
        else:
            i += 1


failures, foreign = [], []
for path in sorted((TOP / 'sql').glob('pawl*/*.sql')):
    text = path.read_text()
    if not text.isascii():
        foreign.append(f'{path.relative_to(TOP)}: {next(c for c in text if not c.isascii())}')
    for begin in plain_literals_with_backslash(text):
        failures.append(
            f"{path.relative_to(TOP)}:{text.count(chr(10), 0, begin) + 1}: write E'...': {text[begin:begin + 60]!r}"
        )
found = [
    list(plain_literals_with_backslash(t))
    for t in ("a ~ '\\d'", "a ~ E'\\\\d'", "E'\\\\d'\n  '\\\\d'", "-- '\\d'", "'it''s' || '\\'")
]

print('1..3')
print(('not ok' if failures else 'ok') + " 1 - no literal '...' holds a backslash")
for failure in failures:
    print('# ' + failure)
print(('ok' if [len(f) for f in found] == [1, 0, 0, 0, 1] else 'not ok') + ' 2 - and such a one would be found')
print(('not ok' if foreign else 'ok') + ' 3 - SQL files are ASCII')
for failure in foreign:
    print('# ' + failure)

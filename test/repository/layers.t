#!/usr/bin/env python3
"""The folders of src/ are layers: a file includes its own layer and those before it, and no file outside src/packs
names a pack."""
import pathlib
import re

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
SRC = TOP / 'src'
# A layer may include those before it. src/hooks.cpp connects all of them to the server.
LAYERS = [
    'core', 'pg', 'session', 'catalog', 'events', 'log', 'guard', 'fire', 'placement', 'work', 'observe', 'ddl', 'packs'
]
PACKS = re.compile(r'\bpawl_(?:dag|bulk|saga|api)\b|\bpacks/')


def back(layers, files):
    """The includes that point to a later layer, and those within packs that point to another pack."""
    found = []
    for name, text in sorted(files.items()):
        parts = name.split('/')
        if len(parts) == 1:
            continue
        for include in re.findall(r'^#include "([^"]+)"', text, re.M):
            target = include.split('/')
            if not (SRC / include).exists():
                continue  # PostgreSQL's
            if layers.index(target[0]) > layers.index(parts[0]):
                found.append(f'src/{name} includes {include}')
            if parts[0] == target[0] == 'packs' and parts[1] != target[1]:
                found.append(f'src/{name} includes {include}')
    return found


files = {str(p.relative_to(SRC)): p.read_text() for p in SRC.rglob('*') if p.suffix in ('.cpp', '.hpp', '.def')}
strange = sorted({name.split('/')[0] for name in files if '/' in name} - set(LAYERS))
named = [
    f'src/{name}:{number}: {line.strip()}'
    for name, text in sorted(files.items())
    if not name.startswith('packs/')
    for number, line in enumerate(text.splitlines(), 1)
    if PACKS.search(line)
]
relative = [
    f'src/{name} includes {include}'
    for name, text in sorted(files.items())
    if not name.startswith('core/')
    for include in re.findall(r'^#include "([^"/]+)"', text, re.M)
    if (SRC / name).parent.joinpath(include).exists()
]
checks = [
    ('every folder is a layer', strange),
    ('no include points to a later layer', back(LAYERS, files)),
    ('no file outside src/packs names a pack', named),
    ('files outside the core include each other by folder and name', relative),
    (
        'an include that points back is seen',
        [] if back(['work', 'log'], {'work/claim.cpp': '#include "log/entry_buffer.hpp"\n'}) else ['not seen'],
    ),
]
print(f'1..{len(checks)}')
for number, (what, found) in enumerate(checks, 1):
    print(('not ok' if found else 'ok') + f' {number} - {what}')
    for line in found:
        print('# ' + line)

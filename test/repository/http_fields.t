#!/usr/bin/env python3
"""The fields of the HTTP API's answers are on its page: those of the OpenAPI document, which the answers fit."""
import json
import pathlib
import re

root = pathlib.Path(__file__).resolve().parents[2]
document = json.loads((root / 'client/http/openapi.json').read_text())
schemas = document['components']['schemas']
page = (root / 'docs/http.md').read_text()


def name_of(schema):
    """The schema that an answer refers to, for a page that of its items; None for an answer of another kind."""
    name = schema.get('$ref', '').rsplit('/', 1)[-1]
    if name.endswith('Page'):
        return name_of(schemas[name]['properties']['items']['items'])
    return name or None


answered = set()
for operations in document['paths'].values():
    for operation in operations.values():
        for status, response in operation['responses'].items():
            name = name_of(response.get('content', {}).get('application/json', {}).get('schema', {}))
            if status != 'default' and name:
                answered.add(name)

told = {}
for name, fields in re.findall(r'^\| (\w+) \| `(?:GET|POST) [^|]*\| ([^|]*) \|$', page, re.M):
    base = re.match(r'those of (\w+), ', fields)
    # one thing is in one database, which the header names; in lists of several the item does
    told[name] = set(re.findall(r'`(\w+)`', fields)) | (
        set(schemas[base[1]]['properties']) - {'database'} if base else set())

count = 0


def check(what, wrong):
    global count
    count += 1
    print(f'ok {count} - {what}' if not wrong else f'not ok {count} - {what}')
    for one in wrong:
        print(f'# {one}')


check('the document has answers', [] if len(answered) > 40 else [f'only {len(answered)}'])
check('each schema of an answer has a row in docs/http.md', sorted(answered ^ set(told)))
check('with the fields that it has', [
    f'{name}: {", ".join(sorted(told[name] ^ set(schemas[name]["properties"])))}'
    for name in sorted(answered & set(told)) if told[name] != set(schemas[name]['properties'])])
print(f'1..{count}')

#!/usr/bin/env python3
"""What the pages name in backticks is there: files, tests, functions, tables, columns, settings and triggers, spelt as
the sources spell them."""
import pathlib
import re
import subprocess

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
# Pages of what was, and pages that are generated or were given.
PASSED = re.compile(r'^(?:CHANGELOG\.md|bench/RESULTS\.md|test/conformance/)')
# Names that are no part of the sources: examples, and what other programs call so.
OTHERS = {
    'application/json', 'bench/SOAK.md', 'metadata/customer/email', 'pawl_pawl_dag_steps_defaul_', 'section/file',
}
SOURCES = re.compile(r'^(?:sql/(?!upgrades/)|src/|client/|console/src/|extension/|scripts/|examples/|Makefile)')
# A path may be given from one of these folders on, and a source or test without its ending.
FOLDERS = ['', 'src/', 'test/', 'sql/', 'client/', 'client/include/', 'docs/', 'console/', 'examples/',
           'test/isolation/specs/', 'test/repository/']
SPECS = re.compile(r'^isolation/(?!specs|expected)')


def words(text):
    """The words in backticks of a page, without its blocks of code."""
    text = re.sub(r'(?ms)^[ \t]*(```|~~~).*?^[ \t]*\1[^\n]*$', '', text)
    return re.findall(r'`([^`\n]+)`', text)


class Tree:
    """The files of the repository, and the text of the sources."""

    def __init__(self, files, text):
        self.paths = set(files) | {re.sub(r'\.\w+$', '', name) for name in files}
        for name in files:
            self.paths.update(str(folder) for folder in pathlib.PurePosixPath(name).parents)
        self.tests = {name for name in self.paths if name.startswith('test/')}
        self.text = text

    def has_path(self, page, path):
        path = SPECS.sub('isolation/specs/', path.rstrip('/')).removeprefix('regress/').removeprefix('../')
        folder = page.rsplit('/', 1)[0] + '/' if '/' in page else ''
        if any(start + path in self.paths for start in FOLDERS + [folder, 'test/sql/']):
            return True
        return any(f'/{path}_' in name for name in self.tests)  # tap/008 names tap/008_upgrade

    def has_name(self, name):
        return name in self.text or re.search(r'\b%s\b' % re.escape(name.rsplit('.', 1)[-1]), self.text) is not None


def missing(page, text, tree):
    """What a page names and the tree does not have."""
    found = []
    for word in words(text):
        name = word.split('(')[0]
        if word in OTHERS or word.startswith('build/'):
            continue
        if re.fullmatch(r'[~!]?\w+…', name):
            if name[:-1] not in tree.text:
                found.append(f'{page}: {name}')
        elif re.fullmatch(r'[~!]\w+|pawl\w*\.\w+|_\w{2,}|pawl_\w+', name):
            if not tree.has_name(name):
                found.append(f'{page}: {name}')
        elif re.fullmatch(r'[\w.-]+(?:/[\w.-]+)+/?', word) and not re.match(r'\d', word):
            if not tree.has_path(page, word):
                found.append(f'{page}: {word}')
    return found


files = subprocess.run(['git', 'ls-files'], cwd=TOP, capture_output=True, text=True, check=True).stdout.splitlines()
files = [name for name in files if (TOP / name).is_file()]
tree = Tree(files, '\n'.join((TOP / name).read_text(errors='replace') for name in files
                             if SOURCES.search(name) and not name.endswith(('.md', '.csv', '.png', '.svg'))))
pages = [name for name in files if name.endswith('.md') and not PASSED.search(name)]
found = [line for page in pages for line in missing(page, (TOP / page).read_text(), tree)]
small = Tree(['src/log/writer.cpp', 'test/tap/008_upgrade.pl'], 'CREATE FUNCTION pawl.fire(); "~pawl_validate"')
checks = [
    ('there are pages', [] if len(pages) > 30 else [f'only {len(pages)}']),
    ('what the pages name is there', found),
    ('a name that is gone is found', [] if missing(
        'docs/a.md', '`pawl.fire(1)`, `pawl.shoot()`, `~pawl_judge`, `~pawl_validate`, `~pawl_…`, `zzzz_…`', small)
        == ['docs/a.md: pawl.shoot', 'docs/a.md: ~pawl_judge', 'docs/a.md: zzzz_…'] else ['not found']),
    ('a path that is gone is found', [] if missing(
        'docs/a.md', '`log/writer.cpp`, `log/writer`, `log/reader`, `tap/008_upgrade`, `tap/009_downgrade`', small)
        == ['docs/a.md: log/reader', 'docs/a.md: tap/009_downgrade'] else ['not found']),
    ('blocks of code are passed over', missing('docs/a.md', '```sql\nselect `pawl.shoot`\n```\n', small)),
]
print(f'1..{len(checks)}')
for number, (what, lines) in enumerate(checks, 1):
    print(('not ok' if lines else 'ok') + f' {number} - {what}')
    for line in lines:
        print('# ' + line)

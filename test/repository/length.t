#!/usr/bin/env python3
"""No source file is longer than a reader keeps in mind, and no function longer than a screen; what is longer is split
by concern. A header that one file includes is part of that file, and a short file has a reason."""
import pathlib
import re
import subprocess

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
FILE, CPP_FUNCTION, SQL_FUNCTION, SHORT = 400, 60, 80, 40
SUFFIXES = {'.awk', '.c', '.cpp', '.css', '.def', '.h', '.hpp', '.mk', '.mmd', '.pl', '.pm', '.psql', '.py', '.sh'}
SUFFIXES |= {'.spec', '.sql', '.t', '.ts', '.tsx', ''}
# Files and functions that are longer, and why.
LONGER_FILES = {'sql/pawl/privileges': 'a table: a line for each function'}
LONGER_FUNCTIONS = {
    ('client/cli/bulk_submit.cpp', 'add_bulk_submit'): 'the options of one command, a line each',
    ('client/daemon/settings.cpp', 'settings_table'): 'a table: a line for each setting',
    ('sql/pawl_bulk/record_moves.sql', 'pawl_bulk._records_rest'): 'reads transition tables, which only it sees',
    ('sql/pawl_bulk/worker_reports.sql', 'pawl_bulk.report'): 'runs for each report: a call of a function more counts',
}
# Headers that one file includes, and why they are not part of it.
APART = {
    'client/http/rejections.hpp': 'api.cpp would be too long',
    'client/worker/in_flight_leases.hpp': 'worker.cpp would be too long',
}
# Short files of SQL and C++, and why they are no part of another one.
ONE_CONCERN = 'a concern of its own, which is this small'
SHORT_FILES = {
    'sql/pawl/enforce/definer.sql': ONE_CONCERN, 'sql/pawl/enforce/requests.sql': 'log/upkeep and work/pause share it',
    'sql/pawl/events/wake.sql': ONE_CONCERN, 'sql/pawl/observe/counters.sql': ONE_CONCERN,
    'src/guard/entry.cpp': ONE_CONCERN,
    'sql/pawl/roles.sql': 'comes before all schemas', 'sql/pawl/work/pauses.sql': 'a table that claims need',
    'sql/pawl_api/grants.sql': 'comes last',
    'sql/pawl_api/timings.sql': ONE_CONCERN, 'sql/pawl_bulk/grants.sql': 'comes last',
    'sql/pawl_bulk/schema.sql': 'comes first', 'sql/pawl_dag/grants.sql': 'comes last',
    'sql/pawl_dag/schema.sql': 'comes first', 'sql/pawl_dag/step_rights.sql': ONE_CONCERN,
    'sql/pawl_saga/grants.sql': 'comes last', 'sql/pawl_saga/schema.sql': 'comes first',
    'sql/pawl_bulk/placement.sql': ONE_CONCERN, 'sql/pawl_dag/placement.sql': ONE_CONCERN,
    'sql/pawl_move/grants.sql': 'comes last',
    'sql/pawl_saga/lifecycles.sql': 'make puts the diagrams into it',
    'client/daemon/notify.cpp': ONE_CONCERN,
    'client/http/streamed.cpp': ONE_CONCERN, 'client/lib/trace.cpp': 'a public header of its own',
    'src/catalog/version.cpp': ONE_CONCERN, 'src/core/concurrency.cpp': 'compiler and linter share it',
    'src/packs/api/arguments.cpp': ONE_CONCERN, 'src/packs/bulk/validation.cpp': ONE_CONCERN,
    'src/pg/uuid_v7.cpp': ONE_CONCERN, 'src/session/rights.cpp': ONE_CONCERN,
}
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'|[{};]', re.S)
NO_FUNCTION = re.compile(r'^(?:namespace|enum|class|struct|union|extern "C")\b|=\s*$|\]\s*\([^)]*\)\s*(?:mutable\s*)?$')
SQL = re.compile(r'^CREATE (?:OR REPLACE )?(?:FUNCTION|PROCEDURE) (\S+?)\(.*?AS (\$\w*\$)\n(.*?)^\2;', re.M | re.S)


def cpp_functions(text):
    """The outermost functions of a file: (name, lines, with the signature)."""
    # of each condition of the preprocessor the first branch, so that braces are in pairs
    text = re.sub(r'(?ms)^#else.*?(?=^#endif)', lambda branch: '\n' * branch[0].count('\n'), text)
    text = re.sub(r'(?m)^[ \t]*#(?:[^\n\\]|\\.|\\\n)*', lambda line: '\n' * line[0].count('\n'), text)
    found, open_braces, head = [], [], 0
    for token in TOKEN.finditer(text):
        if token[0] == '{':
            header = re.sub(r'//[^\n]*|/\*.*?\*/', '', text[head:token.start()], flags=re.S).strip()
            inside = any(name for name, _ in open_braces)
            name = re.search(r'([\w~]+)\s*\(', header)
            is_function = name and not inside and not NO_FUNCTION.search(header)
            begins = text.count('\n', 0, token.start()) - header.count('\n')
            open_braces.append((name[1] if is_function else None, begins))
        elif token[0] == '}' and open_braces:
            name, begins = open_braces.pop()
            if name:
                found.append((name, text.count('\n', 0, token.start()) - begins + 1))
        if token[0] in '{};':
            head = token.end()
    return found


def functions(name, text):
    """The functions of a source file: (name, lines, lines that it may have)."""
    if name.endswith(('.cpp', '.hpp')) and name.startswith(('src/', 'client/')):
        return [(function, lines, CPP_FUNCTION) for function, lines in cpp_functions(text)]
    if name.endswith('.sql') and name.startswith('sql/') and '/upgrades/' not in name:
        return [(match[1], match[3].count('\n'), SQL_FUNCTION) for match in SQL.finditer(text)]
    return []


def not_listed(found, listed):
    """What is found and not in the list, and what is in the list without need."""
    return [f'{what}: {why}' for what, why in sorted(found.items()) if what not in listed] + [
        f'{what} need not be in the list' for what in sorted(listed) if what not in found
    ]


def long_functions(sources):
    return {
        (name, function): f'{lines} lines'
        for name, text in sources.items()
        for function, lines, limit in functions(name, text)
        if lines > limit
    }


def headers_of_one(sources):
    """Headers that one file includes, and that declare nothing of a source file of their own."""
    users = {}
    for name, text in sources.items():
        for header in re.findall(r'#include "([^"]+)"', text):
            users.setdefault(header.rsplit('/', 1)[-1], set()).add(name)
    return {
        name: 'one file includes it'
        for name in sources
        if name.endswith('.hpp') and '/include/' not in name and len(users.get(name.rsplit('/', 1)[-1], ())) < 2
    }


def check(what, found):
    checks.append((what, found))


names = subprocess.run(['git', 'ls-files'], cwd=TOP, capture_output=True, text=True, check=True).stdout.splitlines()
sources = {
    name: (TOP / name).read_text(errors='replace')
    for name in names
    if pathlib.Path(name).suffix in SUFFIXES and (TOP / name).is_file()
}


def code_lines(path):
    """The lines of a file in Python or TypeScript without those that are blank, comments or docstrings."""
    text = path.read_text()
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.S) if path.suffix == '.ts' else re.sub(
        r'^\s*"""(?:[^"]|"(?!""))*"""\n', '', text, flags=re.M)
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith(('#', '//')))


CLIENTS = {'client/python/pawl': 1000, 'client/typescript/src': 1000}
CLIENT_LINES = {folder: sum(code_lines(path) for path in (TOP / folder).iterdir() if path.suffix in ('.py', '.ts'))
                for folder in CLIENTS}
lengths = {name: len(text.splitlines()) for name, text in sources.items()}
code = {name: text for name, text in sources.items() if name.startswith(('src/', 'client/', 'sql/'))}
checks = []
check('there are sources', [] if len(lengths) > 700 else [f'only {len(lengths)}'])
check(f'no source file has more than {FILE} lines', not_listed(
    {name: f'{lines} lines' for name, lines in lengths.items() if lines > FILE}, LONGER_FILES))
check(f'no function has more than {CPP_FUNCTION} lines, in SQL {SQL_FUNCTION}', not_listed(
    long_functions(code), LONGER_FUNCTIONS))
check('the clients stay thin', [f'{folder}: {lines} lines of code' for folder, lines in CLIENT_LINES.items()
                                if not 500 < lines <= CLIENTS[folder]])
check('a header that one file includes is part of it', not_listed(headers_of_one(code), APART))
check(f'a file of less than {SHORT} lines has a reason', not_listed(
    {name: f'{lengths[name]} lines' for name in code
     if name.endswith(('.cpp', '.sql')) and '/upgrades/' not in name and lengths[name] < SHORT}, SHORT_FILES))
check('an exception without need is found', [] if not_listed({}, {'a.sql': 'why'}) else ['not found'])
counted = cpp_functions('namespace n {\nint f(int a) {\n    if (a) {\n        g();\n    }\n}\n}\nstruct S {};\n')
check('functions are counted with their signature', [] if counted == [('f', 5)] else [str(counted)])
counted = cpp_functions('#if X\nvoid f(int a) {\n#else\nvoid f() {\n#endif\n    "}";  // }\n}\n')
check('branches, literals and comments are none', [] if counted == [('f', 6)] else [str(counted)])
body = 'CREATE FUNCTION pawl.f() RETURNS void\nAS $f$\n' + '--\n' * (SQL_FUNCTION + 1) + '$f$;\n'
check('a long function in SQL is found', [] if long_functions({'sql/pawl/a.sql': body}) else ['not found'])
check('a header of one is found', [] if headers_of_one(
    {'src/a/a.hpp': '', 'src/a/b.cpp': '#include "a/a.hpp"\n'}) else ['not found'])
print(f'1..{len(checks)}')
for number, (what, found) in enumerate(checks, 1):
    print(('not ok' if found else 'ok') + f' {number} - {what}')
    for line in found:
        print('# ' + line)

#!/usr/bin/env python3
"""A machine lives in its diagram. Lists of its states in C++ and in the console are compared with the diagrams of
the packs: each is a property of a machine (its terminal states, those of a tag, those that an event leaves, …), or
stands below with its reason. pgtap/state_lists does the same for SQL."""
import pathlib
import re

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
# Lists that are no property of a machine: what they mean where they stand.
REVIEWED = {
    ('Pending', 'Validating'): 'an operation whose rows are not all known',
    ('complete', 'resolved_manually'): 'a task or step with the result that was wanted',
    ('blocked_by_failures', 'error'): 'a task that failed',
    ('SUSPENDED', 'SUSPENDING'): 'a flow that was suspended',
    ('RUNNING', 'SUSPENDED', 'SUSPENDING'): 'a flow whose counters are kept',
    ('FAILURE', 'PENDING', 'SUSPENDED'): 'a flow that an operator runs: again only after a failure',
    ('blocked_by_failures', 'cancelled', 'complete', 'error', 'pending', 'resolved_manually'):
        'a task without an owner',
    ('evaluating_results', 'waiting_for_dependencies', 'waiting_for_retry'): 'a task whose steps are counted down',
    ('FAILURE', 'IGNORE', 'REVERTED', 'REVERT_FAILURE', 'SUCCESS'): 'an atom that rests',
    ('PENDING', 'REVERTED'): 'an atom with nothing to revert',
    ('IGNORE', 'SUCCESS'): 'an atom after which others can run',
    ('IGNORE', 'PENDING', 'REVERTED'): 'an atom that leaves nothing behind',
    ('FAILURE', 'PENDING', 'REVERT_FAILURE', 'SUCCESS'): 'an atom that can become ready',
    ('blocked_by_failures', 'cancelled', 'complete', 'error', 'pending', 'resolved_manually'): 'a task without a watch',
    ('enqueued_as_error_for_orchestration', 'enqueued_for_orchestration'): 'a step that was reported',
    ('Cancelled', 'Completed', 'Failed', 'Pending'): 'an operation without rows that failed and go on',
}
SUFFIXES = {'.cpp', '.hpp', '.ts', '.tsx'}
MOVE = re.compile(r'Move \w+ = \{"(\w+)", "(\w+)"\}')
NAME = r'''["'](\w+)["']'''
ARRAY = re.compile(r'''[\[{]\s*["']\w+["'](?:\s*,\s*["']\w+["'])+\s*,?\s*[\]}]''')
SQL = re.compile(r"""\(\s*'\w+'(?:\s*,\s*'\w+')+\s*\)|'\{\w+(?:,\w+)+\}'""")
CHAIN = re.compile(r'([\w.]+) (===?|!==?) "\w+"(?:\s*(?:\|\||&&)\s*\1 \2 "\w+")+')


def machine(text):
    """The properties of a diagram without composite states: each a set of states by its name."""
    found = {}

    def add(name, state):
        if state != '[*]':
            found.setdefault(name, set()).add(state)

    for start, end, label in re.findall(r'^\s*(\S+) --> (\S+)(?: : (.*))?$', text, re.M):
        add('every state', start)
        add('every state', end)
        event = re.split(r'\s*[(\[/]|\s+after\b', label)[0]
        if end == '[*]':
            add('terminal', start)
            continue
        add(f'left by {event}', start)
        add(f'entered by {event}', end)
        if start != end:
            add(f'left for {end}', start)
            add(f'entered from {start}', end)
    for states, tag in re.findall(r'^\s*class (\S+) (\w+)$', text, re.M):
        for state in states.split(','):
            add(f'tag {tag}', state)
    found['not terminal'] = found['every state'] - found.get('terminal', set())
    ended = found.get('terminal', set()) | found.get('tag error', set())
    found['terminal or error'] = ended
    found['neither terminal nor error'] = found['every state'] - ended
    return found


def lists(text):
    """The lists of words in a source, as sorted tuples with the line of each."""
    for rule in (ARRAY, SQL, CHAIN):
        for match in rule.finditer(text):
            words = re.findall(r'\w+', match[0]) if rule is SQL else re.findall(NAME, match[0])
            yield text.count('\n', 0, match.start()) + 1, tuple(sorted(set(words)))


MACHINES = {
    f'{path.parent.name}.{path.stem}': machine(path.read_text()) for path in sorted((TOP / 'sql').glob('pawl_*/*.mmd'))
}


def unknown(text):
    """Lists that name states of one machine and are none of its properties."""
    for line, words in lists(text):
        of = [one for one in MACHINES.values() if one['every state'] >= set(words)]
        if len(words) > 1 and of and words not in REVIEWED and not any(set(words) in one.values() for one in of):
            yield line, words


def strange_moves(text):
    """Pairs of an event and the state that it leads to, which no machine of the packs has."""
    for event, state in MOVE.findall(text):
        if not any(state in one.get(f'entered by {event}', ()) for one in MACHINES.values()):
            yield f'{event} does not lead to {state}'


failures, moves, seen = [], [], set()
count = 0
for folder in ('client', 'console/src', 'src/packs'):
    for path in sorted((TOP / folder).rglob('*')):
        if path.suffix not in SUFFIXES or 'node_modules' in path.parts:
            continue
        text = path.read_text()
        moves += strange_moves(text)
        for _, words in lists(text):
            count += any(one['every state'] >= set(words) for one in MACHINES.values())
            seen.add(words)
        failures += [f'{path.relative_to(TOP)}:{line}: {", ".join(words)}' for line, words in unknown(text)]
checks = [
    ('the diagrams are read', [] if MACHINES['pawl_dag.task']['terminal'] == {'complete', 'error', 'cancelled',
                                                                              'resolved_manually'} else ['not so']),
    ('lists of states are found in C++ and in the console', [] if count > 10 else [f'only {count}']),
    ('each is a property of its machine, or reviewed', failures),
    ('an event and the state that it leads to, in C++, are a transition', moves),
    (
        'a pair that is none is found',
        [] if list(strange_moves('constexpr Move a = {"Start", "complete"};')) else ['not found'],
    ),
    ('every reviewed list occurs', [', '.join(words) for words in REVIEWED if words not in seen]),
    (
        'a wrong list is found in each of its forms',
        [
            text
            for text in (
                'new Set(["complete", "cancelled", "pending"])',
                'for (const char* end : {"complete", "cancelled", "pending"})',
                'state == "complete" || state == "cancelled" || state == "pending"',
                "\"t.state IN ('complete', 'cancelled', 'pending')\"",
            )
            if not list(unknown(text))
        ],
    ),
]
print(f'1..{len(checks)}')
for number, (what, found) in enumerate(checks, 1):
    print(('not ok' if found else 'ok') + f' {number} - {what}')
    for line in found:
        print('# ' + line)

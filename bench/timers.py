"""A million timers that have run down: how long each batch of pawl.fire_due takes, from the first to the last."""

import os
import statistics
from dataclasses import dataclass


from report import at_most, table
from server import Session, query
from variants import quoted

QUICK = bool(os.environ.get("BENCH_QUICK"))
ROWS = 50_000 if QUICK else 1_000_000
BATCHES = (1_000, 10_000)

DIAGRAM = """stateDiagram-v2
    [*] --> waiting
    waiting --> expired : expire after 1 hour
    expired --> [*]
"""


def make_table(name):
    """Rows that were entered one after the other, an hour and more ago."""
    query(f"create table {name} (id bigint primary key, state text not null, due timestamptz, payload text not null);"
          f"insert into {name} select g, 'waiting', now() - interval '1 day' + g * interval '1 ms', repeat('x', 100) from generate_series(1, {ROWS}) g;"
          f"select pawl.enforce('{name}', 'state', 'bench_timer', history => true, most_recent => 'derived', due => 'due')")
    query(f"vacuum {name}")
    query("checkpoint")


def fire_all(name, batch):
    """Milliseconds of each batch, every one a transaction of its own."""
    session = Session()
    session.run(f"select * from pawl.fire_due('{name}', 1)")  # loads the library and the machine
    found, left = [], ROWS - 1
    while left > 0:
        found.append(session.seconds(f"select done from pawl.fire_due('{name}', {batch})") * 1000)
        left -= batch
    waiting = session.run(f"select count(*) from {name} where state = 'waiting'")[0]
    if waiting != "0":
        raise SystemExit(f"bench: {waiting} timers of {name} were not fired")
    session.close()
    return found[:-1]  # the last one is not full


def measure():
    print(f"{ROWS:,} timers that have run down:", flush=True)
    query(f"select pawl.define('bench_timer', {quoted(DIAGRAM)})")
    found = {}
    for held in (False, True):
        for batch in BATCHES:
            name = f"timers_{batch}{'_held' if held else ''}"
            make_table(name)
            holder = Session()
            if held:
                holder.run("begin isolation level repeatable read")
                holder.run("select 1")
            found[batch, held] = fire_all(name, batch)
            holder.close()
            line = found[batch, held]
            print(f"  batches of {batch:,}{' under an old snapshot' if held else ''}: first {line[0]:.0f} ms, median {statistics.median(line):.0f}, slowest {max(line):.0f}", flush=True)
            query(f"drop table {name}, {name}_transitions_log cascade")
    return Timers(found)


@dataclass
class Timers:
    found: dict  # (batch, under an old snapshot) -> milliseconds of each batch

    def targets(self):
        return [at_most(f"{ROWS:,} due timers in batches of {batch:,}{', under an old snapshot' if held else ''}: slowest batch against the first", 3.0,
                        max(line) / line[0]) for (batch, held), line in self.found.items()]

    def section(self):
        body = []
        for (batch, held), line in self.found.items():
            tail = statistics.median(line[-max(len(line) // 10, 1):])
            body.append([f"batches of {batch:,}{', old snapshot' if held else ''}", f"{line[0]:.1f}", f"{statistics.median(line):.1f}", f"{tail:.1f}",
                         f"{sorted(line)[len(line) * 99 // 100]:.1f}", f"{max(line):.1f}", f"{batch / statistics.median(line) * 1000:,.0f}"])
        return (f"{ROWS:,} timers that have run down", table(["", "first, ms", "median", "of the last tenth", "p99", "slowest", "rows/s"], body),
                "One session, a transaction a batch, derived log; no vacuum runs meanwhile.")

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
    query(
        f"create table {name} (id bigint primary key, state text not null, due timestamptz, payload text not null);"
        f"insert into {name} select g, 'waiting', now() - interval '1 day' + g * interval '1 ms', repeat('x', 100) "
        f"from generate_series(1, {ROWS}) g;"
        f"select pawl.enforce('{name}', 'state', 'bench_timer'), pawl.enable_log('{name}', 'state'), "
        f"pawl.enable_timers('{name}', 'state', due => 'due')"
    )
    query(f"vacuum {name}")
    query("checkpoint")


@dataclass
class Batch:
    ms: float
    cpu: float


def on_cpu(pid):
    """milliseconds that a process has run so far"""
    with open(f"/proc/{pid}/schedstat") as file:
        return int(file.read().split()[0]) / 1e6


def fire_all(name, batch):
    """Milliseconds of each batch, every one a transaction of its own: of the clock, and of the backend's CPU time."""
    session = Session()
    pid = session.pid()
    session.run(f"select * from pawl.fire_due('{name}', 1)")  # loads the library and the machine
    found, left = [], ROWS - 1
    while left > 0:
        before = on_cpu(pid)
        took = session.seconds(f"select done from pawl.fire_due('{name}', {batch})") * 1000
        found.append(Batch(took, on_cpu(pid) - before))
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
            print(
                f"  batches of {batch:,}{' under an old snapshot' if held else ''}: first {line[0].ms:.0f} ms, "
                f"median {statistics.median(b.ms for b in line):.0f}, slowest {max(b.ms for b in line):.0f}",
                flush=True,
            )
            query(f"drop table {name}, {name}_transitions_log cascade")
    return Timers(found)


@dataclass
class Timers:
    found: dict  # (batch, under an old snapshot) -> Batch by batch

    def targets(self):
        rows = []
        for (batch, held), line in self.found.items():
            what = (
                f"{ROWS:,} due timers in batches of {batch:,}{', under an old snapshot' if held else ''}: slowest "
                "batch against the first"
            )
            rows.append(at_most(what, 3.0, max(b.ms for b in line) / line[0].ms))
            rows.append(at_most(what + ", CPU time", 3.0, max(b.cpu for b in line) / line[0].cpu))
        return rows

    def section(self):
        body = []
        for (batch, held), line in self.found.items():
            times = [b.ms for b in line]
            body.append(
                [
                    f"batches of {batch:,}{', old snapshot' if held else ''}",
                    f"{times[0]:.1f}",
                    f"{statistics.median(times):.1f}",
                    f"{statistics.median(times[-max(len(times) // 10, 1):]):.1f}",
                    f"{sorted(times)[len(times) * 99 // 100]:.1f}",
                    f"{max(times):.1f}",
                    f"{line[0].cpu:.1f}",
                    f"{max(b.cpu for b in line):.1f}",
                    f"{batch / statistics.median(times) * 1000:,.0f}",
                ]
            )
        return (
            f"{ROWS:,} timers that have run down",
            table(
                ["", "first, ms", "median", "of the last tenth", "p99", "slowest", "CPU, first", "CPU, most", "rows/s"],
                body,
            ),
            "One session, a transaction a batch, derived log; no vacuum runs meanwhile. CPU is what the backend itself "
            "ran, which the rest of the machine does not "
            "lengthen.",
        )

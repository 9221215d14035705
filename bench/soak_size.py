"""What size does: ten million log entries against one million, ten thousand bindings against ten, a thousand
connections that fire at once."""

import os
import statistics
from dataclasses import dataclass

import jobs
from pgbench import RUN, pgbench, script
from report import at_most, table
from server import PeakMemory, Session, query

QUICK = bool(os.environ.get("BENCH_QUICK"))
ENTRIES = (100_000, 1_000_000) if QUICK else (1_000_000, 10_000_000)
BINDINGS = (10, 1_000) if QUICK else (10, 10_000)
CONNECTIONS = 100 if QUICK else 1_000
SAMPLES = 200
WAITING = 5_000  # rows to claim, whatever the size
ROUNDS = 5


def table_of(entries):
    return f"soak_{entries}"


def make_log(entries):
    """Three entries of each row: inserted, claimed, completed; but WAITING rows wait."""
    name = table_of(entries)
    jobs.make(name, "derived")
    rows = entries // 3
    jobs.fill(name, 1, rows)
    for state, event in (("running", "start"), ("done", "complete")):
        query(f"set pawl.processor = 'w'; update {name} set state = '{state}', owner = 'w' where id > {WAITING}")
    query(f"vacuum analyze {name}; vacuum analyze {name}_transitions_log")
    return int(query(f"select count(*) from {name}_transitions_log"))


def operations(name, rows):
    return {
        "claim of 10": f"select count(*) from pawl.claim(null::{name}, processor => 'w', batch => 10)",
        "fire": f"select pawl.fire('{name}', (select id from {name} where state = 'running' limit 1), 'fail', "
        "processor => 'w')",
        "history of a row": f"select count(*) from pawl.history('{name}', {rows // 2})",
        "prune of 1,000": f"select removed from pawl.prune_log('{name}', '1 second', batch => 1000)",
    }


def measure_entries():
    """milliseconds, median, by (operation, entries)"""
    counts = {entries: make_log(entries) for entries in ENTRIES}
    samples = {}
    sessions = {entries: Session() for entries in ENTRIES}
    for number in range(SAMPLES):
        for entries, session in sessions.items():
            for what, statement in operations(table_of(entries), entries // 3).items():
                if what.startswith("prune") and number % 10:
                    continue
                samples.setdefault((what, entries), []).append(session.seconds(statement) * 1000)
    for session in sessions.values():
        session.close()
    medians = {key: statistics.median(values) for key, values in samples.items()}
    print("  " + ", ".join(f"{what} of {n:,}: {ms:.2f} ms" for (what, n), ms in medians.items()), flush=True)
    return medians, counts


def first_change(name):
    """milliseconds of the first state change of a fresh session, and kB that it then has"""
    session = Session()
    session.run("select 1")
    with PeakMemory(session.pid()) as memory:
        took = session.seconds(f"update {name} set state = 'running', owner = 'w' where id = 1") * 1000
    session.run(f"update {name} set state = 'queued', owner = null, lease = null where id = 1")
    session.close()
    return took, memory.peak * 1024


def measure_bindings():
    """(milliseconds, kB) of a fresh session's first state change, by the number of bindings"""
    query(
        "select pawl.define('soak_small', 'stateDiagram-v2\n    [*] --> queued\n    queued --> running : start\n"
        "    running --> queued : fail')"
    )
    seen, made = {}, 0
    for bindings in BINDINGS:
        while made < bindings:
            last = min(made + 100, bindings)
            query(
                "do $$ begin for n in " + f"{made + 1} .. {last}" + " loop execute format('create table soak_bound_%s ("
                "id integer primary key, state text not null, owner text, lease timestamptz)', n); "
                "execute format('insert into soak_bound_%s values (1, ''queued'')', n); "
                "perform pawl.enforce(format('soak_bound_%s', n)::regclass, 'state', 'soak_small'); end loop; end $$"
            )
            made = last
        samples = [first_change("soak_bound_1") for _ in range(2 * ROUNDS + 1)]
        seen[bindings] = tuple(statistics.median(s[n] for s in samples) for n in (0, 1))
        print(
            f"  {bindings:,} bindings: first state change {seen[bindings][0]:.1f} ms, {seen[bindings][1]:,.0f} kB",
            flush=True,
        )
    return seen


def measure_connections():
    """transactions a second of a thousand clients, by what each does"""
    jobs.make("soak_crowd", "derived")
    jobs.make_plain("soak_crowd_plain")
    for name in ("soak_crowd", "soak_crowd_plain"):
        jobs.fill(name, 1, 100 * CONNECTIONS)
    id_ = f"\\set id :client_id * 100 + random(1, 100)\n"
    texts = {
        "fires": id_
        + "select pawl.fire('soak_crowd', :id::bigint, case state when 'queued' then 'start' else 'fail' end, "
        "processor => 'w' || :client_id) from soak_crowd where id = :id;\n",
        "updates a plain table": id_
        + "update soak_crowd_plain set state = case state when 'queued' then 'running' else "
        "'queued' end where id = :id;\n",
    }
    rates = {}
    for _ in range(3):
        for what, text in texts.items():
            run = pgbench(script(f"soak_{what.split()[0]}", text), CONNECTIONS, "-t", 20)
            rates.setdefault(what, []).append(run.tps)
    medians = {what: statistics.median(values) for what, values in rates.items()}
    print(
        "  " + ", ".join(f"{CONNECTIONS:,} connections, {w}: {r:,.0f} a second" for w, r in medians.items()), flush=True
    )
    if query("select count(*) from pawl.verify('soak_crowd')") != "0":
        raise SystemExit("soak: pawl.verify found something after the crowd")
    return medians


def measure():
    print("Sizes:", flush=True)
    return Sizes(*measure_entries(), measure_bindings(), measure_connections())


@dataclass
class Sizes:
    entries: dict  # (operation, entries) -> milliseconds
    counts: dict  # wanted entries -> entries
    bindings: dict  # bindings -> (milliseconds, kB)
    crowd: dict  # what -> transactions a second

    def targets(self):
        few, many = ENTRIES
        for what in dict.fromkeys(what for what, _ in self.entries):
            ratio = self.entries[what, many] / self.entries[what, few]
            yield at_most(f"size: {what}, {many:,} log entries against {few:,}", 1.3, ratio)
        few, many = BINDINGS
        for n, what in enumerate(("time", "memory")):
            ratio = self.bindings[many][n] / self.bindings[few][n]
            yield at_most(f"size: first state change of a session, {what}, {many:,} bindings against {few}", 1.3, ratio)

    def section(self):
        body = [
            [f"{what}, {self.counts[entries]:,} log entries", f"{ms:.2f} ms"]
            for (what, entries), ms in self.entries.items()
        ]
        for bindings, (ms, kilobytes) in self.bindings.items():
            body.append(
                [f"first state change of a session, {bindings:,} bindings", f"{ms:.2f} ms, {kilobytes:,.0f} kB"]
            )
        body += [
            [f"{CONNECTIONS:,} connections at once, {what}", f"{rate:,.0f} a second"]
            for what, rate in self.crowd.items()
        ]
        return (
            "Sizes",
            table(["what", "measured"], body),
            f"Medians of {SAMPLES} (prune: {SAMPLES // 10}) on two tables in turn; of {2 * ROUNDS + 1} fresh sessions; "
            "and of 3 rounds in which each connection sends 20 transactions.",
        )

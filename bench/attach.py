"""A table of ten million rows is enforced online, while sessions write it: how long the longest of their writes waits
in each step, beside enforcing it under the lock."""

import glob
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from pgbench import RUN, script
from report import at_most, table
from server import Session, query
from variants import quoted

QUICK = bool(os.environ.get("BENCH_QUICK"))
ROWS = int(os.environ.get("BENCH_ATTACH_ROWS", 100_000 if QUICK else 10_000_000))
CLIENTS = 4
BATCH = 1000
BEFORE = 3 if QUICK else 20  # seconds of writes alone
STALL = 100  # milliseconds

DIAGRAM = """stateDiagram-v2
    [*] --> waiting
    waiting --> running : start
    running --> waiting : fail
    running --> done : finish
    done --> [*]
    class running owned
"""

# Each writer has its own rows, so that a wait is for the step and not for another writer.
WRITES = f"""
\\set row 1 + {CLIENTS} * random(0, {ROWS // CLIENTS - 1}) + :client_id
begin;
update attach set state = case state when 'waiting' then 'running' else 'waiting' end,
    owner = case state when 'waiting' then 'w' end where id = :row;
end;
"""


@dataclass
class Step:
    name: str
    began: float
    ended: float
    writes: int = 0
    longest: float = 0.0  # milliseconds
    p999: float = 0.0


def make_table():
    query(
        "create table attach (id bigint, state text not null, owner text, payload text not null) "
        "with (autovacuum_enabled = off);"
        f"insert into attach select g, 'waiting', null, repeat('x', 60) from generate_series(1, {ROWS}) g;"
        "alter table attach add primary key (id)"
    )
    query("vacuum analyze attach")
    query("checkpoint")


class Writers:
    """pgbench with a log of each transaction. It ends when its sessions are ended, so that it writes the log."""

    def __init__(self):
        for old in glob.glob(f"{RUN}/attach_log*"):
            os.unlink(old)
        path = script("attach", WRITES)
        self.process = subprocess.Popen(
            ["pgbench", "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "2", "-T", "7200", "-l", "--log-prefix",
             f"{RUN}/attach_log", "-f", path, "bench"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "PGAPPNAME": "attach_writer",
            "PGOPTIONS": "-c pawl.processor=w"},
        )  # fmt: skip

    def stop(self):
        query("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'attach_writer'")
        self.process.wait()

    def transactions(self):
        """(when it began, milliseconds), in seconds since 1970"""
        for path in glob.glob(f"{RUN}/attach_log*"):
            for line in Path(path).read_text().splitlines():
                took, second, micro = (int(line.split()[i]) for i in (2, 4, 5))
                yield second + micro / 1e6 - took / 1e6, took / 1000



def attach_online(session):
    """The steps of the documentation, one after the other, while writers run."""
    steps = []

    def step(name, work):
        print(f"  {name} ...", flush=True)
        began = time.time()
        work()
        steps.append(Step(name, began, time.time()))

    step("writes alone", lambda: time.sleep(BEFORE))
    for call in (
        "enforce('attach', 'state', 'bench_attach', validate => false)",
        "enable_log('attach')",
        "enable_queue('attach', owner => 'owner')",
        "set_claiming('attach', claim => '{start}')",
    ):
        step(call.split("(")[0], lambda: session.run(f"set lock_timeout = '1 s'; select pawl.{call}"))
    step(
        f"validate_all in batches of {BATCH:,}",
        lambda: session.run(f"call pawl.validate_all('attach', batch => {BATCH})"),
    )
    step(
        "indexes, concurrently",
        lambda: session.run("select statement from pawl.missing_indexes('attach') \\gexec\nselect 1"),
    )
    step("writes under the binding", lambda: time.sleep(BEFORE))
    return steps


def attach_locked(session):
    """The same under the lock, on the same table: a write would wait for all of it."""
    session.run("select pawl.release('attach')")
    session.run("drop table attach_transitions_log cascade")
    return session.seconds(
        "select pawl.enforce('attach', 'state', 'bench_attach'), pawl.enable_log('attach'), "
        "pawl.enable_queue('attach', owner => 'owner'), pawl.set_claiming('attach', claim => '{start}')"
    )


def assign(steps, transactions):
    """Each write counts for the steps that it overlaps."""
    waits = {step.name: [] for step in steps}
    for began, took in transactions:
        for step in steps:
            if began < step.ended and began + took / 1000 > step.began:
                waits[step.name].append(took)
    for step in steps:
        found = sorted(waits[step.name])
        step.writes = len(found)
        if found:
            step.longest = found[-1]
            step.p999 = found[len(found) * 999 // 1000]


def measure():
    print(f"{ROWS:,} rows are enforced while {CLIENTS} sessions write them:", flush=True)
    query(f"select pawl.define('bench_attach', {quoted(DIAGRAM)})")
    make_table()
    session = Session()
    session.run("set client_min_messages = warning; select pawl.definitions()")
    writers = Writers()
    time.sleep(2)
    steps = attach_online(session)
    writers.stop()
    assign(steps, writers.transactions())
    begun = session.run("select count(*) from attach_transitions_log where event = 'pawl.attach'")[0]
    problems = session.run("select count(*) from pawl.verify('attach')")[0]
    if begun != str(ROWS) or problems != "0":
        raise SystemExit(f"bench: {begun} histories were begun, verify finds {problems} problems")
    locked = attach_locked(session)
    session.close()
    for step in steps:
        print(f"  {step.name}: {step.ended - step.began:.1f} s, longest write {step.longest:.1f} ms", flush=True)
    print(f"  under the lock: {locked:.1f} s", flush=True)
    query("drop table attach, attach_transitions_log cascade")
    return Attach(steps, locked)


@dataclass
class Attach:
    steps: list
    locked: float

    def targets(self):
        longest = max(step.longest for step in self.steps[1:-1])
        return [
            at_most(
                f"{ROWS:,} rows enforced while {CLIENTS} sessions write: longest write, ms", STALL, longest, "{:.0f}"
            )
        ]

    def section(self):
        body = [
            [
                step.name,
                f"{step.ended - step.began:,.1f}",
                f"{step.writes:,}",
                f"{step.writes / max(step.ended - step.began, 0.001):,.0f}",
                f"{step.p999:.1f}",
                f"{step.longest:.1f}",
            ]
            for step in self.steps
        ]
        body.append(["all of it under the lock", f"{self.locked:,.1f}", "0", "0", "", f"{self.locked * 1000:,.0f}"])
        return (
            f"{ROWS:,} rows enforced while {CLIENTS} sessions write",
            table(["step", "seconds", "writes", "writes/s", "p99.9, ms", "longest, ms"], body),
            "Single-row updates by pgbench, each a transaction; a write counts for each step that it overlaps, and its "
            "time is the client's. Afterwards each row has exactly one beginning, and pawl.verify finds nothing.",
        )

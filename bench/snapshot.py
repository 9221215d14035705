"""A queue under steady load while one idle REPEATABLE READ transaction keeps every dead row."""

import os
import re
import statistics
import subprocess
import time
from dataclasses import dataclass

import jobs
from pgbench import script
from report import at_least, table
from server import Session, query

QUICK = bool(os.environ.get("BENCH_QUICK"))
BEFORE = 8 if QUICK else 30  # seconds of load before the snapshot is taken,
HELD = 30 if QUICK else 300  # while it is held,
HELD_BY_HAND = 15 if QUICK else 60
AFTER = 20  # and after it has been let go
LAST = 10 if QUICK else 60  # the end of the time it is held, which is compared
CLIENTS = 2
WAITING = 1_000  # rows in the queue, all the time

REFILL = "insert into {t} (id, payload) select nextval('{t}_ids'), repeat('x', 100) from generate_series(1, 10);\n"
UPKEEP = "select pawl.heartbeat('{t}', 'w0'), pawl.heartbeat('{t}', 'w1');\nselect pawl.reap('{t}');\n\\sleep 1 s\n"
LOAD = {"pawl": jobs.CLAIM + jobs.COMPLETE + REFILL, "hand": jobs.CLAIM_BY_HAND + jobs.COMPLETE_BY_HAND + REFILL}


def make_table(name, label):
    query(f"create sequence {name}_ids cache 100")
    if label == "pawl":
        jobs.make(name, "derived")
    else:
        jobs.make_plain(name)
    query(
        f"insert into {name} (id, payload) select nextval('{name}_ids'), repeat('x', 100) from generate_series(1, "
        f"{WAITING}); vacuum analyze {name}"
    )


def start(path, clients, seconds):
    return subprocess.Popen(
        [
            "pgbench",
            "-n",
            "-M",
            "prepared",
            "-c",
            str(clients),
            "-j",
            str(clients),
            "-T",
            str(seconds),
            "-P",
            "1",
            "-f",
            path,
            "bench",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def rates(process):
    """Transactions of each second."""
    errors = process.communicate()[1]
    if process.returncode != 0:
        raise SystemExit(f"bench: pgbench: {errors.strip()}")
    return [float(m[1]) for m in re.finditer(r"^progress: [0-9.]+ s, ([0-9.]+) tps", errors, re.M)]


def run_load(label, held):
    name = f"snapshot_{label}"
    make_table(name, label)
    seconds = BEFORE + held + AFTER
    load = start(script(name, LOAD[label].format(t=name, n=10)), CLIENTS, seconds)
    upkeep = start(script(f"{name}_upkeep", UPKEEP.format(t=name)), 1, seconds) if label == "pawl" else None
    time.sleep(BEFORE)
    holder = Session()
    holder.run("begin isolation level repeatable read")
    holder.run("select 1")  # takes the snapshot
    time.sleep(held)
    holder.run("commit")
    holder.close()
    found = rates(load)
    if upkeep is not None:
        rates(upkeep)
    return Timeline(found, held)


@dataclass
class Timeline:
    tps: list  # second by second
    held: int

    def before(self):
        return statistics.mean(self.tps[BEFORE // 3 : BEFORE])

    def last(self):
        return statistics.mean(self.tps[BEFORE + self.held - LAST : BEFORE + self.held])

    def after(self):
        """from the tenth second after its end"""
        return statistics.mean(self.tps[BEFORE + self.held + 10 : BEFORE + self.held + AFTER])

    def words(self):
        return (
            f"{self.before():,.0f} before, {self.last():,.0f} at the end of {self.held} s, {self.after():,.0f} ten "
            "seconds after; transactions a second"
        )


def with_autovacuum(on):
    for setting in (
        ("autovacuum = on", "autovacuum_naptime = 5") if on else ("autovacuum = off", "autovacuum_naptime = 60")
    ):
        query(f"alter system set {setting}")
    query("select pg_reload_conf()")


def measure():
    print("One old snapshot under a queue: claim 10, complete them, insert 10:", flush=True)
    with_autovacuum(True)
    found = {}
    for label, held in (("pawl", HELD), ("hand", HELD_BY_HAND)):
        found[label] = run_load(label, held)
        print(f"  {label}: {found[label].words()}", flush=True)
    with_autovacuum(False)
    return Snapshot(found)


@dataclass
class Snapshot:
    found: dict  # label -> Timeline

    def targets(self):
        ours = self.found["pawl"]
        return [
            at_least(
                f"claim 10 + complete under a snapshot held for {HELD} s: throughput in its last {LAST} s against "
                "before",
                0.5,
                ours.last() / ours.before(),
            ),
            at_least("the same, ten seconds after its end, against before", 0.9, ours.after() / ours.before()),
        ]

    def section(self):
        body = []
        for label, words in (
            ("pawl", "pawl, derived log, heartbeat and reap every second"),
            ("hand", "by hand, no log"),
        ):
            line = self.found[label]
            body.append(
                [
                    words,
                    f"{line.held}",
                    f"{line.before():,.0f}",
                    f"{line.last():,.0f}",
                    f"{line.after():,.0f}",
                    f"{line.last() / line.before():.2f}",
                    f"{line.after() / line.before():.2f}",
                ]
            )
        return (
            "One idle REPEATABLE READ transaction",
            table(
                ["queue", "held, s", "tps before", "at its end", "10 s after", "end / before", "after / before"], body
            ),
            f"{CLIENTS} clients, each claims 10 rows, completes them and inserts 10 others, so that {WAITING:,} wait "
            "all the time; autovacuum is on. At its end: the mean of the "
            f"last {LAST} seconds. The queue by hand is the same as above, under a snapshot held for a shorter time.",
        )

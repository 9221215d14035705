"""The latency of claiming one row, by how many are waiting and how many have ended. No table is ever analyzed."""

import os
import statistics
from dataclasses import dataclass

import jobs
from pgbench import RUN, pgbench, script
from report import at_most, table
from server import Session, query

QUICK = bool(os.environ.get("BENCH_QUICK"))
BIG = 100_000 if QUICK else 5_000_000
SIZES = {  # table: (claimable, finished)
    "backlog_few": (1_000, 0),
    "backlog_some": (min(BIG // 2, 100_000), 0),
    "backlog_many": (BIG, 0),
    "backlog_finished": (1_000, BIG),
}
ROUNDS = 3 if QUICK else 7
CLAIMS = 300  # a round: fewer than the smallest table holds


def make_tables():
    """The rows come before the lifecycle; those that have ended are the older ones."""
    for name, (claimable, finished) in SIZES.items():
        query(f"create table {name} ({jobs.COLUMNS}) with (autovacuum_enabled = off)")
        if finished:
            jobs.fill(name, 1, finished, "done")
        jobs.fill(name, finished + 1, claimable)
        jobs.enforce(name, "derived")
        query(f"vacuum {name}")
        print(f"  {name}: {claimable:,} claimable, {finished:,} finished", flush=True)
    known = query(
        "select string_agg(distinct tablename, ', ') from pg_stats where tablename like 'backlog%' and tablename not "
        "like '%transitions%'"
    )
    if known:
        raise SystemExit(f"bench: {known} has been analyzed")


def latencies(name, path):
    """Microseconds of each of the claims of one session; the first ones, in which it warms up, are not counted."""
    prefix = RUN / f"latency_{name}"
    pgbench(path, 1, "-t", CLAIMS, "--log", f"--log-prefix={prefix}")
    found = []
    for file in RUN.glob(f"latency_{name}.*"):
        found += [int(line.split()[2]) for line in file.read_text().splitlines()]
        file.unlink()
    return found[CLAIMS // 10 :]


def put_back(name):
    session = Session()
    taken = session.run(f"select pawl.abandon('{name}', 'w')")[0]
    if int(taken) != CLAIMS:
        raise SystemExit(f"bench: {taken} rows of {name} were claimed, not {CLAIMS}")
    session.run(
        f"update {name} set due = null, attempts = 0 where due is not null"
    )  # without the wait before the next attempt
    session.run(f"vacuum {name}")
    session.close()


def measure():
    print(f"Claims of one row, {ROUNDS} rounds of {CLAIMS} across {len(SIZES)} backlogs:", flush=True)
    make_tables()
    query("checkpoint")
    paths = {name: script(name, f"select id from pawl.claim(null::{name}, processor => 'w');") for name in SIZES}
    samples = {name: [] for name in SIZES}
    names = list(SIZES)
    for number in range(ROUNDS):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            samples[name].append(latencies(name, paths[name]))
            put_back(name)
        print(
            f"  round {number + 1} of {ROUNDS}: "
            + "  ".join(f"{n} {statistics.median(s[-1]):,.0f}" for n, s in samples.items())
            + " µs",
            flush=True,
        )
    for name in SIZES:
        query(f"drop table {name}, {name}_transitions_log cascade")
    return Backlog(samples)


@dataclass
class Backlog:
    samples: dict  # table -> latencies in microseconds, round by round

    def p50(self, name):
        return statistics.median(value for round in self.samples[name] for value in round)

    def targets(self):
        medians = [self.p50(name) for name in SIZES]
        what = ", ".join(f"{claimable:,}" for claimable, finished in SIZES.values() if not finished)
        return [
            at_most(
                f"claim of 1 with a backlog of {what}, and with {BIG:,} finished rows, without ANALYZE: slowest p50 "
                "against the fastest",
                1.5,
                max(medians) / min(medians),
            )
        ]

    def section(self):
        body = []
        for name, (claimable, finished) in SIZES.items():
            rounds = [statistics.median(values) for values in self.samples[name]]
            every = sorted(value for values in self.samples[name] for value in values)
            body.append(
                [
                    f"{claimable:,} claimable, {finished:,} finished",
                    f"{self.p50(name):,.0f}",
                    f"{min(rounds):,.0f}–{max(rounds):,.0f}",
                    f"{every[len(every) * 99 // 100]:,.0f}",
                    f"{self.p50(name) / self.p50('backlog_few'):.2f}",
                ]
            )
        return (
            "Claim of one row by the size of the table",
            table(["table", "p50 µs", "of a round", "p99 µs", "× smallest"], body),
            f"One client, pgbench -M prepared, {ROUNDS} rounds of {CLAIMS} claims across the tables; after each the "
            "rows are given up again. With a derived log. Rows were loaded "
            "before the lifecycle was attached, and the tables were vacuumed and never analyzed.",
        )

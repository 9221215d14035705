"""Bursts of work with rests between, autovacuum on: throughput, latency, disk and memory must stay as they are."""

import os
import time
from dataclasses import dataclass

import jobs
from pgbench import RUN, pgbench, script
from report import table
from server import PeakMemory, Session, query
from trend import trend

SECONDS = int(os.environ.get("SOAK_SECONDS", 300))
CLIENTS = 4
BATCH = 10
ROWS = 4_000  # of a burst
REST = 1.0  # seconds between two bursts
KEPT = "30 s"  # what ended earlier leaves the table and the log
TABLE = "soak_jobs"
LIMIT = 10  # percent that a figure may change over the run, if the change is no chance

FIGURES = {  # name: what must not happen to it
    "rows a second": "falls",
    "latency of a transaction, p99, ms": "grows",
    "table with its indexes, kB": "grows",
    "log with its indexes, kB": "grows",
    "memory of a session that works on, kB": "grows",
}


def one_burst(number, worker, path):
    jobs.fill(TABLE, number * ROWS + 1, ROWS)
    prefix = RUN / "soak_latency"
    run = pgbench(path, CLIENTS, "-t", ROWS // BATCH // CLIENTS, "--log", f"--log-prefix={prefix}", alone=False)
    took = []
    for file in RUN.glob("soak_latency.*"):
        took += [int(line.split()[2]) / 1000 for line in file.read_text().splitlines()]
        file.unlink()
    with PeakMemory(worker.pid()) as memory:
        work_on(worker, number)
    sizes = query(
        f"select pg_total_relation_size('{TABLE}') / 1024 || ' ' || "
        f"pg_total_relation_size('{TABLE}_transitions_log') / 1024"
    ).split()
    tidy()
    return [run.tps * BATCH, sorted(took)[int(len(took) * 0.99)], *map(float, sizes), memory.peak * 1024]


def work_on(worker, number):
    """A session that lives through the whole run claims and completes a few rows of its own in each burst."""
    jobs.fill(TABLE, 10**9 + number * 20, 20)
    for _ in range(20):
        ids = worker.run(f"select id from pawl.claim(null::{TABLE}, processor => 'steady', batch => 1)")
        worker.run(f"update {TABLE} set state = 'done', owner = 'steady' where id = {ids[0]}")


def tidy():
    """As a service does: what is done goes after a while, from the table and from the log."""
    query(f"delete from {TABLE} where state = 'done' and created_at < now() - interval '{KEPT}'")
    while query(f"select more from pawl.prune_log('{TABLE}', '{KEPT}')") == "t":
        pass


def measure():
    print(f"Bursts of {ROWS:,} jobs with rests of {REST:.0f} s, for {SECONDS} s:", flush=True)
    jobs.make(TABLE, "derived")
    text = (jobs.CLAIM + jobs.COMPLETE).format(t=TABLE, n=BATCH)
    path = script("soak_burst", text)
    worker = Session()
    samples = []
    end = time.time() + SECONDS
    while time.time() < end:
        samples.append(one_burst(len(samples), worker, path))
        if len(samples) % 10 == 0:
            print(f"  burst {len(samples)}: " + ", ".join(f"{value:,.0f}" for value in samples[-1]), flush=True)
        time.sleep(REST)
    worker.close()
    wrong = query(f"select count(*) from pawl.verify('{TABLE}')")
    # Sizes grow until the first rows are old enough to go.
    return Bursts(samples[len(samples) // 4 :], len(samples), int(wrong))


@dataclass
class Bursts:
    samples: list  # of each burst, a value for each of FIGURES
    bursts: int
    wrong: int  # what pawl.verify found

    def targets(self):
        for n, (name, must_not) in enumerate(FIGURES.items()):
            seen = trend([sample[n] for sample in self.samples])
            failed = seen.grows(LIMIT) if must_not == "grows" else seen.falls(LIMIT)
            wanted = f"{'grows' if must_not == 'grows' else 'falls'} by {LIMIT} % at most"
            yield [f"bursts: {name}, over the run", wanted, str(seen), "FAIL" if failed else "pass"]
        yield ["bursts: what pawl.verify finds at the end", "0", str(self.wrong), "FAIL" if self.wrong else "pass"]

    def section(self):
        body = []
        for n, name in enumerate(FIGURES):
            values = [sample[n] for sample in self.samples]
            body.append(
                [name, f"{values[0]:,.0f}", f"{values[-1]:,.0f}", f"{trend(values).mean:,.0f}", str(trend(values))]
            )
        return (
            "Bursts of work",
            table(["figure", "first", "last", "mean", "change over the run (95 %)"], body),
            f"{self.bursts} bursts of {ROWS:,} jobs in {SECONDS} s, {CLIENTS} clients that claim and complete {BATCH} "
            f"at a time, a rest of {REST:.0f} s after each, autovacuum on. Jobs that ended {KEPT} ago are deleted, and "
            "their log is pruned. The first quarter, in which the tables fill, is not in the figures.",
        )

"""Claim and complete: what owned work with a log costs beside a hand-written queue without one."""

import os
import statistics
from dataclasses import dataclass

import jobs
import sources
from pgbench import pgbench, script
from report import Beside, at_least, floor, table
from server import Session, query

QUICK = bool(os.environ.get("BENCH_QUICK"))
CLIENTS = 4
ROUNDS = 3 if QUICK else 7
# Batch size and rows a round.
LOADS = ((100, 20_000), (10, 8_000), (1, 2_000)) if QUICK else ((100, 100_000), (10, 40_000), (1, 10_000))
SETTINGS = {"off": "", "on": "-c synchronous_commit=on"}
LABEL = {
    "hand": "by hand: UPDATE ... SKIP LOCKED, DELETE; no log",
    "same": "by hand, with an index to find lost leases and one for what is due; no log",
    "appended": "by hand, of the same shape, nothing deleted and a log that is only appended to: what pawl writes, "
    "nothing enforced",
    "logged": "by hand, of the same shape, with a log and its most_recent",
    "derived": "pawl, log, most_recent derived",
    "stored": "pawl, log, most_recent stored",
    "pgmq": "pgmq: read, archive; no owner, no states, no log",
}
# Every message has a payload as large as that of a job.
FILL_PGMQ = (
    "select count(*) from pgmq.send_batch('jobs', array(select jsonb_build_object('payload', repeat('x', 100)) from "
    "generate_series(1, {rows})))"
)
PGMQ = """select coalesce(array_agg(msg_id), '{{}}')::text as ids from pgmq.read('jobs', 60, {n}) \\gset
select count(*) from pgmq.archive('jobs', :ids::bigint[]);
"""
LOGS = {"derived": "claims_derived_transitions_log", "stored": "claims_stored_transitions"}


def table_of(name):
    return f"claims_{name}"


def make_tables():
    jobs.make_plain(table_of("hand"))
    jobs.make_plain(table_of("same"))
    jobs.index_what_is_owned(table_of("same"))
    jobs.make_plain(table_of("logged"))
    jobs.index_what_is_owned(table_of("logged"))
    query(jobs.LOG.format(t=table_of("logged")))
    jobs.make_plain(table_of("appended"))
    jobs.index_what_is_owned(table_of("appended"))
    query(jobs.APPENDED_LOG.format(t=table_of("appended")))
    jobs.make(table_of("derived"), "derived")
    jobs.make(table_of("stored"), "stored")
    databases = dict.fromkeys(LABEL, "bench")
    databases["pgmq"] = sources.install("pgmq")
    if databases["pgmq"]:
        query("select pgmq.create('jobs')", databases["pgmq"])
    return {name: database for name, database in databases.items() if database}


def scripts(batch, names):
    def text(name):
        if name == "pgmq":
            return PGMQ
        if name == "logged":
            return jobs.CLAIM_LOGGED + jobs.COMPLETE_LOGGED
        if name == "appended":
            return jobs.CLAIM_APPENDED + jobs.COMPLETE_APPENDED
        return jobs.CLAIM + jobs.COMPLETE if name in LOGS else jobs.CLAIM_BY_HAND + jobs.COMPLETE_BY_HAND

    return {name: script(f"claims_{name}_{batch}", text(name).format(t=table_of(name), n=batch)) for name in names}


def refill(name, first, rows):
    """Before each run the queue holds the rows that it will take, and a few more, as no run may reach its end."""
    if name == "pgmq":
        return refill_pgmq(rows)
    waiting = int(query(f"select count(*) from {table_of(name)} where state = 'queued'"))
    jobs.fill(table_of(name), first, rows + 1_000 - waiting)
    if name == "logged":
        query(jobs.BEGIN_LOG.format(t=table_of(name), first=first, last=first + rows + 1_000 - waiting - 1))
    session = Session()
    by_hand = f"{table_of(name)}_log" if name in ("logged", "appended") else None
    for each in filter(None, (table_of(name), by_hand or LOGS.get(name))):
        session.run(f"vacuum analyze {each}")
    session.run("checkpoint")
    session.close()


def refill_pgmq(rows):
    waiting = int(query("select count(*) from pgmq.q_jobs", sources.database("pgmq")))
    query(FILL_PGMQ.format(rows=rows + 1_000 - waiting), sources.database("pgmq"))
    session = Session(sources.database("pgmq"))
    session.run("vacuum analyze")
    session.run("checkpoint")
    session.close()


def measure():
    print(f"Claim and complete, {CLIENTS} clients, {ROUNDS} rounds across the variants:", flush=True)
    databases = make_tables()
    samples = {}
    first = 1
    names = list(databases)
    for commit in SETTINGS:
        for batch, rows in LOADS if commit == "off" else LOADS[:1]:
            paths = scripts(batch, names)
            for number in range(ROUNDS):
                for name in names[number % len(names) :] + names[: number % len(names)]:
                    refill(name, first, rows)
                    first += rows + 1_000
                    run = pgbench(
                        paths[name],
                        CLIENTS,
                        "-t",
                        rows // batch // CLIENTS,
                        settings=SETTINGS[commit],
                        database=databases[name],
                    )
                    samples.setdefault((commit, batch, name), []).append(
                        (run.tps * batch, run.cpu / run.transactions / batch * 1e6)
                    )
                print(
                    f"  batch {batch}, synchronous_commit {commit}, round {number + 1} of {ROUNDS}: "
                    + "  ".join(f"{name} {samples[commit, batch, name][-1][0]:,.0f}" for name in names)
                    + " rows/s",
                    flush=True,
                )
    check_all_done()
    return Claims(samples)


def check_all_done():
    for name in LOGS:
        wrong = query(f"select count(*) from {table_of(name)} where state not in ('queued', 'done')")
        if wrong != "0":
            raise SystemExit(f"bench: {wrong} rows of {name} were not completed")


@dataclass
class Claims:
    samples: dict  # (synchronous commit, batch, variant) -> [(rows a second, CPU microseconds a row)]

    def median(self, commit, batch, name, what=0):
        return statistics.median(s[what] for s in self.samples[commit, batch, name])

    def ratio(self, commit, batch, name, against="hand"):
        """of neighbours in the same round, then the median: what the machine did meanwhile falls on both"""
        pairs = zip(self.samples[commit, batch, name], self.samples[commit, batch, against])
        return statistics.median(ours[0] / theirs[0] for ours, theirs in pairs)

    def targets(self):
        for batch, wanted in ((LOADS[0][0], 0.7), (1, 0.8)):
            yield at_least(
                f"claim + complete, batch {batch}, {CLIENTS} clients, log (derived): rows per second against a "
                "hand-written queue of the same shape, without log",
                wanted,
                self.ratio("off", batch, "derived", "same"),
            )
            yield floor(
                "the same of what pawl writes, written by hand without a check: no queue with a log does more",
                self.ratio("off", batch, "appended", "same"),
            )
        for name, against, shape in (
            ("derived", "hand", "with one index"),
            ("stored", "same", "of the same shape"),
            ("stored", "hand", "with one index"),
        ):
            yield at_least(
                f"claim + complete, batch {LOADS[0][0]}, {CLIENTS} clients, log ({name}): rows per second against a "
                f"hand-written queue {shape}, without log",
                0.5,
                self.ratio("off", LOADS[0][0], name, against),
            )
            if name == "stored":
                yield floor(
                    "the same, with a log and its most_recent, written by hand without a check",
                    self.ratio("off", LOADS[0][0], "logged", against),
                )
        for size, _ in LOADS:
            yield at_least(
                f"claim + complete, batch {size}, {CLIENTS} clients (derived): rows per second against what it writes, "
                "written by hand without a check",
                0.9,
                self.ratio("off", size, "derived", "appended"),
            )
        if ("off", LOADS[0][0], "pgmq") in self.samples:
            yield at_least(
                f"claim + complete, batch {LOADS[0][0]}, {CLIENTS} clients (derived): rows per second against pgmq's "
                "read and archive",
                1.2,
                self.ratio("off", LOADS[0][0], "derived", "pgmq"),
            )
            yield floor(
                "the same of what pawl writes, written by hand without a check",
                self.ratio("off", LOADS[0][0], "appended", "pgmq"),
            )

    def beside(self):
        keeps = {
            "same": "nothing of a job that is done; enforces nothing",
            "pgmq": "a row of the archive; no owner, no states, enforces nothing",
        }
        return [
            Beside(
                f"jobs a second, claim + complete, {f'batches of {batch}' if batch > 1 else 'one at a time'}",
                self.median("off", batch, "derived"),
                f"pgmq ({sources.revision(name)})" if name == "pgmq" else "a queue written by hand",
                self.median("off", batch, name),
                self.ratio("off", batch, "derived", name),
                keeps[name],
            )
            for batch, _ in LOADS
            for name in keeps
            if ("off", batch, name) in self.samples
        ]

    def section(self):
        body = []
        for commit, batch, name in self.samples:
            rates = [s[0] for s in self.samples[commit, batch, name]]
            body.append(
                [
                    f"{LABEL[name]}; batch {batch}, synchronous_commit {commit}",
                    f"{self.median(commit, batch, name):,.0f}",
                    f"{min(rates):,.0f}–{max(rates):,.0f}",
                    f"{self.ratio(commit, batch, name):.2f}",
                    f"{self.ratio(commit, batch, name, 'same'):.2f}",
                    f"{self.median(commit, batch, name, 1):.1f}",
                    f"{self.median(commit, batch, name, 1) / self.median(commit, batch, 'hand', 1):.2f}",
                ]
            )
        return (
            "Claim and complete",
            table(
                ["variant", "rows/s", "least–most", "× by hand", "× the same shape", "CPU µs/row", "× by hand"], body
            ),
            f"pgbench -M prepared, {CLIENTS} clients, median of {ROUNDS} rounds; a round runs every variant once, on "
            "as many rows. Two transactions a batch: the claim, and "
            "what completes it. By hand with one index, expired leases cannot be found cheaply; the same shape has the "
            "indexes that pawl's table has. By hand a finished row is deleted and nothing of it is kept, but in the "
            "line that keeps a log like pawl's stored one with statements of its own; with pawl it stays in the table, "
            "and three rows of it in the log. "
            "The ratio of rows a second is the median of the rounds' ratios. CPU is that of all server processes.",
        )

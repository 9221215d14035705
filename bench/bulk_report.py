"""How much of bulk operations is measured, and how the measurements are reported."""

import os
import statistics
from dataclasses import dataclass

from report import at_least, at_most, floor, table

QUICK = bool(os.environ.get("BENCH_QUICK"))
SIZES = (1_000, 10_000, 50_000) if QUICK else (10_000, 100_000, 1_000_000)  # the last one is the one that is timed
ROUNDS = 1 if QUICK else 3
WORKED = 10_000 if QUICK else 200_000
WORKERS = 4
BATCH = 500
RETRIED = 20_000 if QUICK else 500_000
RECORDS = 200_000 if QUICK else 10_000_000  # of one step each: half of them are validation records
LOOKS = 100 if QUICK else 500
LANES = 2
BY_HAND = "the same versions, index entries and log entries by plain SQL and COPY, nothing enforced"
SENT = "the same, with the rows claimed in order and sent to the worker as JSON, and its results read from it"
PUBLISHED = (300, 500)  # bytes a row of one step, without and with 200 bytes of row data: two records


def percentile(values, p):
    return statistics.quantiles(values, n=100, method="inclusive")[p - 1]


@dataclass
class Bulk:
    rounds: list  # of bulk.measure_sql
    workers: list  # of bulk.measure_workers
    retry: float  # seconds
    meanwhile: dict  # what -> milliseconds
    records: int
    looks: list  # milliseconds
    sizes: dict  # (rows, kept) -> [bytes a row in tables, in indexes]

    def median(self, of):
        return statistics.median(of(r) for r in self.rounds)

    def targets(self):
        rows = SIZES[-1]
        yield at_least(
            f"bulk: rows a second, ingest and validation of {rows:,} rows of CSV, against COPY and one UPDATE",
            0.5,
            self.median(lambda r: r[0] / (r[1] + r[2])),
        )
        yield at_least(
            f"bulk: rows a second, one SQL step over {rows:,} rows, with log, {LANES} sessions",
            150_000,
            self.median(lambda r: rows / r[3]),
            "{:,.0f}",
        )
        yield floor(BY_HAND, self.median(lambda r: rows / r[5]), "{:,.0f}")
        yield at_least(
            f"bulk: rows a second, one step by {WORKERS} workers in batches of {BATCH}",
            60_000,
            statistics.median(w[0] for w in self.workers),
            "{:,.0f}",
        )
        yield floor(BY_HAND, statistics.median(w[2] for w in self.workers), "{:,.0f}")
        yield floor(SENT, statistics.median(w[3] for w in self.workers), "{:,.0f}", "by hand")
        yield at_most(f"bulk: retry of {RETRIED:,} rows in one call, seconds", 30, self.retry, "{:.1f}")
        yield at_most(
            "bulk: signals and status queries meanwhile, ms, the slowest",
            50,
            max(max(ms) for ms in self.meanwhile.values()),
            "{:.1f}",
        )
        yield at_most(
            f"bulk: status and progress among {self.records:,} records, ms, p99", 5, percentile(self.looks, 99)
        )

    def section(self):
        rows = SIZES[-1]
        body = [
            [
                "COPY into a table of two columns, one UPDATE that validates",
                f"{self.median(lambda r: rows / r[0]):,.0f}",
                "",
            ],
            ["COPY into pawl_bulk", f"{self.median(lambda r: rows / r[1]):,.0f}", ""],
            [f"validation by a SQL function, {LANES} sessions", f"{self.median(lambda r: rows / r[2]):,.0f}", ""],
            [
                f"one step by a SQL function, {LANES} sessions",
                f"{self.median(lambda r: rows / r[3]):,.0f}",
                f"{self.median(lambda r: r[4] / rows * 1e6):.0f}",
            ],
            [
                f"one step by {WORKERS} workers, batches of {BATCH}",
                f"{statistics.median(w[0] for w in self.workers):,.0f}",
                f"{statistics.median(w[1] for w in self.workers):.0f}",
            ],
            [f"the same by hand, {LANES} sessions", f"{self.median(lambda r: rows / r[5]):,.0f}", ""],
            [
                f"the same by hand, {WORKERS} sessions",
                f"{statistics.median(w[2] for w in self.workers):,.0f}",
                "",
            ],
            [
                "the same by hand, with rows sent to workers and results read",
                f"{statistics.median(w[3] for w in self.workers):,.0f}",
                "",
            ],
        ]
        sizes = [
            [
                f"{n:,} rows{', 200 bytes of data kept' if kept else ''}",
                f"{tables:.0f}",
                f"{indexes:.0f}",
                f"{PUBLISHED[kept]}",
                f"{(tables + indexes) / 2:.0f}",
            ]
            for (n, kept), (tables, indexes) in self.sizes.items()
        ]
        meanwhile = [
            [name, f"{statistics.median(ms):.1f}", f"{percentile(ms, 99):.1f}", f"{max(ms):.1f}"]
            for name, ms in self.meanwhile.items()
        ]
        return (
            "Bulk operations",
            "\n\n".join(
                [
                    table(["what", "rows/s", "CPU µs/row"], body),
                    table([f"while {RETRIED:,} rows are retried", "median ms", "p99", "slowest"], meanwhile),
                    table(["bytes a row on disk", "tables", "indexes", "published", "a record"], sizes),
                ]
            ),
            f"{rows:,} rows of CSV, {ROUNDS} round(s). Every row is kept as it came, has a validation record and one "
            "record of its step with the whole log "
            "(Pending, Running, Completed). The step runs from the first valid row to the end of the operation, "
            "opening of rows and counters included. CPU is that of all "
            "server processes. By hand: the same versions of the same rows with the same indexes, and COPY of the "
            "same log entries, by as many sessions, no trigger ([bulk_floor.py](bulk_floor.py)); with the rows sent: "
            "as a worker without pawl would do it, which claims rows in order with SKIP LOCKED. Bytes are those of "
            "the input, both records and the log, after vacuum; published is the "
            "estimate of the original for two records and no "
            "log, apparently without indexes; a record is half of tables and indexes.",
        )

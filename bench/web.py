"""The HTTP API under load, and the console in front of a database that has seen a million tasks."""

import os
import statistics
import subprocess
from dataclasses import dataclass

import web_console
import web_load
from report import at_least, at_most, floor, table
from server import query
from web_daemon import DATABASE, Daemon

QUICK = bool(os.environ.get("BENCH_QUICK"))
ROUNDS = 2 if QUICK else 5
SECONDS = 2 if QUICK else 10
CROWD_SECONDS = 5 if QUICK else 60
GROWTH = 64  # MB that pawld may grow by


def make_database():
    subprocess.run(["createdb", DATABASE], check=True)
    query(
        "set client_min_messages = warning; create extension pawl_dag cascade; create extension pawl_bulk; create "
        "extension pawl_api;"
        "alter role pawl_authenticator login; grant pawl_operator to pawl_authenticator",
        DATABASE,
    )


def measure():
    print("The HTTP API of one pawld, which does its duties meanwhile:", flush=True)
    make_database()
    with Daemon() as daemon:
        reads = web_load.measure_reads(daemon, ROUNDS, SECONDS)
        reads["floor"] = web_load.measure_database(daemon, ROUNDS, SECONDS)
        crowd = web_load.measure_crowd(daemon, CROWD_SECONDS)
        files = web_load.measure_files(daemon)
        stream = web_load.measure_stream(daemon)
    web_console.fill()
    with Daemon() as daemon:
        asked = web_console.measure_questions(daemon)
        views = web_console.measure_views(daemon)
    subprocess.run(["dropdb", "--force", DATABASE], check=True)
    return Web(reads, crowd, files, stream, asked, views)


@dataclass
class Web:
    reads: dict  # of measure_reads
    crowd: dict  # of measure_crowd
    files: dict  # of measure_files
    stream: dict  # of measure_stream
    asked: dict  # (page, path) -> milliseconds the first time, and the median
    views: list  # milliseconds

    def targets(self):
        rows = [
            at_least("HTTP: a task with its steps by 50 clients, GETs a second", 10_000, self.reads["rate"], "{:,.0f}"),
            floor(
                "the same statements by pgbench, which leaves both processors to the database, a second",
                self.reads["floor"],
                "{:,.0f}",
            ),
            at_most("HTTP: the same, p99, ms", 12, self.reads["p99"], "{:.1f}"),
            at_most(
                f"HTTP: 200 clients for {self.crowd['seconds']} s, answers that are errors", 0, self.wrong(), "{:.0f}"
            ),
            at_most(
                f"HTTP: 200 clients for {self.crowd['seconds']} s, growth of pawld's memory, MB",
                8,
                self.crowd["memory_after"] - self.crowd["memory_before"],
                "{:.1f}",
            ),
        ]
        for name, words in (("up", "upload of"), ("back", "download of"), ("rows", "export of the rows of")):
            rows.append(
                at_most(
                    f"HTTP: {words} a CSV of {self.files['mb']:,.0f} MB, growth of pawld's memory, MB",
                    GROWTH,
                    self.files[name]["growth"],
                    "{:.1f}",
                )
            )
        rows.append(
            at_most(
                f"HTTP: {self.stream['listeners']} listeners at {self.stream['rate']:,.0f} transitions a second, most "
                "lag, ms",
                1_000,
                self.stream["max"] if self.stream["whole"] else float("inf"),
                "{:,.0f}",
            )
        )
        if self.views:
            rows.append(
                at_most(
                    f"console: first view on {web_console.TASKS:,} tasks and {web_console.TASKS * web_console.STEPS:,} "
                    "steps, ms, median",
                    1_000,
                    statistics.median(self.views),
                    "{:,.0f}",
                )
            )
        return rows

    def wrong(self):
        return (
            sum(int(n) for n in self.crowd["errors"].replace(",", " ").replace(";", " ").split() if n.isdigit())
            + self.crowd["duty_errors"]
        )

    def section(self):
        runs, crowd, files, stream = self.reads["runs"], self.crowd, self.files, self.stream
        body = [
            [
                "GET of a task, 50 clients, a second",
                f"{self.reads['rate']:,.0f}",
                f"{min(r['rate'] for r in runs):,.0f}–{max(r['rate'] for r in runs):,.0f}",
            ],
            [
                "– p50, ms",
                f"{statistics.median(r['p50'] for r in runs):.1f}",
                f"{min(r['p50'] for r in runs):.1f}–{max(r['p50'] for r in runs):.1f}",
            ],
            [
                "– p99, ms",
                f"{self.reads['p99']:.1f}",
                f"{min(r['p99'] for r in runs):.1f}–{max(r['p99'] for r in runs):.1f}",
            ],
            [
                f"the same, 200 clients for {crowd['seconds']} s, a second",
                f"{crowd['rate']:,.0f}",
                crowd["errors"] or "no errors",
            ],
            ["– p50 and p99, ms", f"{crowd['p50']:.1f}", f"{crowd['p99']:.1f}"],
            ["– pawld's memory before and after, MB", f"{crowd['memory_before']:.1f}", f"{crowd['memory_after']:.1f}"],
            [
                f"– a duty's transaction before and meanwhile ({crowd['duty_runs']:,.0f} of them), ms",
                f"{crowd['duty_quiet']:.1f}",
                f"{crowd['duty_loaded']:.1f}",
            ],
        ]
        for name, words in (("up", "upload"), ("back", "download as it came"), ("rows", "export of the rows")):
            body.append(
                [
                    f"CSV of {files['mb']:,.0f} MB, {words}: seconds, and growth in MB",
                    f"{files[name]['seconds']:.1f}",
                    f"{files[name]['growth']:.1f}",
                ]
            )
        body += [
            [
                f"{stream['listeners']} listeners, {stream['rate']:,.0f} transitions a second: lag p50 and p99, ms",
                f"{stream['p50']:,.0f}",
                f"{stream['p99']:,.0f}",
            ],
            [
                "– most lag, ms, and MB a second to all of them",
                f"{stream['max']:,.0f}",
                f"{stream['bytes'] / 2 ** 20 / stream['seconds']:,.0f}",
            ],
        ]
        body += [
            [f"{page}: GET {path}, ms; the first time", f"{median:.1f}", f"{first:.1f}"]
            for (page, path), (first, median) in self.asked.items()
        ]
        if self.views:
            body.append(
                [
                    "overview in Chromium, first view, ms",
                    f"{statistics.median(self.views):,.0f}",
                    f"{min(self.views):,.0f}–{max(self.views):,.0f}",
                ]
            )
        return (
            "The HTTP API and the console",
            table(["", "", ""], body),
            "One pawld with its settings as they are delivered, on the machine of the server and of the clients. wrk "
            f"asks for a task with five steps ({self.reads['bytes']:,} bytes), "
            f"{ROUNDS} rounds of {SECONDS} s, medians. Growth is that of pawld's own memory (RssAnon), sampled every 5 "
            "ms. Rows move ten a transaction; lag is from the clock in an "
            "event to its arrival at a listener, measured by the first and the last event of everything that is read; "
            "all listeners must have got as many bytes and one, which "
            f"counts, every event. The questions of the console are asked of {web_console.TASKS:,} tasks and "
            f"{web_console.TASKS * web_console.STEPS:,} steps (written past the "
            "triggers; without their logs). The first view is Chromium's, newly started, from the navigation until the "
            "figures of the overview are there.",
        )

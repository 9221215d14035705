"""What wake-ups cost the transactions that bring work: 16 clients, each commit waiting for the disk, while one worker
sleeps."""

import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from report import at_least, table
from server import query

QUICK = bool(os.environ.get("BENCH_QUICK"))
ROUNDS = 3 if QUICK else 9
SECONDS = 2 if QUICK else 5
CLIENTS = 16
JOBS = """stateDiagram-v2
    [*] --> pending
    pending --> running : start
    running --> pending : expire
    running --> done : finish
    done --> [*]
    running:::owned"""


def make_table(table, wake):
    query(
        f"create table {table} (id bigint generated always as identity primary key, state text not null default "
        "'pending', worker text, "
        f"lease timestamptz, token bigint); select pawl.enforce('{table}', 'state', 'wake_jobs'), "
        f"pawl.enable_queue('{table}', owner => 'worker', lease => 'lease', token => 'token'), "
        f"pawl.set_claiming('{table}', claim => array['start'], on_expiry => 'expire'), "
        f"pawl.enable_events('{table}', events => false, wake => {'true' if wake else 'false'})"
    )


def look(table):
    """The query of a worker that finds nothing: it waits again at once, and is woken as often as possible."""
    return f"select count(*) from {table} where id = 0"


def run(table, arguments, script, seconds, environment):
    """tps of the writers, and what the worker said"""
    waiter = subprocess.Popen(
        [sys.executable, Path(__file__).parent / "waiter.py", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    script.write_text(f"insert into {table} default values;\n")
    out = subprocess.run(
        ["pgbench", "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "2", "-T", str(seconds), "-f", script, "bench"],
        capture_output=True,
        text=True,
        env=environment,
    )
    said, _ = waiter.communicate()
    if out.returncode != 0 or waiter.returncode != 0:
        raise SystemExit(f"bench: wake-ups: {out.stderr.strip()}")
    tps = next(float(line.split("=")[1].split()[0]) for line in out.stdout.splitlines() if line.startswith("tps"))
    return tps, [int(n) for n in said.split()]


def measure():
    """Wake-ups off (the worker polls) and on (it sleeps, as the client library's do, or at once). Runs of a round
    follow each other, so that what else the machine does falls on all."""
    query(f"select pawl.define('wake_jobs', '{JOBS}')")
    make_table("wake_off", False)
    make_table("wake_on", True)
    environment = dict(os.environ, PGDATABASE="bench", PGOPTIONS="-c synchronous_commit=on")
    ways = {
        "off": ("wake_off", ["-", look("wake_off"), "0.1"]),
        "on": ("wake_on", ["wake_on", look("wake_on"), "0.005"]),
        "at once": ("wake_on", ["wake_on", look("wake_on")]),
    }
    tps, woken = {way: [] for way in ways}, {way: [] for way in ways}
    for number in range(ROUNDS):
        for way in list(ways)[:: 1 if number % 2 == 0 else -1]:
            name, arguments = ways[way]
            got, (looks, _, times, _) = run(
                name, arguments, Path(os.environ["PAWL_RUN"]) / "wake.pgbench", SECONDS, environment
            )
            tps[way].append(got)
            woken[way].append(times / SECONDS)
            print(
                f"  wake-ups {way}: {got:,.0f} tps; the worker looked {looks:,} times, was woken {times:,} times",
                flush=True,
            )
    return WakeUps(tps, woken)


@dataclass
class WakeUps:
    tps: dict  # way: transactions a second, round by round
    woken: dict  # way: times a second, round by round

    def ratio(self, way):
        return statistics.median(on / off for on, off in zip(self.tps[way], self.tps["off"]))

    def targets(self):
        return [at_least(f"wake-ups on, {CLIENTS} clients that commit to disk, tps against off", 0.9, self.ratio("on"))]

    def section(self):
        labels = {
            "off": "off; a worker polls every 0.1 s",
            "on": "on; a worker looks again after 5 ms, woken in vain also 10, 20 and 40 ms later, and sleeps again",
            "at once": "on; a worker that found nothing sleeps again at once",
        }
        body = [
            [
                label,
                f"{statistics.median(self.tps[way]):,.0f}",
                f"{self.ratio(way):.2f}",
                f"{statistics.median(self.woken[way]):,.0f}",
            ]
            for way, label in labels.items()
        ]
        return (
            "Wake-ups",
            table(["", "tps", "× off", "woken a second"], body),
            f"{CLIENTS} clients insert claimable rows, one a transaction, synchronous_commit on; one worker looks for "
            "work and finds none, so that it is woken as "
            "often as can be. The second line is the client library's way, and the target's; the third is the worst "
            "that a worker can do. "
            "Medians; ratios are those of runs that follow each other.",
        )

"""What wake-ups cost the transactions that bring work: 16 clients, each commit waiting for the disk, while one worker sleeps."""

import os
import statistics
import subprocess
import sys
from pathlib import Path

from server import query

CLIENTS = 16
JOBS = """stateDiagram-v2
    [*] --> pending
    pending --> running : start
    running --> pending : lapse
    running --> done : finish
    done --> [*]
    running:::owned"""


def make_table(table, wake):
    query(f"create table {table} (id bigint generated always as identity primary key, state text not null default 'pending', worker text, "
          f"lease timestamptz, token bigint); select pawl.enforce('{table}', 'state', 'bench_jobs', owner => 'worker', lease => 'lease', token => 'token', "
          f"claim => array['start'], lapse => 'lapse', wake => {'true' if wake else 'false'})")


def look(table):
    """What a worker asks that finds nothing: he goes back to sleep at once, and is woken as often as can be."""
    return f"select count(*) from {table} where id = 0"


def run(table, arguments, script, seconds, environment):
    """tps of the writers, and what the worker said"""
    sleeper = subprocess.Popen([sys.executable, Path(__file__).parent / "sleeper.py", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env=environment)
    script.write_text(f"insert into {table} default values;\n")
    out = subprocess.run(["pgbench", "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "2", "-T", str(seconds), "-f", script, "bench"],
                         capture_output=True, text=True, env=environment)
    said, _ = sleeper.communicate()
    if out.returncode != 0 or sleeper.returncode != 0:
        raise SystemExit(f"bench: wake-ups: {out.stderr.strip()}")
    tps = next(float(line.split("=")[1].split()[0]) for line in out.stdout.splitlines() if line.startswith("tps"))
    return tps, [int(n) for n in said.split()]


def measure(rounds, seconds, folder, say):
    """Median tps with wake-ups off (the worker polls) and on (it sleeps), the median of the ratios of a round's two runs, which follow each
    other so that what else the machine does falls on both, and how often the worker was woken a second."""
    query(f"select pawl.define('bench_jobs', '{JOBS}')")
    make_table("wake_off", False)
    make_table("wake_on", True)
    environment = dict(os.environ, PGDATABASE="bench", PGOPTIONS="-c synchronous_commit=on")
    ways = {"off": ("wake_off", ["-", look("wake_off"), "0.1"]), "on": ("wake_on", ["wake_on", look("wake_on")])}
    tps, woken = {"off": [], "on": []}, []
    for number in range(rounds):
        for way in ("off", "on") if number % 2 == 0 else ("on", "off"):
            table, arguments = ways[way]
            got, (looks, _, times, _) = run(table, arguments, folder / "wake.pgbench", seconds, environment)
            tps[way].append(got)
            if way == "on":
                woken.append(times / seconds)
            say(f"  wake-ups {way}: {got:,.0f} tps; the worker looked {looks:,} times, was woken {times:,} times")
    return {"off": statistics.median(tps["off"]), "on": statistics.median(tps["on"]),
            "ratio": statistics.median(on / off for on, off in zip(tps["on"], tps["off"])), "woken": statistics.median(woken)}

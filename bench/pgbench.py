"""pgbench as the parts use it: a script, some clients, and what it says at the end."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from server import server_cpu

RUN = Path(os.environ["PAWL_RUN"])


@dataclass
class Run:
    transactions: int
    tps: float
    cpu: float  # seconds of all server processes


def script(name, text):
    path = RUN / f"{name}.pgbench"
    path.write_text(text.strip() + "\n")
    return path


def number(line):
    return float(line.split("=" if "=" in line else ":")[1].split("/")[0].split("(")[0])


def pgbench(path, clients, *limit, settings="", database="bench", alone=True):
    """Runs a script with so many clients; limit is pgbench's own: -T seconds, or -t transactions of each client. CPU
    is measured only alone: when no other session is open."""
    before = server_cpu() if alone else 0.0
    run = subprocess.run(
        [
            "pgbench",
            "-n",
            "-M",
            "prepared",
            "-c",
            str(clients),
            "-j",
            str(min(clients, 2)),
            *map(str, limit),
            "-f",
            path,
            database,
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PGOPTIONS": settings},
    )
    if run.returncode != 0:
        raise SystemExit(f"bench: pgbench with {path.name}: {run.stderr.strip()}")
    lines = run.stdout.splitlines()
    done = next(number(line) for line in lines if line.startswith("number of transactions actually processed"))
    tps = next(number(line) for line in lines if line.startswith("tps"))
    return Run(int(done), tps, server_cpu() - before if alone else float("nan"))


def machine_speed():
    """answers a second to the smallest statement, by two clients: how quick the machine is just now"""
    return pgbench(script("speed", "select 1;"), 2, "-T", 2, alone=False).tps

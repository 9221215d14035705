"""Peers that run from their own source: BENCH_PEERS names a folder with checkouts of them, called pgmq, absurd and
pgflow. Each that is there gets a database with its SQL in it; one that is not is left out, and the tables say so.
Nothing of them is kept."""

import os
import subprocess
from pathlib import Path

from server import query

FOLDER = Path(os.environ.get("BENCH_PEERS") or "/nonexistent")
PGMQ = ("create schema if not exists pgmq;", "pgmq/pgmq-extension/sql/pgmq.sql")
# What a hosted service gives pgflow: its messages to browsers go nowhere here.
REALTIME = (
    "create schema realtime; "
    "create function realtime.send(jsonb, text, text, boolean) returns void language sql as '';"
)


def files(name):
    """the SQL of a peer, in the order of loading: statements, or files below the folder"""
    if name == "pgmq":
        return PGMQ
    if name == "absurd":
        return ("absurd/sql/absurd.sql",)
    schemas = sorted((FOLDER / "pgflow/pkgs/core/schemas").glob("*.sql"))
    # The first names extensions of the hosted service; the others that need these are of its watchdog alone.
    needed = (s for s in schemas[1:] if not any(word in s.name for word in ("ensure_workers", "cron")))
    return (*PGMQ, REALTIME, *(str(s.relative_to(FOLDER)) for s in needed))


def install(name):
    """the database of a peer; none when its source is not here"""
    for needed in (name, "pgmq") if name == "pgflow" else (name,):  # pgflow stands on pgmq
        if not (FOLDER / needed).is_dir():
            print(f"  without {name}: BENCH_PEERS names no folder that has {needed}", flush=True)
            return None
    for command in ("dropdb --if-exists", "createdb"):
        subprocess.run([*command.split(), database(name)], check=True, capture_output=True)
    for each in files(name):
        query(each if each.endswith(";") else (FOLDER / each).read_text(), database(name))
    return database(name)


def database(name):
    return f"peer_{name}"


def revision(name):
    """of its checkout, for the tables; empty when it is none"""
    done = subprocess.run(
        ["git", "-C", FOLDER / name, "log", "-1", "--format=%h of %cs"], capture_output=True, text=True
    )
    return done.stdout.strip()

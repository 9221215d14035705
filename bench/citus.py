#!/usr/bin/env python3
"""CPU of an UPDATE of one row, bare and guarded and logged: on one server, and on tables that Citus distributes.

    scripts/citus run bench/citus.py

The nodes share the cores of this machine, so CPU time of all processes of all servers is counted, not the time of a
clock. Each round runs all variants in turn; what is compared are their ratios in the same round, so that what else
the machine does meets both. BENCH_QUICK=1 takes fewer transactions.
"""

import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

QUICK = bool(os.environ.get("BENCH_QUICK"))
ROWS = 2_000
TRANSACTIONS = 500 if QUICK else 10_000
ROUNDS = 2 if QUICK else 9
TICK = os.sysconf("SC_CLK_TCK")
RUN = Path(os.environ["PAWL_RUN"])
SINGLE = int(os.environ["PAWL_POSTMASTER"])
NODES = [int(pid) for pid in os.environ["CITUS_POSTMASTERS"].split()]
PORT = int(os.environ["PGPORT"])
MACHINE = """select pawl.define('toggle', 'stateDiagram-v2
    [*] --> a
    a --> b : go
    b --> a : back')"""


def psql(port, sql):
    done = subprocess.run(
        ["psql", "-XAtq", "-p", str(port), "-d", "postgres", "-v", "ON_ERROR_STOP=1"],
        input=sql,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise SystemExit(f"bench: {done.stderr.strip()}\nbench: in {sql.strip()[:300]}")
    return done.stdout.strip()


def seconds_of(pid):
    """of a process and of the children it has waited for"""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(field) for field in fields[11:15]) / TICK


def cpu(postmasters):
    total = 0.0
    for postmaster in postmasters:
        total += seconds_of(postmaster)
        for pid in Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split():
            try:
                total += seconds_of(pid)
            except (FileNotFoundError, ProcessLookupError):
                pass
    return total


def table(port, name, distribute, fill, logged):
    psql(
        port,
        f"create table {name} (tenant int, id int, state text not null default 'a', primary key (tenant, id));"
        f"{distribute}; insert into {name} select {fill}, g from generate_series(1, {ROWS}) g;"
        + (f"select pawl.enforce('{name}', 'state', 'toggle'), pawl.enable_log('{name}')" if logged else ""),
    )
    psql(port, f"vacuum analyze {name}")


def tenant_on(port, name):
    """a tenant whose shard is on the node with this port"""
    return psql(
        PORT,
        f"select g from generate_series(1, 100) g join citus_shards s on s.shardid = "
        f"get_shard_id_for_distribution_column('{name}', g) where s.nodeport = {port} limit 1",
    )


def measure(port, name, tenant):
    script = RUN / f"{name}.pgbench"
    script.write_text(
        f"\\set id random(1, {ROWS})\nupdate {name} set state = case state when 'a' then 'b' else 'a' end "
        f"where tenant = {tenant} and id = :id;\n"
    )
    postmasters = [SINGLE, *NODES]
    before = cpu(postmasters)
    done = subprocess.run(
        ["pgbench", "-nM", "prepared", "-t", str(TRANSACTIONS), "-p", str(port), "-f", script, "postgres"],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise SystemExit(f"bench: {done.stderr.strip()}")
    time.sleep(0.3)  # a backend that is just ending is counted neither by itself nor by its parent
    return (cpu(postmasters) - before) / TRANSACTIONS * 1e6


def main():
    worker = int(re.search(r"port=(\d+)", os.environ["CITUS_WORKER_1"])[1])
    single = PORT - 1
    psql(single, "create extension if not exists pawl;" + MACHINE)
    psql(PORT, MACHINE)
    # a table, to ask where tenants are
    psql(PORT, "create table place (tenant int); select create_distributed_table('place', 'tenant')")
    tenant = tenant_on(worker, "place")
    distribute = "select create_distributed_table('{}', 'tenant', colocate_with => 'place')"
    psql(PORT, "set citus.enable_schema_based_sharding to on; create schema one")
    psql(PORT, "create table one.place (a int)")
    holder = psql(PORT, "select nodeport from citus_shards where table_name = 'one.place'::regclass")
    variants = {}
    for logged in (False, True):
        what = "logged" if logged else "bare"
        table(single, what, "", tenant, logged)
        table(PORT, f"spread_{what}", distribute.format(f"spread_{what}"), tenant, logged)
        table(PORT, f"one.{what}", "", tenant, logged)
        variants |= {
            ("one server", what): (single, what),
            ("through the coordinator", what): (PORT, f"spread_{what}"),
            ("through the right worker", what): (worker, f"spread_{what}"),
            ("distributed schema, through the coordinator", what): (PORT, f"one.{what}"),
            ("distributed schema, through the right worker", what): (int(holder), f"one.{what}"),
        }
    results = {variant: [] for variant in variants}
    for port, name in variants.values():  # sessions of every node have their caches
        measure(port, name, tenant)
    for _ in range(ROUNDS):
        for variant, (port, name) in variants.items():
            results[variant].append(measure(port, name, tenant))
    print(
        f"| {ROUNDS} × {TRANSACTIONS} transactions | bare, µs | guarded and logged, µs | of bare | of one server "
        "| bare, of one server guarded and logged |"
    )
    print("|---|---|---|---|---|---|")
    for how in dict.fromkeys(how for how, _ in variants):
        bare, logged = results[how, "bare"], results[how, "logged"]
        print(
            f"| {how} | {statistics.median(bare):.0f} | {statistics.median(logged):.0f} | {ratio(logged, bare)} "
            f"| {ratio(logged, results['one server', 'logged'])} | {ratio(bare, results['one server', 'logged'])} |"
        )


def ratio(these, those):
    """the median of the ratios in each round, and where it is in 95 % of cases (order statistics)"""
    ratios = sorted(a / b for a, b in zip(these, those))
    n = len(ratios)
    beside = int((n - 1.96 * n**0.5) / 2)
    return f"{statistics.median(ratios):.2f} ({ratios[max(0, beside)]:.2f}–{ratios[min(n - 1, n - 1 - beside)]:.2f})"


sys.dont_write_bytecode = True
main()

#!/usr/bin/env python3
"""Runs random sessions against a server and writes their history:

    run.py setup    --dsn DSN --seed N --log stored|derived
    run.py sessions --dsn DSN --seed N --history FILE --until FILE [--crashes SHARE] [--pause SECONDS]
    run.py finish_all   --dsn DSN --seed N --history FILE --final FILE

`sessions` goes on until the file named by --until exists. Meanwhile it ends backends at random: SHARE of the kills by
SIGKILL, which makes the server start again, the others by pg_terminate_backend. It prints the number of kills.
`finish_all` ends what was prepared, completes all jobs and writes rows and logs as they are in the end. check.py
decides whether all of this fits together.
"""
import argparse
import json
import os
import random
import signal
import threading
import time
from types import SimpleNamespace

import psycopg2

from machines import JOB, diagram, random_machine
from sessions import History, Lost, Rejected, Session

ITEMS, JOBS, SESSIONS = 20, 60, 8
# What sessions do between two kills at least, in entries of the history: a slow machine comes on, too.
WORK = 20


def connector(dsn):
    def connect():
        connection = psycopg2.connect(dsn, application_name="history", connect_timeout=5)
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("set lock_timeout = '2 s'; set statement_timeout = '20 s'; set synchronous_commit = on")
        return connection

    return connect


# A server that recovers from its last crash takes no connections for a while.
def connected(connect):
    deadline = time.monotonic() + 120
    while True:
        try:
            return connect()
        except psycopg2.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def setup(arguments):
    with connector(arguments.dsn)().cursor() as cursor:
        machine = random_machine(arguments.seed)
        cursor.execute("select pawl.define('item', %s), pawl.define('job', %s)", (diagram(machine), diagram(JOB)))
        cursor.execute(
            """
            create table items (id integer primary key, state text not null);
            create table jobs (id integer primary key, state text not null default 'ready', owner text,
            lease timestamptz,
                token bigint not null default 0);
            select pawl.enforce('items', 'state', 'item'), pawl.enable_log('items', 'state', most_recent => %s,
            hash_chain => true);
            select pawl.enforce('jobs', 'state', 'job'), pawl.enable_log('jobs', 'state', most_recent => %s),
            pawl.enable_queue('jobs', 'state', owner => 'owner', lease => 'lease', token => 'token'),
            pawl.set_claiming('jobs', 'state', claim => '{start}', on_expiry => 'expire');
            select pawl.set_context(correlation_id => 'setup');
            """,
            (arguments.log, arguments.log),
        )
        cursor.execute(
            """begin; select pawl.set_context(correlation_id => 'setup');
            insert into jobs select generate_series(0, %s); commit""",
            (JOBS - 1,),
        )


class Janitor:
    """Ends prepared transactions that were left behind, as an operator would; their locks would stop everything
    else."""

    def __init__(self, history, seed):
        self.history, self.rng = history, random.Random(f"janitor {seed}")

    def visit(self, connection, age):
        with connection.cursor() as cursor:
            cursor.execute(
                "select gid from pg_prepared_xacts where prepared < clock_timestamp() - make_interval(secs => %s)",
                (age,),
            )
            for (name,) in cursor.fetchall():
                word = self.rng.choice(("commit", "rollback"))
                asked, outcome = time.monotonic(), "lost"
                try:
                    cursor.execute(f"{word} prepared '{name}'")
                    outcome = "ok"
                except psycopg2.errors.UndefinedObject:
                    outcome = "error"  # its own session was faster
                finally:
                    self.history.add(
                        session="janitor",
                        transaction=None,
                        kind=f"{word} prepared",
                        outcome=outcome,
                        name=name,
                        asked=asked,
                        told=time.monotonic(),
                    )


class Killer(threading.Thread):
    """Ends a random backend now and then, and sees to prepared transactions that have lost their session."""

    def __init__(self, arguments, history, connect, stop):
        super().__init__(daemon=True)
        self.rng, self.connect, self.stop, self.arguments = (
            random.Random(f"killer {arguments.seed}"),
            connect,
            stop,
            arguments,
        )
        self.janitor, self.kills, self.crashes = Janitor(history, arguments.seed), 0, 0

    def run(self):
        connection, seen = None, 0
        while not self.stop.wait(self.rng.uniform(0.5, 1.5) * self.arguments.pause):
            try:
                connection = connection or self.connect()
                self.janitor.visit(connection, 1)
                if self.history.entries < seen + WORK:
                    continue
                seen = self.history.entries
                with connection.cursor() as cursor:
                    cursor.execute(
                        "select pid from pg_stat_activity where application_name = 'history' and pid <> "
                        "pg_backend_pid()"
                    )
                    pids = [pid for (pid,) in cursor.fetchall()]
                    if not pids:
                        continue
                    if self.rng.random() < self.arguments.crashes:
                        os.kill(self.rng.choice(pids), signal.SIGKILL)
                        self.crashes += 1
                    else:
                        cursor.execute("select pg_terminate_backend(%s)", (self.rng.choice(pids),))
                    self.kills += 1
            except (psycopg2.Error, ProcessLookupError):
                if connection is not None:
                    connection.close()
                connection = None


def sessions(arguments):
    history, stop, connect = History(arguments.history), threading.Event(), connector(arguments.dsn)
    plan = SimpleNamespace(items=ITEMS, machine=random_machine(arguments.seed), round=arguments.seed)
    clients = [Session(f"c{n}", arguments.seed, plan, history, connect, stop) for n in range(SESSIONS)]
    killer = Killer(arguments, history, connect, stop)
    for thread in [*clients, killer]:
        thread.start()
    parent = os.getppid()
    while not stop.is_set() and not os.path.exists(arguments.until) and os.getppid() == parent:
        stop.wait(0.05)
    stop.set()
    for thread in [*clients, killer]:
        thread.join(60)
    for client in clients:
        if client.failure is not None:
            raise client.failure
        if client.is_alive():
            raise SystemExit(f"session {client.name} hangs")
    print(f"{killer.kills} kills, {killer.crashes} of them crashes")


def finish_all(arguments):
    history, connect = History(arguments.history), connector(arguments.dsn)
    connection = connected(connect)
    Janitor(history, arguments.seed).visit(connection, 0)
    plan = SimpleNamespace(items=ITEMS, machine=random_machine(arguments.seed), round=arguments.seed)
    last = Session("finish_all", arguments.seed, plan, history, connect, threading.Event())
    last.connection = connection
    deadline = time.monotonic() + 30
    with connection.cursor() as cursor:
        while time.monotonic() < deadline:
            last.number += 1
            last.transaction = f"finish_all.{last.number}"
            try:
                last.ask("begin", "begin")
                last.reap()
                for _ in range(10):
                    last.claim(leases=(60,))
                for key in sorted(last.held):
                    last.tagged(
                        "complete",
                        "update jobs set state = 'done', token = %s where id = %s returning id, state",
                        (last.held[key], key),
                        table="jobs",
                        token=last.held[key],
                    )
                last.ask("commit", "commit")
            except Rejected:
                last.ask("rollback", "rollback")
            last.held = {}
            time.sleep(0.1)  # a lease has yet to expire
            cursor.execute("select from jobs where state <> 'done' limit 1")
            if cursor.rowcount == 0:
                break
        final = {}
        for table in ("items", "jobs"):
            cursor.execute(f"select id, state from {table} order by id")
            rows = cursor.fetchall()
            cursor.execute(
                f"select subject_id, sort_key, from_state, to_state, event, processor, correlation_id,"
                f" extract(epoch from created_at)::float8 from {table}_transitions order by 1, 2"
            )
            columns = ("key", "sort_key", "from", "to", "event", "processor", "tag", "created_at")
            final[table] = {"rows": rows, "log": [dict(zip(columns, row)) for row in cursor.fetchall()]}
    with open(arguments.final, "w", encoding="ascii") as out:
        json.dump(final, out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=("setup", "sessions", "finish_all"))
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", default="stored")
    parser.add_argument("--history")
    parser.add_argument("--final")
    parser.add_argument("--until")
    parser.add_argument("--crashes", type=float, default=0.1)
    parser.add_argument("--pause", type=float, default=0.1)
    arguments = parser.parse_args()
    {"setup": setup, "sessions": sessions, "finish_all": finish_all}[arguments.command](arguments)


if __name__ == "__main__":
    main()

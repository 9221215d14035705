"""Sessions that run random programs and write down what they asked and what they were told.

A history is one JSON object a line. Each request has a tag that the server keeps as the correlation id of whatever it
writes to a log, so the checker can tell which request an entry belongs to. `outcome` is "ok", "error" (with `sqlstate`)
or "lost": the connection ended before an answer came. `asked` and `told` are readings of one monotonic clock.
"""
import json
import random
import threading
import time

import psycopg2
import psycopg2.extensions

LEVELS = ("read committed", "read committed", "repeatable read", "serializable")


class Lost(Exception):
    """The connection ended: what the server did with the last request is not known."""


class Rejected(Exception):
    """The server answered with an error: the transaction, or its newest savepoint, is undone."""


class History:
    """The file that all sessions of a round write to."""

    def __init__(self, path):
        self.out = open(path, "a", encoding="ascii")
        self.lock = threading.Lock()
        self.entries = 0

    def add(self, **entry):
        with self.lock:
            self.entries += 1
            self.out.write(json.dumps(entry) + "\n")
            self.out.flush()


class Session(threading.Thread):
    """One client: connects, runs random transactions until it is told to stop, connects again when its connection is
    lost."""

    def __init__(self, name, seed, plan, history, connect, stop):
        super().__init__(name=name, daemon=True)
        self.rng = random.Random(f"session {name} {seed}")
        self.plan, self.history, self.connect, self.stop = plan, history, connect, stop
        self.number = 0
        self.transaction = None
        self.connection = None
        self.held = {}  # key of a job -> token of the claim that this session was told of
        self.failure = None

    def run(self):
        try:
            while not self.stop.is_set():
                try:
                    self.one_transaction()
                except Lost:
                    self.hang_up()
        except Exception as error:  # a fault of the test itself
            self.failure = error
            self.stop.set()
        self.hang_up()

    def hang_up(self):
        self.held = {}  # a token counts once its claim is known to be committed
        try:
            if self.connection is not None:
                self.connection.close()
        except psycopg2.Error:
            pass
        self.connection = None

    def ask(self, kind, statement, values=(), **facts):
        """Sends one statement and writes down what came of it; returns the rows."""
        asked = time.monotonic()
        outcome, sqlstate, rows, status = "ok", None, None, None
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(statement, values)
                status = cursor.statusmessage
                if cursor.description is not None:
                    rows = [list(row) for row in cursor.fetchall()]
        except psycopg2.Error as error:
            sqlstate = error.pgcode
            # A server that ends a session may say so first; in both cases this session hears no more.
            outcome = "lost" if self.connection.closed or sqlstate is None or sqlstate.startswith("57P") else "error"
        if outcome == "ok" and kind in ("commit", "prepare") and status == "ROLLBACK":
            outcome = "error"
        self.history.add(
            session=self.name,
            transaction=self.transaction,
            kind=kind,
            outcome=outcome,
            sqlstate=sqlstate,
            rows=rows,
            asked=asked,
            told=time.monotonic(),
            **facts,
        )
        if outcome == "lost":
            raise Lost
        if outcome == "error":
            raise Rejected
        return rows

    def one_transaction(self):
        if self.connection is None:
            try:
                self.connection = self.connect()
                self.connection.autocommit = True
            except psycopg2.OperationalError:
                self.connection = None
                self.stop.wait(0.05)
                return
        self.number += 1
        self.transaction = f"{self.name}.{self.number}"
        level = self.rng.choice(LEVELS)
        held = dict(self.held)
        try:
            self.ask("begin", f"begin isolation level {level}", level=level)
            self.several(self.rng.randint(1, 4))
            self.end()
        except Rejected:
            self.held = held
            try:
                self.ask("rollback", "rollback")
            except Rejected as error:
                raise AssertionError("a rollback was rejected") from error

    def several(self, count):
        for _ in range(count):
            if self.rng.random() < 0.5:
                self.in_savepoint()
            else:
                self.one_request()

    def in_savepoint(self):
        held = dict(self.held)
        self.ask("savepoint", "savepoint s")
        try:
            for _ in range(self.rng.randint(1, 2)):
                self.one_request()
            undo = self.rng.random() < 0.4
        except Rejected:
            undo = True
        if undo:
            self.held = held
            self.ask("rollback to", "rollback to savepoint s")
        self.ask("release", "release savepoint s")

    def end(self):
        choice = self.rng.random()
        if choice < 0.1:
            self.ask("rollback", "rollback")
            self.held = {}
        elif choice < 0.25:
            name = f"{self.plan.round}.{self.transaction}"
            self.ask("prepare", f"prepare transaction '{name}'", name=name)
            word = "commit" if self.rng.random() < 0.7 else "rollback"
            self.ask(f"{word} prepared", f"{word} prepared '{name}'", name=name)
            if word == "rollback":
                self.held = {}
        else:
            self.ask("commit", "commit")

    def tagged(self, kind, statement, values=(), **facts):
        tag = f"{self.transaction}.{self.rng.randrange(1 << 40):x}"
        processor = f"{self.plan.round}.{self.name}"
        self.ask("context", "select pawl.set_context(processor => %s, correlation_id => %s)", (processor, tag))
        return self.ask(kind, statement, values, tag=tag, processor=processor, **facts)

    def one_request(self):
        request = self.rng.choices(
            (
                self.update,
                self.update_many,
                self.fire,
                self.insert,
                self.delete,
                self.claim,
                self.complete,
                self.give_up,
                self.reap,
            ),
            (8, 2, 16, 8, 1, 10, 12, 1, 2),
        )[0]
        request()

    def some_item(self):
        return self.rng.randrange(self.plan.items)

    def some_state(self):
        return self.rng.choice(self.plan.machine["states"])

    def update(self):
        key, state = self.some_item(), self.some_state()
        self.tagged(
            "move",
            "update items set state = %s where id = %s and state <> %s returning id, state",
            (state, key, state),
            table="items",
        )

    def update_many(self):
        keys, state = sorted({self.some_item() for _ in range(3)}), self.some_state()
        self.tagged(
            "move",
            "update items set state = %s where id = any(%s) and state <> %s returning id, state",
            (state, keys, state),
            table="items",
        )

    def fire(self):
        key, event = self.some_item(), self.rng.choice(("e0", "e1"))
        self.tagged(
            "move", "select %s::integer, pawl.fire('items', %s, %s)", (key, key, event), table="items", event=event
        )

    def insert(self):
        key, state = self.some_item(), self.rng.choice(self.plan.machine["states"][:3])
        self.tagged(
            "insert",
            "insert into items (id, state) values (%s, %s) on conflict do nothing returning id, state",
            (key, state),
            table="items",
        )

    def delete(self):
        self.tagged("delete", "delete from items where id = %s returning id", (self.some_item(),), table="items")

    def claim(self, leases=(0.02, 2)):
        lease = self.rng.choice(leases)
        rows = self.tagged(
            "claim",
            "select id, state, token from pawl.claim(null::jobs, processor => %s, batch => 2,"
            " lease => make_interval(secs => %s))",
            (f"{self.plan.round}.{self.name}", lease),
            table="jobs",
            lease=lease,
        )
        self.held.update({key: token for key, _, token in rows})

    def complete(self):
        if not self.held:
            return
        key = self.rng.choice(sorted(self.held))
        token = self.held[key] if self.rng.random() < 0.9 else max(self.held[key] - 1, 0)
        state = "done" if self.rng.random() < 0.05 else "ready"
        event = "finish" if state == "done" else "fail"
        del self.held[key]
        if self.rng.random() < 0.5:
            self.tagged(
                "complete",
                "update jobs set state = %s, token = %s where id = %s returning id, state",
                (state, token, key),
                table="jobs",
                token=token,
            )
        else:
            self.tagged(
                "complete",
                "select %s::integer, pawl.fire('jobs', %s, %s, token => %s)",
                (key, key, event, token),
                table="jobs",
                token=token,
                event=event,
            )

    def give_up(self):
        self.tagged("give up", "select pawl.abandon('jobs', %s)", (f"{self.plan.round}.{self.name}",), table="jobs")
        self.held = {}

    def reap(self):
        self.tagged("reap", "select done from pawl.reap('jobs')", table="jobs")

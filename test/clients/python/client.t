#!/usr/bin/python3
# The package pawl of client/python: calls in a transaction, errors as types, workers on rows of operations and on tasks
# of flows (those on tables and steps are in test/tap/106_workers.pl).
import json
import os
import re
import subprocess
import sys
import threading
import time
from datetime import timedelta
from decimal import Decimal

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../client/python"))

import psycopg

import pawl
from tap import DATABASE, HERE, end, equal, fixture, ok, raised

SQLSTATES = os.path.join(HERE, "../../../src/core")
fixture("python_client")
conninfo = "dbname=%s options='-c search_path=python_client,public -c client_min_messages=error'" % DATABASE
connection = psycopg.connect(conninfo, autocommit=True)


def ask(statement, *values, on=connection):
    return on.execute(statement, values).fetchone()[0]


with pawl.acting(connection, processor="web", correlation_id="request 17"):
    equal(pawl.fire(connection, "orders", 1, "pay", {"by": "card"}), "paid", "fire returns the state")
    connection.execute("update orders set state = 'paid' where id = 2")
equal(
    ask("select string_agg(processor || ' ' || correlation_id, ',') from orders_transitions where to_state = 'paid'"),
    "web request 17,web request 17",
    "a context is that of the transaction",
)
equal(pawl.fire(connection, "lines", ["1", "x"], "pay"), "paid", "a key of several columns is a list")
error = raised(
    pawl.NoSuchTransition,
    lambda: pawl.fire(connection, "docs", "6ecd8c99-4036-403d-bf84-cf8400f67836", "send"),
    "PW001 has a type",
)
equal(
    (error.sqlstate, error.table, error.column, error.constraint),
    ("PW001", "docs", "state", "python_client"),
    "with the fields of the error",
)
ok("pay" in error.hint and "HINT: " in str(error) and isinstance(error.__cause__, psycopg.Error), "and its hint", error)


def wrong_update():
    with pawl.acting(connection, processor="web"):
        connection.execute("update orders set note = 'lost' where id = 3")
        connection.execute("update orders set state = 'sent' where id = 3")


error = raised(pawl.NoSuchTransition, wrong_update, "a check violation of a machine has the type of its code")
equal((error.sqlstate, ask("select note from orders where id = 3")), ("23514", "a note"), "and undoes the transaction")
raised(pawl.UnknownObject, lambda: pawl.fire(connection, "orders", 1, "fly"), "an unknown event has one")
equal(
    type(raised(pawl.Error, lambda: pawl.fire(connection, "missing", 1, "pay"), "a missing table")),
    pawl.Error,
    "is an Error",
)
lost = psycopg.connect(conninfo, autocommit=True)
connection.execute("select pg_terminate_backend(%s)", (lost.info.backend_pid,))
raised(pawl.ConnectionLost, lambda: pawl.fire(lost, "orders", 1, "send"), "so has a connection that is lost")

# The same lists as in C++.
with open(os.path.join(SQLSTATES, "sqlstate.def")) as file:
    codes = re.findall(r'^PAWL_SQLSTATE\("(\w+)", (\w+), "(.*)"\)', file.read(), re.M)
equal(
    {code: kind.__name__.lower() for code, kind in pawl.errors.BY_SQLSTATE.items()},
    {code: name.replace("_", "") for code, name, _ in codes},
    "each code of class PW has a type of the same name",
)
equal(
    {kind.__doc__ for kind in pawl.errors.BY_SQLSTATE.values()},
    {"%s: %s." % (code, meaning) for code, _, meaning in codes},
    "and the same meaning",
)
with open(os.path.join(SQLSTATES, "transient.def")) as file:
    transient = re.findall(r'^PAWL_TRANSIENT\("(\w+)", (\w+)', file.read(), re.M)
equal(
    pawl.errors.TRANSIENT, {prefix: repeat != "never" for prefix, repeat in transient}, "the same codes are transient"
)
equal(
    [pawl.is_transient(code) for code in ("40001", "40002", "57014", "57P04", "23505", "")],
    [True, False, True, False, False, False],
    "by the longest prefix",
)

# The examples of the README are Python, and name what there is.
with open(os.path.join(HERE, "../../../client/python/README.md")) as file:
    examples = re.findall(r"^```python\n(.*?)^```", file.read(), re.M | re.S)
for number, example in enumerate(examples, 1):
    compile(example, "example %d" % number, "exec")
    names = set(re.findall(r"\bpawl\.(\w+)", example))
    ok(names and names <= set(pawl.__all__), "example %d of the README" % number, names - set(pawl.__all__))

# Packs. Each worker runs on a thread of its own until its work is done.


def until(statement, *values, on):
    deadline = time.monotonic() + 30
    while not ask(statement, *values, on=on):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def run(worker, statement, *values, on=connection):
    thread = threading.Thread(target=worker.run, args=((),), daemon=True)
    thread.start()
    done = until(statement, *values, on=on)
    worker.stop()
    thread.join(30)
    ok(done and not thread.is_alive(), "it works, and ends when it is stopped", worker.counts)


connection.execute(
    """select pawl_dag.define_template('{"name": "invoice", "namespace": "python",
    "steps": [{"name": "add"}, {"name": "send", "dependencies": ["add"], "handler_options": {"to": "printer"}}]}')"""
)
with connection.transaction():
    task = pawl.start_task(connection, "invoice", {"order": 4}, namespace="python", identity_key="4", priority=3)
raised(
    psycopg.errors.UniqueViolation,
    lambda: connection.execute(
        "select pawl_dag.start_task('invoice', '{\"order\": 4}', 'python', identity_key => '4')"
    ),
    "a second task with the key is rejected",
)
worker = pawl.Worker(conninfo, pawl.Steps("python"))
worker.on("add", lambda job: {"sum": job.context["order"] + 1})


@worker.on("send")
def send(job):
    return {"sum": job.inputs["add"]["result"]["sum"], "to": job.options["to"], "token": job.token > 0}


run(worker, "select state = 'complete' from pawl_dag.tasks where task_uuid = %s", task)
equal(
    ask("select result from pawl_dag.steps where task_uuid = %s and name = 'send'", task),
    {"sum": 5, "to": "printer", "token": True},
    "a step gets inputs and options",
)

connection.execute(
    """select pawl_bulk.define('{"name": "python", "track_row_data": true, "steps": [
    {"name": "book", "handler": "python"}]}')"""
)
operation = pawl.submit_rows(connection, "python", [{"n": n} for n in range(20)])
worker = pawl.Worker(conninfo, pawl.OperationRows(), batch=7)


@worker.on("book")
def book(job):
    if job.context["n"] % 5 == 0:
        raise RuntimeError("no credit")


advance = (
    "select (pawl_bulk.advance(1000)).done >= 0 and status like 'Completed%%' from pawl_bulk.operations where "
    "operation = %s"
)
run(worker, advance, operation)
equal(
    ask(
        "select string_agg(state || ' ' || n, ', ' order by state) from (select state, count(*) n from "
        "pawl_bulk.records"
        " where operation = %s group by 1) x",
        operation,
    ),
    "Completed 16, Failed 4",
    "rows are done or fail, and none stops another",
)
equal(
    (worker.counts["succeeded"], worker.counts["failed"], worker.counts["dropped"]), (16, 4, 0), "as the worker counts"
)

connection.execute(
    """select pawl_saga.define('{"flow": "linear", "name": "python", "children": [
    {"task": "flight", "queue": "python", "requires": ["who"], "provides": "pnr"},
    {"task": "car", "queue": "python", "requires": ["pnr"]}]}')"""
)
flow = pawl.start_flow(connection, "python", {"who": "Ada"})
seen = []
worker = pawl.Worker(conninfo, pawl.FlowTasks("python"))
worker.on("flight", lambda job: "pnr of " + job.context["who"])
worker.on_revert("flight", lambda job: seen.append((job.context["who"], job.inputs["result"])))


@worker.on("car")
def car(job):
    raise pawl.PermanentFailure("no car for " + job.context["pnr"])


run(worker, "select state = 'REVERTED' from pawl_saga.flows where flow_uuid = %s", flow)
equal(seen, [("Ada", "pnr of Ada")], "a failure reverts what was done, with its arguments and result")
equal(ask("select pawl_saga.errors(%s) #>> '{car,message}'", flow), "no car for pnr of Ada", "the failure is kept")
raised(
    pawl.Error,
    lambda: pawl.Worker(conninfo, pawl.Table("docs", success="pay", failure="send")).run(()),
    "a table without owners cannot be worked on",
)

# Whatever a handler, its exception or a callback does ends that job alone, with a message; the worker goes on.


class NoText(Exception):
    def __str__(self):
        raise SystemExit("no text")


class Unfinished(pawl.RetryLater):
    def __init__(self):
        """Leaves out what the class has."""


class Unequal(dict):
    def items(self):
        raise LookupError("a member is missing")


circular, shared = {}, []
circular["self"] = circular
for _ in range(60):
    shared = [shared, shared]


def rename(job):
    job.key, job.token, job.stop = "another", 0, None
    raise ValueError("renamed")


def throw(error):
    raise error


REJECTED = "the result cannot be reported: "
UNSTORABLE = "it has a NUL or a lone surrogate, which PostgreSQL cannot store"
ODD = {  # what a handler does, and the error: its message, type and wait; a failure is retried
    "text": (lambda job: throw(NoText()), "NoText"),
    "empty": (lambda job: throw(KeyError), "KeyError"),
    "nul": (lambda job: throw(ValueError("a\0b")), "a\ufffdb"),
    "surrogates": (lambda job: throw(ValueError("\ud800 \ud83d\ude00")), "\ufffd \U0001f600"),
    "bytes": (lambda job: throw(pawl.Failure(b"\xff", {"a": 1})), "{'a': 1}", "b'\\xff'"),
    "type": (lambda job: throw(pawl.Failure("c\0", "x")), "x", "c\ufffd"),
    "long": (lambda job: throw(ValueError("x" * 10_000_000)), "x" * 65536),
    "delta": (lambda job: throw(pawl.RetryLater("x", timedelta(minutes=2))), "x", None, 120),
    "decimal": (lambda job: throw(pawl.RetryLater("x", Decimal(7))), "x", None, 7),
    "infinite": (lambda job: throw(pawl.RetryLater("x", float("inf"))), "x", None, 1e9),
    "nan": (lambda job: throw(pawl.RetryLater("x", float("nan"))), "x"),
    "date": (lambda job: throw(pawl.RetryLater("x", "tomorrow")), "x"),
    "unfinished": (lambda job: throw(Unfinished()), "Unfinished"),
    "renamed": (rename, "renamed"),
    "exits": (lambda job: sys.exit(3), "3"),
}
ODD_RESULTS = {  # permanent failures
    "circular": (lambda job: circular, "it is circular"),
    "shared": (lambda job: shared, "it is longer than 64 MiB"),
    "no number": (lambda job: [float("nan")], "Out of range float values are not JSON compliant"),
    "generator": (lambda job: (n for n in (1, 2)), "Object of type generator is not JSON serializable"),
    "members": (lambda job: Unequal(a=1), "a member is missing"),
    "zero": (lambda job: {"\0": 1}, UNSTORABLE),
    "alone": (lambda job: ["\ude00"], UNSTORABLE),
    "huge": (lambda job: ["x" * (64 << 20)], "it is longer than 64 MiB"),
    "deep": (lambda job: json.loads("[" * 900 + "]" * 900), "it is nested deeper than 512 levels"),
}
GOOD_RESULTS = {"pair": "\ud83d\ude00", "text": "\\u0000", "tuple": (1, {2: None})}
connection.execute(
    """select pawl_dag.define_template('{"name": "odd", "namespace": "odd", "identity_strategy": "always_unique",
    "steps": [{"name": "s", "handler": "h", "retry": {"max_attempts": 3}}]}')"""
)


def start_odd(name):
    return pawl.start_task(connection, "odd", {"name": name}, namespace="odd")


def reported(statement):
    return dict(connection.execute(
        "select t.context ->> 'name', " + statement + " from pawl_dag.steps s join pawl_dag.tasks t using (task_uuid)"
        " where t.namespace = 'odd' and t.context ->> 'name' <> 'good'").fetchall())


def handle_odd(job):
    name = job.context["name"]
    if name in ODD or name in ODD_RESULTS:
        return {**ODD, **ODD_RESULTS}[name][0](job)
    return GOOD_RESULTS[name[5:]]


for name in [*ODD, *ODD_RESULTS, *("good " + one for one in GOOD_RESULTS)]:
    start_odd(name)
worker = pawl.Worker(conninfo, pawl.Steps("odd"), threads=3, batch=100)
worker.on("h", handle_odd)
all_ended = ("select count(*) = %s from pawl_dag.steps join pawl_dag.tasks t using (task_uuid)"
             " where t.namespace = 'odd' and steps.state in ('waiting_for_retry', 'error', 'complete')")
run(worker, all_ended, len(ODD) + len(ODD_RESULTS) + len(GOOD_RESULTS))
have = reported("jsonb_build_array(s.state, s.error)")
for name, (_, message, *more) in ODD.items():
    more += [None, None][len(more):]
    state, error = have[name]
    equal((state, error and [error.get(one) for one in ("message", "type", "retry_after")]),
          ("waiting_for_retry", [message, *more]), "a failure of a handler is retried: " + name)
for name, (_, message) in ODD_RESULTS.items():
    equal(have[name], ["error", {"message": REJECTED + message, "permanent": True}],
          "a result that cannot be reported fails for good: " + name)
equal([have["good " + one][0] for one in GOOD_RESULTS], ["complete"] * 3, "other results of the batch count")
equal(reported("s.result")["good pair"], "\U0001f600", "two halves of a character are one")
equal((worker.counts["failed"], worker.counts["succeeded"]), (len(ODD) + len(ODD_RESULTS), 3), "each is counted once")


def fail_to_log(text):
    messages.append(text)
    raise BrokenPipeError("the log is closed")


def fail_on_dropped(job):
    raise NoText()


messages, go_on = [], threading.Event()
kept, cancelled = start_odd("kept"), start_odd("cancelled")
worker = pawl.Worker(conninfo + " application_name=closed_log", pawl.Steps("odd"), lease=1, on_message=fail_to_log,
                     on_dropped=fail_on_dropped)
worker.on("h", lambda job: go_on.wait(30))
thread = threading.Thread(target=worker.run, args=((),), daemon=True)
thread.start()
until("select count(*) = 2 from pawl_dag.steps where state = 'in_progress' and task_uuid in (%s, %s)", kept, cancelled,
      on=connection)
connection.execute("select pawl_dag.cancel_task(%s)", (cancelled,))
HEARTBEATS = " from pg_stat_activity where application_name = 'closed_log' and query ~ 's.token FROM pawl_dag.steps s'"
ok(until("select exists (select" + HEARTBEATS + ")", on=connection), "the heartbeat has a session")
lost_pid = ask("select pid" + HEARTBEATS)
connection.execute("select pg_terminate_backend(%s)", (lost_pid,))
ok(until("select exists (select" + HEARTBEATS + " and pid <> %s)", lost_pid, on=connection),
   "the heartbeat goes on where it cannot be logged that its session was lost")
go_on.set()
until("select state = 'complete' from pawl_dag.tasks where task_uuid = %s", kept, on=connection)
worker.stop()
thread.join(30)
equal((thread.is_alive(), worker.counts["succeeded"], worker.counts["dropped"]), (False, 1, 1),
      "callbacks that raise end neither the worker nor its jobs")
equal([sum(one.startswith(text) for one in messages) for text in
       ("heartbeat failed: ", "on_dropped failed: NoText")], [1, 1], "and their failure is a message")

# In a database of the encoding SQL_ASCII the driver returns bytes for text, unless the worker asks for UTF-8.
connection.execute("drop database if exists python_ascii")
connection.execute("create database python_ascii encoding 'SQL_ASCII' locale 'C' template template0")
ascii_conninfo = "dbname=python_ascii options='-c client_min_messages=error'"
ascii_database = psycopg.connect(ascii_conninfo, autocommit=True, client_encoding="UTF8")
for statement in (
    "create extension pawl",
    "create table jobs (id integer primary key, state text not null default 'ready', note text, owner text,"
    " lease timestamptz, token bigint not null default 0)",
    "select pawl.define('job', 'stateDiagram-v2\n[*] --> ready\nready --> running : start\n"
    "running --> done : finish\nrunning --> failed : fail\nrunning --> ready : crashed\nclass running owned')",
    "select pawl.enforce('jobs', 'state', 'job')",
    "select pawl.enable_log('jobs')",
    "select pawl.enable_queue('jobs', owner => 'owner', lease => 'lease', token => 'token')",
    "select pawl.set_claiming('jobs', claim => '{start}', on_expiry => 'crashed')",
    "insert into jobs (id, note) values (1, 'Åse')",
):
    ascii_database.execute(statement)
error = raised(
    pawl.Error,
    lambda: pawl.Worker(ascii_conninfo, pawl.Table("jobs", success="finnish", failure="fail")).run(()),
    "an event that the machine does not have is found before a row is claimed",
)
equal(error.sqlstate, "PW008", "as unknown")
worker = pawl.Worker(ascii_conninfo, pawl.Table("jobs", success="finish", failure="fail"))
worker.on("job", lambda job: {"to": job.context["note"]})
run(worker, "select state = 'done' from jobs", on=ascii_database)
equal(
    ask("select metadata ->> 'to' from jobs_transitions where to_state = 'done'", on=ascii_database),
    "Åse",
    "a worker reads and writes text in a database without an encoding",
)
end()

#!/usr/bin/python3
# The package pawl of client/python: calls in a transaction, errors as types, workers on rows of operations and on tasks
# of flows (those on tables and steps are in test/tap/106_workers.pl).
import os
import re
import subprocess
import sys
import threading
import time

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
worker = pawl.Worker(ascii_conninfo, pawl.Table("jobs", success="finish", failure="fail"))
worker.on("job", lambda job: {"to": job.context["note"]})
run(worker, "select state = 'done' from jobs", on=ascii_database)
equal(
    ask("select metadata ->> 'to' from jobs_transitions where to_state = 'done'", on=ascii_database),
    "Åse",
    "a worker reads and writes text in a database without an encoding",
)
end()

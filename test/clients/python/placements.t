#!/usr/bin/python3
# pawl.Placements: calls go to the database that a namespace is in, also while it moves (the move itself, with workers
# that follow it, is in test/tap/124_workers_follow.pl).
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../client/python"))

import psycopg

import pawl
from tap import end, equal, raised

NAMES = ("python_a", "python_b")
with psycopg.connect("dbname=postgres", autocommit=True) as connection:
    for name in NAMES:
        connection.execute("drop database if exists %s" % name)
        connection.execute("create database %s" % name)
quiet = " options='-c client_min_messages=error'"
databases = [psycopg.connect("dbname=" + name + quiet, autocommit=True) for name in NAMES]


def ask(database, statement, *values):
    return database.execute(statement, values).fetchone()[0]


def place(database, namespace, there):
    database.execute(
        "insert into pawl.placement (kind, namespace, database) values ('dag', %s, %s) on conflict (kind, namespace)"
        " do update set database = excluded.database",
        (namespace, there),
    )


def start(connection):
    tried.append(connection.info.dbname)
    return pawl.start_task(connection, "one", namespace="billing")


def tasks():
    return [ask(database, "select count(*) from pawl_dag.tasks") for database in databases]


for database in databases:
    database.execute("create extension pawl; create extension pawl_dag")
    for namespace in ("billing", "other"):
        ask(database, """select pawl_dag.define_template(jsonb_build_object('name', 'one', 'namespace', %s::text,
            'identity_strategy', 'always_unique', 'steps', '[{"name": "a"}]'::jsonb))""", namespace)
tried = []
placements = pawl.Placements("dbname=python_b")
equal(placements.databases(), {}, "a database that is not one of several knows no others")
equal(placements.find("dag", "billing"), "dbname=python_b", "and every namespace is there")
placements.run("dag", "billing", start)
equal((tried, tasks()), (["python_b"], [0, 1]), "so a call goes there")
databases[1].execute("delete from pawl_dag.tasks")

for number, database in enumerate(databases):
    database.execute(
        "insert into pawl.database (name, connection, is_home, is_here) values ('a', 'dbname=python_a', true, %s),"
        " ('b', 'dbname=python_b', false, %s)",
        (number == 0, number == 1),
    )
    place(database, None, "a")
placements = pawl.Placements("dbname=python_b")
equal(placements.databases(), {"a": "dbname=python_a", "b": "dbname=python_b"}, "a member knows all databases")
equal(placements.find("dag", "billing"), "dbname=python_a", "and where namespaces are without a place of their own")
tried = []
placements.run("dag", "billing", start)
equal((tried, tasks()), (["python_a"], [1, 0]), "a call goes there from any member")
raised(pawl.PlacedElsewhere, lambda: placements.find("shop", "x"), "a kind without a place is nowhere")

# It moves.
for database in databases:
    place(database, "billing", "b")
tried = []
placements.run("dag", "billing", start)
equal((tried, tasks()), (["python_a", "python_b"], [1, 1]), "a rejected call is made again where the namespace is")
tried = []
placements.run("dag", "billing", start)
equal(tried, ["python_b"], "which is remembered")
equal(placements.find("dag", "other"), "dbname=python_a", "other namespaces stay")

# It is on its way: each database says that it is in the other.
place(databases[1], "billing", "a")
error = raised(
    pawl.PlacedElsewhere,
    lambda: pawl.Placements("dbname=python_b", patience=0.1).run("dag", "billing", start),
    "a call does not wait longer than its patience",
)
equal(error.sqlstate, "PW009", "and says why")
tried = []
thread = threading.Thread(target=lambda: placements.run("dag", "billing", start), daemon=True)
thread.start()
while len(tried) < 4:
    time.sleep(0.01)
equal(tasks(), [1, 2], "a call waits while a namespace is on its way")
place(databases[1], "billing", "b")
thread.join(60)
equal((thread.is_alive(), tasks()), (False, [1, 3]), "and is done once when it is there")

# Errors
raised(pawl.UnknownObject, lambda: placements.run("dag", "billing", lambda c: pawl.fire(c, "pawl_dag.tasks", "x", "y")),
       "other errors of the call are raised")
equal(tasks(), [1, 3], "and undo it")
raised(pawl.ConnectionLost, lambda: pawl.Placements("host=/nowhere").find("dag", "billing"), "no member, no answer")
databases[1].execute("update pawl.database set connection = 'host=/nowhere' where is_home")
alone = pawl.Placements("dbname=python_b")
equal(alone.find("dag", "billing"), "dbname=python_b", "while the home is down, the copy of a member counts")
place(databases[1], "billing", "a")
alone.refresh()
equal(alone.find("dag", "billing"), "host=/nowhere", "as it is when it is read again")
raised(pawl.Error, lambda: pawl.Worker("", pawl.Table("x", success="a", failure="b"), placed=True),
       "only workers of steps follow their queue")

for database in databases:
    database.close()
with psycopg.connect("dbname=postgres", autocommit=True) as connection:
    for name in NAMES:
        connection.execute("drop database %s with (force)" % name)
end()

"""Runs one flow of no-op tasks in OpenStack TaskFlow with its records in PostgreSQL, and prints how many seconds the
run took.

    taskflow_run.py database linear|unordered tasks serial|parallel

Its tables are made from its own model: Debian's package leaves its migrations out. They get indexes on the parents, so
that nothing is slow for want of one.
"""

import sys
import time

import sqlalchemy
import taskflow.engines
from taskflow import task
from taskflow.patterns import linear_flow, unordered_flow
from taskflow.persistence import backends
from taskflow.persistence.backends.sqlalchemy import tables


class Nothing(task.Task):
    def execute(self):
        return 1


def make_tables(url):
    engine, metadata = sqlalchemy.create_engine(url), sqlalchemy.MetaData()
    made = tables.fetch(metadata)
    for child in (made.flowdetails, made.atomdetails):
        sqlalchemy.Index(f"{child.name}_parent", child.c.parent_uuid)
    metadata.create_all(engine)
    engine.dispose()


def main(database, shape, tasks, engine):
    url = f"postgresql+psycopg2:///{database}"
    make_tables(url)
    flow = {"linear": linear_flow, "unordered": unordered_flow}[shape].Flow("bench")
    flow.add(*(Nothing(f"t{n}") for n in range(int(tasks))))
    running = taskflow.engines.load(flow, backend=backends.fetch({"connection": url}), engine=engine)
    began = time.perf_counter()
    running.run()
    print(time.perf_counter() - began)
    if running.storage.get_flow_state() != "SUCCESS":
        raise SystemExit("the flow did not succeed")


main(*sys.argv[1:])

"""What PostgreSQL itself takes for the rows and index entries of a step of a bulk operation: the same tables, indexes,
versions and log entries, by plain SQL, with no trigger and nothing enforced. No step that keeps its records and its log
can do more rows a second."""

import os
import threading
import time
from pathlib import Path

from server import Session, query

FOLDER = Path(os.environ["PAWL_RUN"])
BLOCK = 5_000  # rows of a transaction of SQL functions

RECORDS = """
create table floor_records (like pawl_bulk.records including defaults including constraints including indexes)
    with (fillfactor = 30);
create table floor_log (like pawl_bulk.record_transitions_log including defaults including constraints including
    indexes);
create table floor_work (like pawl_bulk.work including defaults including constraints including indexes)
    with (fillfactor = 70);
create index on floor_work (queue, priority desc, operation, row_number, step_index)
    where state = 'ready' and due is null;
create index on floor_work (worker, lease_until) where worker is not null;
create table floor_input (like pawl_bulk.input including defaults including constraints including indexes);
"""
INPUT = (
    "insert into floor_input (operation, row_number, raw) select '{operation}', g, lpad(g::text, 15, '0') || ',p' "
    "from generate_series({first}, {last}) g"
)
RUNNING = "update floor_records set state = 'Running', started_at = clock_timestamp() where {rows}"
COMPLETED = "update floor_records set state = 'Completed', completed_at = clock_timestamp() where {rows}"
INSERT = (
    "insert into floor_records (operation, row_number, step_index) select '{operation}', g, 0 "
    "from generate_series({first}, {last}) g"
)
WAIT = (
    "insert into floor_work (operation, row_number, step_index, queue) select '{operation}', g, 0, 'external' "
    "from generate_series({first}, {last}) g"
)
CLAIM = (
    "update floor_work set state = 'leased', worker = 'w', lease_until = clock_timestamp() + interval '60 s', "
    "token = token + 1 where {rows}"
)
LOG = "copy floor_log from '{file}'"
FORGET = "delete from floor_input where operation = '{operation}' and row_number between {first} and {last}"
# A worker gets its rows in the order of the queue, with their data, and sends back which of them succeeded.
SEND = """with found as materialized (
    select ctid as place from floor_work where queue = 'external' and state = 'ready' and due is null
     order by priority desc, operation, row_number, step_index limit {size} for update skip locked
), claimed as (
    update floor_work w set state = 'leased', worker = 'w', lease_until = clock_timestamp() + interval '60 s',
        token = token + 1 from found f where w.ctid = f.place returning w.operation, w.row_number, w.step_index, w.token
)
select coalesce(json_agg(json_build_object('operation', c.operation, 'row_number', c.row_number, 'step_index',
    c.step_index, 'token', c.token, 'raw', i.raw)), '[]') as got
  from claimed c join floor_input i on i.operation = c.operation and i.row_number = c.row_number \\gset
"""
READ = (
    "from jsonb_to_recordset(:'got'::jsonb) g(operation uuid, row_number bigint, step_index integer, token bigint) "
    "where x.operation = g.operation and x.row_number = g.row_number"
)
DONE = f"using (select * {READ.split(' where ')[0]}) g where {READ.split(' where ')[1]}"
# The transactions of a block of rows.
BY_SQL = ((INSERT, RUNNING, COMPLETED, FORGET, LOG),)
BY_WORKERS = ((INSERT, WAIT), (CLAIM, RUNNING), (COMPLETED, "delete from floor_work where {rows}", FORGET, LOG))
SERVED = (
    (INSERT, WAIT),
    (SEND + "update floor_records x set state = 'Running', started_at = clock_timestamp() " + READ,),
    (
        "update floor_records x set state = 'Completed', completed_at = clock_timestamp() " + READ,
        f"delete from floor_work x {DONE} and x.token = g.token",
        f"delete from floor_input x {DONE}",
        LOG,
    ),
)
ROWS = "operation = '{operation}' and row_number between {first} and {last} and step_index = 0"


def blocks_of(operation, rows, size):
    """what a statement needs to know of each block, with its log entries in a file"""
    blocks = []
    for first in range(1, rows + 1, size):
        last = min(first + size - 1, rows)
        file = FOLDER / f"floor_log_{first}"
        known = {"operation": operation, "first": first, "last": last, "file": file, "size": size}
        query(
            f"copy (select l.* from pawl_bulk.record_transitions_log l where l.operation = '{operation}' and "
            f"l.row_number between {first} and {last} order by l.row_number, l.step_index, l.sort_key) to '{file}'"
        )
        blocks.append({**known, "rows": ROWS.format(**known)})
    return blocks


def write(blocks, transactions):
    session = Session()
    session.run("set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off")
    for block in blocks:
        for statements in transactions:
            session.run("begin; " + "; ".join(s.format(**block) for s in statements) + "; commit")
    session.close()


def seconds(operation, rows, sessions, by_workers=0, served=False):
    """Time of writing what a completed operation of so many rows wrote in its step, by so many sessions. by_workers:
    rows of a batch; 0: the step was a SQL function's. served: workers are sent their rows, and their results read."""
    size = by_workers or BLOCK
    blocks = blocks_of(operation, rows, size)
    query("drop table if exists floor_records, floor_log, floor_work, floor_input;" + RECORDS)
    query(INPUT.format(operation=operation, first=1, last=rows))
    query("vacuum analyze floor_input")
    query("checkpoint")
    transactions = SERVED if served else BY_WORKERS if by_workers else BY_SQL
    lanes = [
        threading.Thread(target=write, args=(blocks[n::sessions], transactions))
        for n in range(sessions)
    ]
    began = time.time()
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    took = time.time() - began
    for block in blocks:
        Path(block["file"]).unlink()
    query("drop table floor_records, floor_log, floor_work, floor_input")
    return took

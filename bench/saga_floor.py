"""The floor of linear sagas: what PostgreSQL itself takes for the rows and index entries that the pack has written for
a flow that is complete. The same versions of the tasks, entries of the log and events go into tables with the same
columns and indexes, and without triggers, foreign keys or rights to check. For each task there is one transaction of
one prepared statement, as a worker does it: the task succeeds, and the next one begins. Nothing is decided, claimed or
looked for."""

from floor import Floor, tidy
from pgbench import pgbench, script
from server import query

LIKE = {"tasks": "pawl_saga.tasks", "log": "pawl_saga.task_transitions_log", "events": "pawl.outbox_1"}
AT_START = """{"state": "PENDING", "blockers": 1, "worker": null, "lease_until": null, "token": 0, "result": null,
    "due_at": "infinity"}"""
EVENTS = "(table pawl.outbox_1 union all table pawl.outbox_2 union all table pawl.outbox_3)"
# Each task has a turn, in the order in which they began; what was inserted has the turn in which it was.
TABLES = """
drop schema if exists floor cascade; create schema floor;
{tables}
alter table floor.tasks set (fillfactor = 60);
create table floor.turns as select row_number() over (order by l.id) as turn, l.flow_uuid, l.node
    from pawl_saga.task_transitions_log l where l.flow_uuid = '{flow}' and l.to_state = 'RUNNING';
alter table floor.turns add primary key (turn);
insert into floor.tasks select (jsonb_populate_record(t, '{at_start}')).*
    from floor.turns join pawl_saga.tasks t using (flow_uuid, node) order by turn;
create table floor.new_log as select t.turn + (l.to_state = 'SUCCESS')::int as in_turn, l.*
    from floor.turns t join pawl_saga.task_transitions_log l using (flow_uuid, node)
    where l.to_state in ('RUNNING', 'SUCCESS');
create table floor.new_events as select t.turn + (e.to_state = 'SUCCESS')::int as in_turn, e.*
    from floor.turns t join {events} e on e.relation = 'pawl_saga.tasks'::regclass
        and e.key = array[t.flow_uuid::text, t.node::text]
    where e.to_state in ('RUNNING', 'SUCCESS');
create index on floor.new_log (in_turn); create index on floor.new_events (in_turn);
"""
# Turn n: task n - 1 succeeds, and task n begins.
TURN = """\\set n :n + 1
with ended as (update floor.tasks x set state = 'SUCCESS', worker = null, lease_until = null, result = '1'
        from floor.turns t where t.turn = :n - 1 and x.flow_uuid = t.flow_uuid and x.node = t.node),
    logged as (insert into floor.log select {log} from floor.new_log where in_turn = :n),
    told as (insert into floor.events select {events} from floor.new_events where in_turn = :n)
update floor.tasks x set state = 'RUNNING', blockers = 0, due_at = null, worker = 'worker 0', token = token + 1,
        lease_until = clock_timestamp() + interval '60 s', started_at = clock_timestamp()
    from floor.turns t where t.turn = :n and x.flow_uuid = t.flow_uuid and x.node = t.node;
"""


def columns(table):
    return query(
        "select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute "
        f"where attrelid = 'floor.{table}'::regclass and attnum > 0 and not attisdropped"
    )


def of_flow(name):
    """The floor of the newest flow of a name, which is linear and was worked off one task at a time."""
    flow = query(f"select flow_uuid from pawl_saga.flows where name = '{name}' order by created_at desc limit 1")
    tables = "".join(
        f"create table floor.{table} (like {like} including defaults including indexes);"
        for table, like in LIKE.items()
    )
    query(TABLES.format(flow=flow, tables=tables, at_start=AT_START, events=EVENTS))
    tidy()
    turns = int(query("select count(*) from floor.turns"))
    turn = script("saga_floor", TURN.format(log=columns("log"), events=columns("events")))
    run = pgbench(turn, 1, "-D", "n=0", "-t", turns + 1)
    ended = int(query("select count(*) from floor.tasks where state = 'SUCCESS'"))
    if ended != turns:
        raise SystemExit(f"bench: the floor of flow {name} has ended {ended} of {turns} tasks")
    return Floor(run.tps, run.cpu / turns * 1e6)

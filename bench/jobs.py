"""A table of jobs as the parts on owned work use it, with pawl or with the same queue written by hand."""

from server import query
from variants import quoted

DIAGRAM = """stateDiagram-v2
    [*] --> queued
    queued --> running : start
    running --> done : complete
    running --> queued : fail
    running --> dead : fail
    running --> queued : crashed
    running --> dead : crashed
    queued --> cancelled : cancel
    running --> cancelled : cancel
    done --> [*]
    dead --> [*]
    cancelled --> [*]
    class running owned
"""

COLUMNS = (
    "id bigint primary key, state text not null default 'queued', priority integer not null default 0, created_at "
    "timestamptz not null default now(), "
    "owner text, lease timestamptz, token bigint not null default 0, due timestamptz, attempts integer not null "
    "default 0, payload text not null"
)

WORK = (
    "pawl.enable_queue('{table}', owner => 'owner', lease => 'lease', token => 'token', attempts => 'attempts'), "
    "pawl.enable_timers('{table}', due => 'due'), "
    "pawl.set_claiming('{table}', claim => array['start'], claim_order => 'priority desc, created_at', on_expiry => "
    "'crashed', "
    "retry => array['fail', 'crashed'], operator_events => array['cancel'])"
)


def define():
    query(f"select pawl.define('bench_job', {quoted(DIAGRAM)})")


def enforce(table, most_recent):
    """Attaches the lifecycle; most_recent None: without a log."""
    log = "" if most_recent is None else f"pawl.enable_log('{table}', most_recent => '{most_recent}'), "
    query(
        f"set client_min_messages = error; select pawl.enforce('{table}', 'state', 'bench_job'), "
        f"{log}{WORK.format(table=table)}"
    )


def make(table, most_recent):
    query(f"create table {table} ({COLUMNS})")
    enforce(table, most_recent)


def make_plain(table):
    """The same columns, and the index that a hand-written claim needs."""
    query(
        f"create table {table} ({COLUMNS}); create index on {table} (priority desc, created_at, id) where state = "
        "'queued'"
    )


def index_what_is_owned(table):
    """What a queue needs that finds lost leases and what is due: the other indexes of pawl's table."""
    query(
        f"create index on {table} (owner, lease) where owner is not null; create index on {table} (due, id) where due "
        "is not null"
    )


def fill(table, first, rows, state="queued"):
    """Jobs first, first + 1, ...: three priorities, 100 bytes of payload."""
    query(
        f"insert into {table} (id, state, priority, payload) select g, '{state}', g % 3, repeat('x', 100) "
        f"from generate_series({first}, {first + rows - 1}) g"
    )


# A hand-written worker: it claims jobs and deletes them when they are done.
CLAIM_BY_HAND = """with c as (update {t} set state = 'running', owner = 'w' || :client_id,
    lease = now() + interval '60 s', token = token + 1,
    attempts = attempts + 1 where id in (select id from {t} where state = 'queued' order by priority desc, created_at,
        id limit {n}
    for update skip locked) returning id) select coalesce(array_agg(id), '{{}}')::text as ids from c \\gset
"""
COMPLETE_BY_HAND = "delete from {t} where id = any (:ids::bigint[]);\n"

# The same with a log like pawl's that knows its newest entries, kept by the statement that changes a row.
LOG = (
    "create table {t}_log (entry uuid not null, id bigint not null, sort_key integer not null, from_state text, "
    "to_state text, event text, processor text, actor text not null, "
    "correlation_id text, metadata jsonb, machine_version integer not null, created_at timestamptz not null, "
    "most_recent boolean not null, primary key (id, sort_key)); "
    "create unique index on {t}_log (id) where most_recent"
)
BEGIN_LOG = (
    "insert into {t}_log select gen_random_uuid(), g, 1, null, 'queued', null, null, current_user, null, null, 1, "
    "clock_timestamp(), true "
    "from generate_series({first}, {last}) g"
)


def logged(moved, move, result):
    return f"""with m as ({moved}), b as (update {{t}}_log l set most_recent = false from m where l.id = m.id
        and l.most_recent returning l.id, l.sort_key),
    i as (insert into {{t}}_log select gen_random_uuid(), id, sort_key + 1, {move}, 'w' || :client_id, current_user,
        null, null, 1, clock_timestamp(), true from b) {result}
"""


CLAIM_LOGGED = logged(
    CLAIM_BY_HAND[len("with c as (") : CLAIM_BY_HAND.index(") select coalesce")],
    "'queued', 'running', 'start'",
    "select coalesce(array_agg(id), '{{}}')::text as ids from m \\gset",
)
COMPLETE_LOGGED = logged(
    "delete from {t} where id = any (:ids::bigint[]) returning id",
    "'running', 'done', 'complete'",
    "select count(*) from m;",
)

# The same rows and index entries as pawl's derived log: a finished job stays, and entries are only appended. Nothing is
# enforced, and the numbers of the entries are constants.
APPENDED_LOG = LOG[: LOG.index("; create unique index")]


def appended(moved, number, move, result):
    return f"""with m as ({moved}), i as (insert into {{t}}_log select gen_random_uuid(), id, {number}, {move},
        'w' || :client_id, current_user, null, null, 1, clock_timestamp(), true from m) {result}
"""


CLAIM_APPENDED = appended(
    CLAIM_BY_HAND[len("with c as (") : CLAIM_BY_HAND.index(") select coalesce")],
    2,
    "'queued', 'running', 'start'",
    "select coalesce(array_agg(id), '{{}}')::text as ids from m \\gset",
)
COMPLETE_APPENDED = appended(
    "update {t} set state = 'done', owner = null, lease = null where id = any (:ids::bigint[]) returning id",
    3,
    "'running', 'done', 'complete'",
    "select count(*) from m;",
)

# The same with pawl, and what becomes of the jobs stays in the log.
CLAIM = (
    "select coalesce(array_agg(id), '{{}}')::text as ids from pawl.claim(null::{t}, processor => 'w' || :client_id, "
    "batch => {n}) \\gset\n"
)
COMPLETE = "update {t} set state = 'done', owner = 'w' || :client_id where id = any (:ids::bigint[]);\n"

"""The ways of guarding and recording a state column that are compared. Each gets a table of the same shape and the same
rows."""

import os
from dataclasses import dataclass

STATES = 10  # s0 -> s1 -> ... -> s9 -> s0, so that a whole table can be moved on round after round
BIG_STATES, BIG_OUTGOING = 1000, 10


def diagram(states, transitions):
    """A ring of states, each with transitions to the next few."""
    lines = ["stateDiagram-v2", "    [*] --> s0"]
    for s in range(states):
        lines += [f"    s{s} --> s{(s + k) % states} : move_{k}" for k in range(1, transitions + 1)]
    return "\n".join(lines) + "\n"


def halves(states):
    """The same ring, each transition in two halves."""
    lines = ["stateDiagram-v2", "    [*] --> s0"]
    for s in range(states):
        lines += [f"    s{s} --> m{s} : half", f"    m{s} --> s{(s + 1) % states} : half"]
    return "\n".join(lines) + "\n"


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


@dataclass
class Variant:
    name: str
    label: str
    setup: str = ""  # {t} is the table
    # One statement that takes all rows from state {a} to state {b}.
    all_rows: str = "update {t} set state = '{b}'"
    # One transaction that changes the state of row :id, for pgbench.
    one_row: str = "update {t} set state = 's' || (right(state, 1)::int + 1) % 10 where id = :id;"
    tables: tuple = ("{t}",)  # to be vacuumed
    single: bool = True  # takes part in the single-row runs
    memory: bool = False  # takes part in the memory runs
    before: str = (
        ""  # what is made ready for all_rows and not measured; {n} is the round, {file} one that the server may write
    )
    floor: bool = False  # no way to guard a table: what PostgreSQL itself takes for the rows of a log


C_TRIGGER = "create trigger empty {when} update on {{t}} {more} execute function empty_trigger()"

CASE = (
    """
create function {t}_check() returns trigger language plpgsql as $$
begin
    if new.state is distinct from old.state then
        case old.state
"""
    + "".join(
        f"            when 's{s}' then if new.state not in ('s{(s + 1) % STATES}') then "
        "raise exception 'no transition from % to %', old.state, new.state; end if;\n"
        for s in range(STATES)
    )
    + """            else raise exception 'no such state: %', old.state;
        end case;
    end if;
    return new;
end $$;
create trigger checked before update of state on {t} for each row execute function {t}_check();
"""
)

# One table of transitions for several machines and one trigger function for several tables, as it is usually written.
LOOKUP = f"""
create table {{t}}_transitions (machine text, from_state text, to_state text,
    primary key (machine, from_state, to_state));
insert into {{t}}_transitions select 'machine ' || m, 's' || s, 's' || (s + 1) % {STATES}
    from generate_series(1, 10) m, generate_series(0, {STATES - 1}) s;
analyze {{t}}_transitions;
create function {{t}}_check() returns trigger language plpgsql as $$
begin
    if new.state is distinct from old.state and not exists (
        select from {{t}}_transitions where machine = tg_argv[0] and from_state = old.state and to_state = new.state)
    then
        raise exception 'no transition from % to %', old.state, new.state;
    end if;
    return new;
end $$;
create trigger checked before update of state on {{t}} for each row execute function {{t}}_check('machine 1');
"""

# Statesman's table as its generator makes it, without the foreign key that its migration
# has besides ("optional, but highly recommended").
STATESMAN = """
create table {t}_transitions (id bigserial primary key, {t}_id integer not null, to_state text not null,
    metadata jsonb default '{{}}',
    sort_key integer not null, most_recent boolean not null, created_at timestamptz not null,
        updated_at timestamptz not null);
insert into {t}_transitions ({t}_id, to_state, sort_key, most_recent, created_at, updated_at)
    select id, state, 1, true, now(), now() from {t};
create unique index on {t}_transitions ({t}_id, sort_key);
create unique index on {t}_transitions ({t}_id) where most_recent;
"""

STATESMAN_KEY = STATESMAN + "alter table {t}_transitions add foreign key ({t}_id) references {t} (id);\n"

STATESMAN_SET = """
with moved as (update {t} set state = '{b}' returning id),
     before as (update {t}_transitions l set most_recent = false, updated_at = now() from moved
         where l.{t}_id = moved.id and l.most_recent
                returning l.{t}_id, l.sort_key)
insert into {t}_transitions ({t}_id, to_state, sort_key, most_recent, created_at, updated_at)
select {t}_id, '{b}', sort_key + 1, true, now(), now() from before
"""

# The same for every UPDATE of the table, by a trigger on the statement.
STATESMAN_TRIGGER = """
create function {t}_log() returns trigger language plpgsql as $$
begin
    with before as (update {t}_transitions l set most_recent = false, updated_at = now() from moved
        where l.{t}_id = moved.id and l.most_recent
                    returning l.{t}_id, l.sort_key)
    insert into {t}_transitions ({t}_id, to_state, sort_key, most_recent, created_at, updated_at)
    select moved.id, moved.state, before.sort_key + 1, true, now(), now() from moved
        join before on before.{t}_id = moved.id;
    return null;
end $$;
create trigger logged after update on {t} referencing new table as moved for each statement execute function {t}_log();
"""

STATESMAN_ROW = """
do $$
declare
    subject integer;
    last integer;
begin
    for subject in select id from {t} order by id loop
        update {t}_transitions set most_recent = false, updated_at = now() where {t}_id = subject
        and most_recent returning sort_key into last;
        insert into {t}_transitions ({t}_id, to_state, sort_key, most_recent, created_at, updated_at)
        values (subject, '{b}', last + 1, true, now(), now());
        update {t} set state = '{b}' where id = subject;
    end loop;
end $$
"""

# The state first: its row lock makes two clients at one row wait for each other instead of failing on the unique index.
STATESMAN_ONE = """begin;
update {t} set state = 's' || (right(state, 1)::int + 1) % 10 where id = :id;
update {t}_transitions set most_recent = false, updated_at = now() where {t}_id = :id and most_recent;
insert into {t}_transitions ({t}_id, to_state, sort_key, most_recent, created_at, updated_at)
    select {t}_id, 's' || (right(to_state, 1)::int + 1) % 10, sort_key + 1, true, now(), now() from {t}_transitions
        where {t}_id = :id order by sort_key desc limit 1;
commit;"""


def enforced(calls="", machine="bench_ring"):
    return f"select pawl.enforce('{{t}}', 'state', '{machine}'){calls};"


# The rows that a log gets, copied into a table of its shape. What a log costs cannot be
# less, as long as it is a table with its indexes.
LOG_COLUMNS = (
    "id uuid not null, {t}_id integer not null, sort_key integer not null, from_state text, to_state text, event text, "
    "processor text, actor text not null, "
    "correlation_id text, metadata jsonb, machine_version integer not null, created_at timestamptz not null"
)
FLAG = ", most_recent boolean not null"


def log_rows(values, flag, rows="{t}", order="id"):
    return (
        f"select gen_random_uuid(), id, {values}, 'move_1', null::text, current_user, null::text, null::jsonb, 1, "
        f"clock_timestamp(){flag} from {rows} order by {order}"
    )


def log_shape(flag="", more=""):
    value = ", true" if flag else ""
    return (
        f"create table {{t}}_log ({LOG_COLUMNS}{flag}, primary key ({{t}}_id, sort_key));{more}"
        f"insert into {{t}}_log " + log_rows("1, null, 's0'", value)
    )


def log_file(flag=""):
    return "copy (" + log_rows("{n} + 2, '{a}', '{b}'", flag) + ") to '{file}'"


def log_file_of_two():
    rows = log_rows("2 * {n} + 2 + k, '{a}', '{b}'", "", "{t} cross join generate_series(0, 1) k", "id, k")
    return f"copy ({rows}) to '{{file}}'"


# What a log without gaps takes by plain SQL, if nothing is enforced and nothing protected.
APPENDED = """with m as (update {t} set state = '{b}' returning id, state)
insert into {t}_log select gen_random_uuid(), id, (select l.sort_key + 1 from {t}_log l where l.{t}_id = m.id
    order by l.sort_key desc limit 1), 'before', state, 'move_1', null, current_user, null, null, 1, clock_timestamp()
from m"""
# A row at a time beside other sessions: the number is read when the row is locked, by a statement of its own.
APPENDED_ONE = """begin;
update {t} set state = 's' || (right(state, 1)::int + 1) % 10 where id = :id;
insert into {t}_log select gen_random_uuid(), id, (select l.sort_key + 1 from {t}_log l where l.{t}_id = m.id
    order by l.sort_key desc limit 1), 'before', state, 'move_1', null, current_user, null, null, 1, clock_timestamp()
from {t} m where id = :id;
commit;"""

# The least that PostgreSQL takes for it: triggers in C that decide nothing.
TRIGGERED = (
    ";create trigger appended after update on {t} for each row execute function append_trigger('{t}_log');"
    + C_TRIGGER.format(when="before", more="for each row")
)

LOGGED = ("{t}", "{t}_transitions")
DERIVED = ("{t}", "{t}_transitions_log")

VARIANTS = [
    Variant("bare", "bare UPDATE", memory=True),
    Variant(
        "c_before", "empty C trigger, BEFORE ROW", C_TRIGGER.format(when="before", more="for each row"), memory=True
    ),
    Variant(
        "c_after",
        "empty C trigger, AFTER ROW",
        C_TRIGGER.format(when="after", more="for each row"),
        single=False,
        memory=True,
    ),
    Variant(
        "transition",
        "empty C trigger, AFTER STATEMENT with transition tables",
        C_TRIGGER.format(when="after", more="referencing old table as o new table as n for each statement"),
        single=False,
        memory=True,
    ),
    Variant("plpgsql_case", "plpgsql trigger, CASE", CASE),
    Variant("plpgsql_lookup", "plpgsql trigger, lookup table", LOOKUP),
    Variant(
        "statesman",
        "Statesman, without its foreign key, one set-based statement",
        STATESMAN,
        all_rows=STATESMAN_SET,
        tables=LOGGED,
        single=False,
    ),
    Variant(
        "statesman_key",
        "Statesman as generated, with its foreign key, one set-based statement",
        STATESMAN_KEY,
        all_rows=STATESMAN_SET,
        tables=LOGGED,
        single=False,
    ),
    Variant(
        "statesman_trigger",
        "Statesman, one statement, by a statement trigger",
        STATESMAN + STATESMAN_TRIGGER,
        tables=LOGGED,
        single=False,
    ),
    Variant(
        "statesman_row",
        "Statesman, row by row",
        STATESMAN,
        all_rows=STATESMAN_ROW,
        one_row=STATESMAN_ONE,
        tables=LOGGED,
    ),
    Variant("guard", "pawl, guard only", enforced(), memory=True),
    Variant(
        "guard_big",
        "pawl, guard only, 1,000 states and 10,000 transitions",
        enforced(machine="bench_big"),
        single=False,
    ),
    Variant(
        "derived", "pawl, log, most_recent derived", enforced(", pawl.enable_log('{t}')"), tables=DERIVED, memory=True
    ),
    Variant(
        "derived_events",
        "pawl, log, most_recent derived, and outbox",
        enforced(", pawl.enable_log('{t}'), pawl.enable_events('{t}')"),
        tables=DERIVED,
    ),
    Variant(
        "derived_two",
        "pawl, log, derived, two transitions in one write",
        enforced(", pawl.enable_log('{t}')", "bench_halves"),
        "do $$ begin perform set_config('pawl.events', '{{half,half}}', true); update {t} set state = '{b}'; end $$",
        tables=DERIVED,
        single=False,
    ),
    Variant(
        "stored",
        "pawl, log, most_recent stored",
        enforced(", pawl.enable_log('{t}', most_recent => 'stored')"),
        tables=LOGGED,
        memory=True,
    ),
    Variant(
        "derived_hash",
        "pawl, log, derived, hash chain",
        enforced(", pawl.enable_log('{t}', hash_chain => true)"),
        tables=DERIVED,
    ),
    Variant(
        "stored_hash",
        "pawl, log, stored, hash chain",
        enforced(", pawl.enable_log('{t}', most_recent => 'stored', hash_chain => true)"),
        tables=LOGGED,
    ),
    Variant(
        "appended",
        "UPDATE and INSERT of the log entries (all rows: in one statement), nothing enforced",
        log_shape(),
        APPENDED,
        APPENDED_ONE,
        tables=("{t}", "{t}_log"),
    ),
    Variant(
        "triggered",
        "an empty C trigger, BEFORE ROW, and one in C that appends the log entry, AFTER ROW; nothing decided",
        log_shape() + TRIGGERED,
        tables=("{t}", "{t}_log"),
    ),
    Variant(
        "floor",
        "no guard and no UPDATE: COPY of the rows of a derived log into a table of its shape",
        log_shape(),
        "copy {t}_log from '{file}'",
        tables=("{t}_log",),
        single=False,
        before=log_file(),
        floor=True,
    ),
    Variant(
        "floor_two",
        "no guard and no UPDATE: the same of two entries a row",
        log_shape(),
        "copy {t}_log from '{file}'",
        tables=("{t}_log",),
        single=False,
        before=log_file_of_two(),
        floor=True,
    ),
    Variant(
        "floor_stored",
        "no guard and no UPDATE: COPY of the rows of a stored log, after an UPDATE of its flags",
        log_shape(FLAG, "create unique index on {t}_log ({t}_id) where most_recent;"),
        "do $$ begin update {t}_log set most_recent = false where most_recent; copy {t}_log from '{file}'; end $$",
        tables=("{t}_log",),
        single=False,
        before=log_file(", true"),
        floor=True,
    ),
]

# BENCH_VARIANTS="bare c_before guard" keeps to some of them, for development.
if os.environ.get("BENCH_VARIANTS"):
    VARIANTS = [v for v in VARIANTS if v.name in os.environ["BENCH_VARIANTS"].split()]

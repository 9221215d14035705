"""The floor of workflows: what PostgreSQL itself takes for the rows and index entries that the pack has written for
some tasks that are complete. The same rows go into tables with the same columns and indexes, and without triggers,
foreign keys or rights to check: steps and tasks are changed by prepared UPDATEs, in as many row versions as the pack
has written, and what is only inserted (entries of the logs, rows of the audit, events, all that a start makes) comes by
COPY, the quickest way in. In small batches COPY costs more to begin than it saves: there one statement does it all, and
inserts what it reads from tables that hold the rows. Nothing is decided, claimed or looked for."""

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from server import Session, query, server_cpu

FOLDER = Path(os.environ["PAWL_RUN"]) / "floor"
LIKE = {
    "tasks": "pawl_dag.tasks",
    "steps": "pawl_dag.steps",
    "edges": "pawl_dag.edges",
    "step_log": "pawl_dag.step_transitions_log",
    "task_log": "pawl_dag.task_transitions_log",
    "audit": "pawl_dag.step_result_audit",
    "events": "pawl.outbox_1",
}
STARTED = """{"state": "pending", "worker_uuid": null, "lease_until": null, "token": 0, "attempts": 0, "result": null,
    "last_attempted_at": null}"""
ANY_STEP = "from unnest($1::uuid[], $2::uuid[]) k(task, step) where x.task_uuid = k.task and x.step_uuid = k.step"
ONE_STEP = "where x.task_uuid = $1 and x.step_uuid = $2"
# The versions of a step: the last ones, if the pack writes fewer.
VERSIONS = (
    "state = 'enqueued', unsatisfied_parents = 0",
    "state = 'in_progress', unsatisfied_parents = 0, worker_uuid = gen_random_uuid(), lease_until = now() + '60 s', "
    "token = token + 1, attempts = attempts + 1, last_attempted_at = now()",
    "state = 'complete', worker_uuid = null, lease_until = null, result = '1'",
)
TASK_VERSION = (
    "state = 'steps_in_process', entered_at = clock_timestamp(), evaluate = false, steps_ready = x.steps_ready + 1, "
    "steps_in_flight = x.steps_in_flight + 1, steps_satisfied = x.steps_satisfied + 1"
)


@dataclass
class Written:
    """Row versions that the pack writes for a step, counted by the server."""

    of_steps: float
    of_tasks: float


@dataclass
class Floor:
    rate: float  # steps a second
    cpu: float  # microseconds of all server processes a step


def updates():
    """how many rows of steps and of tasks were updated so far"""
    return [
        int(n)
        for n in query(
            "select pg_stat_clear_snapshot(); select n_tup_upd from pg_stat_user_tables where schemaname = 'pawl_dag' "
            "and relname in ('steps', 'tasks') order by relname"
        ).split()
    ]


def written(before, steps):
    now = updates()
    return Written(*((now[i] - before[i]) / steps for i in range(2)))


def make_tables(name, tasks, state):
    """Empty tables; and `chosen`, that many tasks of a template in a state, the largest first, by hundreds."""
    query("drop schema if exists floor cascade; create schema floor")
    for table, like in LIKE.items():
        query(f"create table floor.{table} (like {like} including defaults including indexes)")
    query("alter table floor.tasks set (fillfactor = 30); alter table floor.steps set (fillfactor = 70)")
    query(
        "create table floor.chosen as select task_uuid, (row_number() over (order by steps_total desc, task_uuid) - 1) "
        f"/ 100 as place from pawl_dag.tasks where name = '{name}' and state = '{state}' "
        f"order by steps_total desc, task_uuid limit {tasks}; "
        "alter table floor.chosen add primary key (task_uuid); analyze floor.chosen"
    )
    found = int(query("select count(*) from floor.chosen"))
    if found == 0:
        raise SystemExit(f"bench: no task {name} is {state}")
    return found


# The rows of the chosen tasks: those of their start, and what was inserted since.
ROWS = {
    "tasks": "select x.* from floor.chosen c join pawl_dag.tasks x using (task_uuid)",
    "steps": f"select (jsonb_populate_record(x, '{STARTED}')).* from floor.chosen c join pawl_dag.steps x "
    "using (task_uuid)",
    "edges": "select x.* from floor.chosen c join pawl_dag.edges x using (task_uuid)",
    "step_log": "select x.* from floor.chosen c join pawl_dag.step_transitions_log x using (task_uuid) "
    "join pawl_dag.steps s using (task_uuid, step_uuid) where (x.sort_key = 1) = {starts}",
    "task_log": "select x.* from floor.chosen c join pawl_dag.task_transitions_log x using (task_uuid) "
    "where (x.sort_key = 1) = {starts}",
    "audit": "select x.* from floor.chosen c join pawl_dag.step_result_audit x using (task_uuid) "
    "join pawl_dag.steps s using (task_uuid, step_uuid)",
    "events": "select x.* from floor.chosen c join (table pawl.outbox_1 union all table pawl.outbox_2 union all table "
    "pawl.outbox_3) x on x.relation = 'pawl_dag.tasks'::regclass and x.key = array[c.task_uuid::text] "
    "where (x.sort_key = 1) = {starts}",
}
# In the order of the work: the steps of a hundred tasks, level by level.
ORDER = {
    "step_log": "c.place, s.level, x.task_uuid, x.step_uuid, x.sort_key",
    "task_log": "c.place, x.sort_key, x.task_uuid",
    "audit": "c.place, s.level, x.task_uuid, x.step_uuid",
    "events": "c.place, x.sort_key, c.task_uuid",
}


def export(table, starts, order):
    """the lines that COPY reads, in an order"""
    rows = ROWS[table].replace("{starts}", str(starts))
    return query(f"copy ({rows} order by {order}) to stdout").splitlines()


def put(lines, name):
    path = FOLDER / name
    path.write_text("".join(line + "\n" for line in lines))
    path.chmod(0o644)
    return path


def parts(lines, n):
    """n parts of nearly the same size"""
    return [lines[i * len(lines) // n : (i + 1) * len(lines) // n] for i in range(n)]


def copies(rows, number):
    """COPY of the part of each table"""
    return "".join(
        f"copy floor.{table} from '{put(lines[number], f'{table}_{number}')}';\n"
        for table, lines in rows.items()
        if lines[number]
    )


def prepared(versions, batch):
    where = ONE_STEP if batch == 1 else ANY_STEP
    types = "uuid, uuid" if batch == 1 else "uuid[], uuid[]"
    return "set plan_cache_mode = force_generic_plan;\n" + "".join(
        f"prepare v{n} ({types}) as update floor.steps x set {VERSIONS[n]} {where};\n"
        for n in range(len(VERSIONS) - versions, len(VERSIONS))
    ) + (
        f"prepare t (uuid[]) as update floor.tasks x set {TASK_VERSION} where x.task_uuid = any ($1);\n"
    )


def changes(steps, versions, of_tasks, batch):
    """The UPDATEs of a batch."""
    tasks = list(dict.fromkeys(task for task, _ in steps))
    keys = [",".join(column) for column in zip(*steps)]
    keys = ", ".join(f"'{k}'" if batch == 1 else f"'{{{k}}}'" for k in keys)
    turns = max(1, round(of_tasks * len(steps) / len(tasks)))
    return "".join(f"execute v{n} ({keys});\n" for n in range(len(VERSIONS) - versions, len(VERSIONS))) + turns * (
        f"execute t ('{{{','.join(tasks)}}}');\n"
    )


def stage(rows):
    """Puts the rows of all batches into tables beside those that they belong to."""
    for table, batches in rows.items():
        lines = [f"{number}\t{line}" for number, batch in enumerate(batches) for line in batch]
        query(
            f"create table floor.new_{table} as select 0 as batch, x.* from floor.{table} x limit 0; "
            f"copy floor.new_{table} from '{put(lines, table)}'; create index on floor.new_{table} (batch)"
        )


def columns(table):
    return query(
        "select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute "
        f"where attrelid = 'floor.{table}'::regclass and attnum > 0 and not attisdropped"
    )


def at_once(tables, batch):
    """The statement that completes some steps and starts others, as the pack does in two versions of each."""
    kind = "uuid" if batch == 1 else "uuid[]"
    clauses = [f"c as (update floor.steps x set {VERSIONS[-1]} {ONE_STEP if batch == 1 else ANY_STEP})"]
    started = clauses[0].replace("c as", "s as").replace(VERSIONS[-1], VERSIONS[-2])
    clauses.append(started.replace("$1", "$3").replace("$2", "$4"))
    clauses += [
        f"{table} as (insert into floor.{table} select {columns(table)} from floor.new_{table} where batch = $6)"
        for table in tables
    ]
    return (
        "set plan_cache_mode = force_generic_plan; set enable_seqscan = off;\n"
        f"prepare w ({', '.join([kind] * 4)}, uuid[], int) as with {', '.join(clauses)} "
        f"update floor.tasks x set {TASK_VERSION} where x.task_uuid = any ($5);\n"
    )


def worked_at_once(steps, following, number, batch):
    keys = [f"'{','.join(c)}'" if batch == 1 else f"'{{{','.join(c)}}}'" for s in (steps, following) for c in zip(*s)]
    tasks = ",".join(dict.fromkeys(task for task, _ in steps))
    return f"execute w ({', '.join(keys)}, '{{{tasks}}}', {number});\n"


def run_scripts(scripts):
    """seconds, and CPU seconds of the server, in which the scripts ran side by side"""
    before, began = server_cpu(), time.time()
    running = [
        subprocess.Popen(["psql", "-Xq", "-d", "bench", "-v", "ON_ERROR_STOP=1", "-f", each], stdout=subprocess.DEVNULL)
        for each in scripts
    ]
    if any(each.wait() != 0 for each in running):
        raise SystemExit("bench: the floor could not be written")
    took = time.time() - began
    return took, server_cpu() - before


def tidy(database="bench"):
    session = Session(database)
    session.run("vacuum analyze")
    session.run("checkpoint")
    session.close()


def of_work(name, tasks, batch, clients, pack):
    """The floor of steps in batches, after their start; `pack`: the row versions that the pack writes."""
    make_tables(name, tasks, "complete")
    FOLDER.mkdir(exist_ok=True)
    for table in ("tasks", "steps"):
        query(f"insert into floor.{table} {ROWS[table]}")
    keys = [
        line.split("|")
        for line in query(
            "select task_uuid, step_uuid from floor.steps join floor.chosen using (task_uuid) "
            "order by place, level, task_uuid, step_uuid"
        ).splitlines()
    ]
    batches = [keys[i : i + batch] for i in range(0, len(keys), batch)]
    rows = {table: parts(export(table, False, order), len(batches)) for table, order in ORDER.items()}
    versions = min(len(VERSIONS), max(1, round(pack.of_steps)))
    small = batch < 100 and versions == 2
    if small:
        stage(rows)
    scripts = []
    for client, numbers in enumerate(parts(range(len(batches)), clients)):
        text = at_once(rows, batch) if small else prepared(versions, batch)
        for number in numbers:
            if small:
                text += worked_at_once(batches[number], batches[(number + 1) % len(batches)], number, batch)
                continue
            text += "begin;\n" + changes(batches[number], versions, pack.of_tasks, batch)
            text += copies(rows, number) + "commit;\n"
        scripts.append(put([text], f"client_{client}.sql"))
    tidy()
    took, cpu = run_scripts(scripts)
    return Floor(len(keys) / took, cpu / len(keys) * 1e6)


def of_start(name, tasks, each, state="pending"):
    """The floor of starting tasks, so many in a transaction, by one client: tasks a second."""
    found = make_tables(name, tasks, state)
    FOLDER.mkdir(exist_ok=True)
    rows = {
        table: parts(export(table, True, "c.task_uuid"), max(1, found // each))
        for table in ("tasks", "steps", "edges", "step_log", "task_log", "events")
    }
    text = "".join(f"begin;\n{copies(rows, number)}commit;\n" for number in range(max(1, found // each)))
    tidy()
    took, _ = run_scripts([put([text], "start.sql")])
    return found / took

"""Sagas: tasks a second beside OpenStack TaskFlow on the same server, the cost of a task as flows grow, and reverting
many tasks that are done."""

import json
import os
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path

import report_text
import saga_floor
from pgbench import pgbench, script
from report import Beside, at_least, at_most, floor, table
from server import Session, query

QUICK = bool(os.environ.get("BENCH_QUICK"))
ROUNDS = 1 if QUICK else 3
SHAPES = {
    "linear 100": ("linear", 100, 10),
    "linear 1,000": ("linear", 1_000, 20),
    "unordered 200": ("unordered", 200, 10),
}  # and how many times as fast
ENGINES = {"linear": ("serial",), "unordered": ("serial", "parallel")}
SIZES = (10, 100, 1_000) if QUICK else (10, 100, 1_000, 10_000)
BY_HAND = "the same versions, log entries and events by plain SQL, nothing decided"
REVERTED = 1_000 if QUICK else 10_000
ALL = SIZES[-1]  # tasks of each measurement of growth, in flows of each size
BATCH = 100
PYTHON = "/usr/bin/python3"  # Debian's, which has Debian's TaskFlow

# What a worker of the client library sends, a batch at a time: it reports as it claims.
TASK = report_text.element(
    ("flow_uuid",),
    ("node", "token"),
    "case when c.name = 'fails' and c.action = 'execute' then '\"failure\": {\"message\": \"no\"}' "
    "else '\"result\": 1' end",
)
WORK = f"""select {report_text.array(TASK, report_text.CLAIMED)} as got
    from pawl_saga.report_and_claim(:got::jsonb, 'worker ' || :client_id, '%s', %d) c \\gset
"""


def define(name, shape, tasks, queue="default", execute="", last=None):
    """A flow of so many tasks, and of one behind them if it is named."""
    handler = {"execute": execute} if execute else {"queue": queue}
    flow = {"flow": shape, "name": name, "children": [{"task": f"t{n}", **handler} for n in range(tasks)]}
    if last:
        flow = {
            "flow": "linear",
            "name": name,
            "children": [{**flow, "name": f"{name}s"}, {"task": last, "queue": last}],
        }
    query(f"select pawl_saga.define($json${json.dumps(flow)}$json$)")


def tidy():
    session = Session()
    session.run("vacuum analyze")
    session.run("checkpoint")
    session.close()


def work(queue, batch, tasks, clients=1):
    calls = -(-tasks // batch // clients) + 4
    return pgbench(script("saga_work", WORK % (queue, batch)), clients, "-D", "got=[]", "-t", calls)


def ended(name, state="SUCCESS"):
    """seconds from making each flow of a name to its end, and which flows these were"""
    rows = query(
        "select extract(epoch from r.ended_at - f.created_at), f.state from pawl_saga.flows f join pawl_saga.runs r "
        "using (flow_uuid, run) "
        f"where f.name = '{name}' order by f.created_at"
    ).splitlines()
    if any(row.split("|")[1] != state for row in rows):
        raise SystemExit(f"bench: flows {name} ended as {rows[:5]}")
    return [float(row.split("|")[0]) for row in rows]


def ours(label):
    """tasks a second of one flow: by a worker, and, as SQL functions, by pawl_saga.run_sql_tasks"""
    shape, tasks, _ = SHAPES[label]
    batch = 1 if shape == "linear" else 10
    tidy()
    query(f"select pawl_saga.start('{label}')")
    work(label, batch, tasks)
    session = Session()
    session.run(f"select pawl_saga.start('{label} sql')")
    for _ in range(tasks // BATCH + 1):
        session.run(f"select done from pawl_saga.run_sql_tasks({BATCH})")
    session.close()
    return tasks / ended(label)[-1], tasks / ended(f"{label} sql")[-1]


def theirs(label):
    """tasks a second of the faster of TaskFlow's engines, each in an empty database; or None"""
    shape, tasks, _ = SHAPES[label]
    took = []
    for engine in ENGINES[shape]:
        subprocess.run(["dropdb", "--if-exists", "taskflow"], check=True, capture_output=True)
        subprocess.run(["createdb", "taskflow"], check=True)
        run = subprocess.run(
            [PYTHON, Path(__file__).parent / "taskflow_run.py", "taskflow", shape, str(tasks), engine],
            capture_output=True,
            text=True,
        )
        if run.returncode != 0:
            if "No module named" in run.stderr:
                return None
            raise SystemExit(f"bench: TaskFlow: {run.stderr.strip()[-500:]}")
        took.append(float(run.stdout))
    return tasks / min(took)


def measure_rates():
    rates = {}
    for label, (shape, tasks, _) in SHAPES.items():
        define(label, shape, tasks, queue=label)
        define(f"{label} sql", shape, tasks, execute="sql:public.nothing")
    for number in range(ROUNDS):
        for label in SHAPES:
            worker, functions = ours(label)
            rates.setdefault((label, "worker"), []).append(worker)
            rates.setdefault((label, "SQL functions"), []).append(functions)
            taskflow = theirs(label)
            if taskflow is None:
                print(
                    "  without TaskFlow: python3-taskflow, python3-sqlalchemy-utils and python3-psycopg2 are missing",
                    flush=True,
                )
            else:
                rates.setdefault((label, "TaskFlow"), []).append(taskflow)
        print(
            f"  round {number + 1} of {ROUNDS}: "
            + "  ".join(f"{label}, {executor} {r[-1]:,.0f}" for (label, executor), r in rates.items())
            + " tasks/s",
            flush=True,
        )
    return rates


def measure_growth():
    """CPU microseconds a task by (shape, size): the same number of tasks in flows of each size"""
    cost = {}
    for shape, batch in (("unordered", BATCH), ("linear", 1)):
        for size in SIZES:
            name = f"{shape} of {size}"
            tasks = min(ALL, 1_000) if shape == "linear" and size < 10_000 else ALL
            define(name, shape, size, queue=name)
            tidy()
            query(f"select count(pawl_saga.start('{name}')) from generate_series(1, {tasks // size})")
            cost[shape, size] = work(name, batch, tasks).cpu / tasks * 1e6
            ended(name)
            print(f"  {name:<20} {cost[shape, size]:,.0f} CPU µs a task", flush=True)
    return cost


def measure_revert():
    """tasks a second of reverting one flow of independent tasks, and CPU microseconds a task, by the number of
    workers"""
    rates = {}
    define("undone", "unordered", REVERTED, queue="undone", last="fails")
    for clients in (1, 4):
        for _ in range(ROUNDS):
            query("select pawl_saga.start('undone')")
            work("undone", BATCH, REVERTED)
            work("fails", 1, 1)  # fails, and is reverted itself
            tidy()
            run = work("undone", BATCH, REVERTED, clients)
            flow = query("select flow_uuid from pawl_saga.flows where name = 'undone' order by created_at desc limit 1")
            ended("undone", "REVERTED")
            undone, seconds = query(
                "select count(*), extract(epoch from max(l.created_at) - min(l.created_at)) from "
                "pawl_saga.task_transitions l join pawl_saga.tasks t "
                f"using (flow_uuid, node) where l.flow_uuid = '{flow}' and l.to_state in ('REVERTING', 'REVERTED') and "
                "t.name <> 'fails'"
            ).split("|")
            rates.setdefault(clients, []).append((int(undone) / 2 / float(seconds), run.cpu / (int(undone) / 2) * 1e6))
        print(
            f"  reverted by {clients} worker(s): "
            + ", ".join(f"{rate:,.0f}" for rate, _ in rates[clients])
            + f" tasks/s, {statistics.median(cpu for _, cpu in rates[clients]):,.0f} CPU µs a task",
            flush=True,
        )
    return rates


def measure():
    print(f"Sagas: flows beside TaskFlow, {ROUNDS} round(s):", flush=True)
    query(
        "set client_min_messages = warning; create extension pawl_saga cascade;"
        "create function public.nothing(arguments jsonb) returns jsonb language sql immutable as $$ select '1'::jsonb "
        "$$"
    )
    rates = measure_rates()
    growth = measure_growth()
    floors = [saga_floor.of_flow("linear of 1000") for _ in range(ROUNDS)]
    by_hand = saga_floor.Floor(*(statistics.median(getattr(f, what) for f in floors) for what in ("rate", "cpu")))
    print(f"  floor of linear flows: {by_hand.rate:,.0f} tasks/s, {by_hand.cpu:,.0f} CPU µs a task", flush=True)
    return Saga(rates, growth, by_hand, measure_revert())


@dataclass
class Saga:
    rates: dict  # (flow, executor) -> tasks a second
    growth: dict  # (shape, size) -> CPU microseconds a task
    by_hand: saga_floor.Floor  # of a linear flow, one task at a time
    reverts: dict  # workers -> [(tasks a second, CPU microseconds a task)]

    def median(self, label, executor):
        return statistics.median(self.rates[label, executor])

    def targets(self):
        rows = [
            at_least(
                f"sagas: {label}, tasks a second of one worker, times TaskFlow's",
                times,
                self.median(label, "worker") / self.median(label, "TaskFlow"),
                "{:.0f}",
            )
            for label, (_, _, times) in SHAPES.items()
            if (label, "TaskFlow") in self.rates
        ]
        rows.append(
            at_least(
                "sagas: linear 1,000, tasks a second of one worker",
                2_500,
                self.median("linear 1,000", "worker"),
                "{:,.0f}",
            )
        )
        rows.append(floor(BY_HAND, self.by_hand.rate, "{:,.0f}"))
        rows.append(
            at_most(
                "sagas: CPU a task in linear flows, µs, the dearest",
                450,
                max(self.growth["linear", size] for size in SIZES),
                "{:,.0f}",
            )
        )
        rows.append(floor(BY_HAND, self.by_hand.cpu, "{:,.0f}"))
        for shape in ("unordered", "linear"):
            costs = [self.growth[shape, size] for size in SIZES]
            rows.append(
                at_most(
                    f"sagas: CPU a task in {shape} flows of {SIZES[0]} to {SIZES[-1]:,}, the dearest against flows of "
                    f"{SIZES[0]}",
                    1.5,
                    max(costs) / costs[0],
                )
            )
        best = max(statistics.median(rate for rate, _ in samples) for samples in self.reverts.values())
        return rows + [
            at_least(f"sagas: {REVERTED:,} done tasks, independent, reverted a second", 5_000, best, "{:,.0f}")
        ]

    def beside(self):
        return [
            Beside(
                f"tasks a second of a saga, {label}, one worker",
                self.median(label, "worker"),
                "TaskFlow",
                self.median(label, "TaskFlow"),
                self.median(label, "worker") / self.median(label, "TaskFlow"),
                "the state of each task, written by its engine; enforces nothing in the database",
            )
            for label in SHAPES
            if (label, "TaskFlow") in self.rates
        ]

    def section(self):
        body = []
        for (label, executor), samples in self.rates.items():
            ratio = (
                f"{statistics.median(samples) / self.median(label, 'TaskFlow'):.0f}"
                if executor != "TaskFlow" and (label, "TaskFlow") in self.rates
                else ""
            )
            body.append(
                [
                    f"{label}, {executor}",
                    f"{statistics.median(samples):,.0f}",
                    f"{min(samples):,.0f}–{max(samples):,.0f}",
                    ratio,
                    "",
                ]
            )
        body += [
            [f"flows of {size:,}, {shape}", "", "", "", f"{cost:,.0f}"] for (shape, size), cost in self.growth.items()
        ]
        body.append(
            ["floor of flows of 1,000, linear", f"{self.by_hand.rate:,.0f}", "", "", f"{self.by_hand.cpu:,.0f}"]
        )
        for clients, samples in self.reverts.items():
            seen = [rate for rate, _ in samples]
            body.append(
                [
                    f"{REVERTED:,} reverted by {clients} worker(s)",
                    f"{statistics.median(seen):,.0f}",
                    f"{min(seen):,.0f}–{max(seen):,.0f}",
                    "",
                    f"{statistics.median(cpu for _, cpu in samples):,.0f}",
                ]
            )
        return (
            "Sagas",
            table(["what", "tasks/s", "least–most", "TaskFlow ×", "CPU µs/task"], body),
            "Tasks do nothing. A worker reports and claims by one call, a transaction each: one task at "
            "a time in linear flows, ten in unordered ones; SQL "
            f"functions are run by pawl_saga.run_sql_tasks, {BATCH} in a transaction. TaskFlow runs its serial engine, "
            "in unordered flows the faster of serial and parallel, with its records on "
            "the same server. Time is from making the flow to its end. Growth: as many tasks in flows of each size, "
            "unordered in batches of "
            f"{BATCH}, linear one by one. Floor: {BY_HAND} ([saga_floor.py](saga_floor.py)). "
            "Reverts: a flow of independent tasks and one behind them that fails; workers "
            f"claim and report {BATCH} at a time.",
        )

"""Steps of linear workflows: one at a time, as most workers take them, and in batches, beside absurd's checkpoints,
pgflow's steps, and the floor."""

import os
import statistics
from dataclasses import dataclass

import dag
import floor
import sources
from pgbench import pgbench, script
from report import Beside, at_least, at_most, table
from server import query

QUICK = bool(os.environ.get("BENCH_QUICK"))
CLIENTS = 4
STEPS = 10  # of a workflow
BATCHES = (1, 10, 100)
ROUNDS = 2 if QUICK else 5
SECONDS = 2 if QUICK else 6
FLOWS = {1: 600, 10: 1_500, 100: 3_000}  # a second: more than any of them completes
FLOOR_TASKS = {1: 200, 10: 400, 100: 800}  # of which the rows are written again
WANTED_CPU = {1: 800, 10: 200, 100: 80}

WORKER = "('00000000-0000-4000-8000-00000000000' || :client_id)::uuid"
# A task of absurd is claimed once, and its steps are checkpoints that its worker writes.
# A claim beside others' may find nothing.
ABSURD = (
    "select count(*) as claimed, coalesce(min(run_id::text), '') as run, coalesce(min(task_id::text), '') as task"
    " from absurd.claim_task('tens', 'w' || :client_id, 60, 1) \\gset\n\\if :claimed\n"
    + "".join(
        f"select absurd.set_task_checkpoint_state('tens', :task::uuid, 's{n}', '1', :run::uuid, 60);\n"
        for n in range(STEPS)
    )
    + "select absurd.complete_run('tens', :run::uuid, '1');\n\\endif\n"
)
# As pgflow's worker: it reads messages, starts their tasks, and completes each.
PGFLOW = f"""select coalesce(array_agg(msg_id), '{{}}')::text as ids from pgmq.read('tens', 60, {{batch}}) \\gset
select coalesce(json_agg(t), '[]')::text as tasks
    from pgflow.start_tasks('tens', :ids::bigint[], {WORKER}) t \\gset
select count(*) from json_to_recordset(:tasks::json) t(run_id uuid, step_slug text, task_index integer),
    lateral pgflow.complete_task(t.run_id, t.step_slug, t.task_index, '1') c;
"""


@dataclass
class System:
    database: str
    text: str  # of the script, with {batch}
    fill: str  # starts {flows} workflows
    done: str  # counts the steps that were done
    tables: str = ""  # vacuumed before each round; none: all


def pawl():
    query("set client_min_messages = warning; create extension if not exists pawl_dag cascade")
    dag.define(
        "line_of_ten",
        [{"name": f"s{n}", "dependencies": [f"s{n - 1}"] if n else []} for n in range(STEPS)],
        "tens",
    )
    text = dag.WORK.replace("%s", "tens").replace(f"{dag.BATCH}", "{batch}")
    return System(
        "bench",
        text,
        dag.start("line_of_ten", "tens", "{flows}"),
        "select count(*) from pawl_dag.step_result_audit",
    )


def absurd():
    if database := sources.install("absurd"):
        query("select absurd.create_queue('tens')", database)
        return System(
            database,
            ABSURD,
            "select count(*) from generate_series(1, {flows}) g, lateral absurd.spawn_task('tens', 't', to_jsonb(g))",
            "select count(*) from absurd.c_tens",
        )
    return None


def pgflow():
    if database := sources.install("pgflow"):
        query(
            "select pgflow.create_flow('tens');"
            + "".join(f"select pgflow.add_step('tens', 's{n}', array[{quoted(n - 1)}]::text[]);" for n in range(STEPS))
            + "insert into pgflow.workers (worker_id, queue_name, function_name)"
            f" select ('00000000-0000-4000-8000-00000000000' || n)::uuid, 'tens', 'bench' from generate_series(0, 9) n",
            database,
        )
        return System(
            database,
            PGFLOW,
            "select count(*) from generate_series(1, {flows}) g, lateral pgflow.start_flow('tens', to_jsonb(g))",
            "select count(*) from pgflow.step_tasks where status = 'completed'",
        )
    return None


def quoted(n):
    return f"'s{n}'" if n >= 0 else ""


def one_round(name, system, batch):
    """steps a second, and CPU microseconds a step"""
    query(system.fill.replace("{flows}", str(FLOWS[batch] * SECONDS)), system.database)
    floor.tidy(system.database)
    before = int(query(system.done, system.database))
    path = script(f"steps_{name}_{batch}", system.text.replace("{batch}", str(batch)))
    run = pgbench(path, CLIENTS, *dag.BEGIN, "-T", SECONDS, database=system.database)
    steps = int(query(system.done, system.database)) - before
    return steps / (run.transactions / run.tps), run.cpu / steps * 1e6


def measure():
    print(f"Steps of linear workflows: {CLIENTS} clients, {ROUNDS} rounds of {SECONDS} s:", flush=True)
    systems = {
        name: system for name, system in (("pawl", pawl()), ("absurd", absurd()), ("pgflow", pgflow())) if system
    }
    samples = {}
    floors, packs = {}, {}
    for batch in BATCHES:
        before, done = floor.updates(), int(query(systems["pawl"].done))
        names = [name for name in systems if batch == 1 or name != "absurd"]  # whose workers claim their tasks singly
        for number in range(ROUNDS):
            for name in names[number % len(names) :] + names[: number % len(names)]:
                samples.setdefault((batch, name), []).append(one_round(name, systems[name], batch))
            print(
                f"  batch {batch}, round {number + 1} of {ROUNDS}: "
                + "  ".join(f"{n} {samples[batch, n][-1][0]:,.0f}" for n in names)
                + " steps/s",
                flush=True,
            )
        pack = packs[batch] = floor.written(before, int(query(systems["pawl"].done)) - done)
        floors[batch] = floor.of_work("line_of_ten", FLOOR_TASKS[batch], batch, CLIENTS, pack)
        print(
            f"  batch {batch}: floor of {pack.of_steps:.2f} versions of a step and {pack.of_tasks:.2f} of its task: "
            f"{floors[batch].rate:,.0f} steps a second, {floors[batch].cpu:.0f} µs of CPU a step",
            flush=True,
        )
    return Steps(samples, floors, packs)


@dataclass
class Steps:
    samples: dict  # (batch, system) -> [(steps a second, CPU microseconds a step)]
    floors: dict  # batch -> floor.Floor
    packs: dict  # batch -> floor.Written

    def median(self, batch, name, what=0):
        return statistics.median(s[what] for s in self.samples[batch, name])

    def ratio(self, batch, name):
        """pawl against a peer in the same round, then the median"""
        pairs = zip(self.samples[batch, "pawl"], self.samples[batch, name])
        return statistics.median(ours[0] / theirs[0] for ours, theirs in pairs)

    def targets(self):
        rows = [
            at_most(
                f"workflows: CPU µs a step of linear flows, batch {batch} (floor: {self.floors[batch].cpu:,.0f})",
                WANTED_CPU[batch],
                self.median(batch, "pawl", 1),
                "{:,.0f}",
            )
            for batch in BATCHES
        ]
        if (1, "absurd") in self.samples:
            what = f"workflows: linear flows of {STEPS}, one step at a time, times absurd's checkpoints"
            rows.append(at_least(what, 1.0, self.ratio(1, "absurd")))
        return rows

    def beside(self):
        keeps = {
            "absurd": "one row a step, written again at each attempt; no log of states, no rule on its tables",
            "pgflow": "a row a step; no log of states, no rule on its tables",
        }
        return [
            Beside(
                f"steps a second of linear workflows, {f'batches of {batch}' if batch > 1 else 'one at a time'}",
                self.median(batch, "pawl"),
                f"{name} ({sources.revision(name)})",
                self.median(batch, name),
                self.ratio(batch, name),
                keeps[name],
            )
            for batch, name in self.samples
            if name != "pawl"
        ]

    def section(self):
        body = []
        for batch, name in self.samples:
            rates = [s[0] for s in self.samples[batch, name]]
            body.append(
                [
                    f"{name}, batch {batch}",
                    f"{self.median(batch, name):,.0f}",
                    f"{min(rates):,.0f}–{max(rates):,.0f}",
                    f"{self.median(batch, name, 1):,.0f}",
                    "" if name == "pawl" else f"{self.ratio(batch, name):.2f}",
                ]
            )
        for batch, least in self.floors.items():
            ratio = self.median(batch, "pawl") / least.rate
            body.append([f"the floor, batch {batch}", f"{least.rate:,.0f}", "", f"{least.cpu:,.0f}", f"{ratio:.2f}"])
        versions = ", ".join(f"{p.of_steps:.2f} and {p.of_tasks:.2f}" for p in self.packs.values())
        return (
            "Steps of linear workflows",
            table(["system", "steps/s", "least–most", "CPU µs/step", "pawl ×"], body),
            f"Workflows of {STEPS} steps, each of which waits for the one before; {CLIENTS} clients of pgbench send "
            "what "
            f"a worker sends, {ROUNDS} rounds of {SECONDS} s across the systems. pawl claims and reports, and moves "
            "the tasks on; absurd claims a task and writes a checkpoint a step; pgflow reads messages, starts their "
            "tasks and completes each. Steps do nothing. pawl keeps its log and its audit of results; the others keep "
            "none. CPU is that of all server processes. The floor is what PostgreSQL takes for the same rows and index "
            "entries, with nothing to decide, to claim or to look for: bare UPDATEs by key, in as many versions as the "
            f"pack writes (of a step and of its task, by batch: {versions}), and COPY of what is inserted, or one "
            "statement for all of it in small batches. A target below its floor cannot be met with these rows.",
        )

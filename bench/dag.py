"""Workflows: steps a second through fans of ten with a join beside job queues without a log and beside the floor,
starting tasks, maps, readiness among much history, latency."""

import json
import os
import shutil
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import floor
import report_text
from pgbench import pgbench, script
from report import Beside, at_least, at_most, table
from report import floor as floor_row
from server import Session, query

QUICK = bool(os.environ.get("BENCH_QUICK"))
CLIENTS = 4
BATCH = 100
ROUNDS = 2 if QUICK else 5
SECONDS = 3 if QUICK else 6
WAITING = (1_500 if QUICK else 4_000) * SECONDS // 3  # tasks of twelve steps, more than a round completes
JOBS = 3_000 if QUICK else 10_000
STARTS = 10 if QUICK else 50
HISTORY = 100_000 if QUICK else 5_000_000
MAPS = (100, 1_000, 10_000) if QUICK else (100, 1_000, 10_000, 100_000)
SAMPLES = 30 if QUICK else 200
PROGRAMS = Path(os.environ["PAWL_TOP"]) / "build/programs/client"
SETTINGS = {"off": "-c synchronous_commit=off", "on": "-c synchronous_commit=on"}
FLOOR_TASKS = 400 if QUICK else 2_000
BASELINES = {"graphile-worker": "graphile-worker@0.16", "pg-boss": "pg-boss@10"}

# What a worker of the client library sends, a batch at a time: it reports what it has, and claims what is next.
WORK = f"""select {report_text.array(report_text.STEP, report_text.CLAIMED)} as got
    from pawl_dag.report_and_claim(:got::jsonb, '00000000-0000-4000-8000-00000000000' || :client_id, '%s', {BATCH},
        '60 s', {BATCH}) c \\gset
"""
BEGIN = ("-D", "got=[]")


def define(name, steps, namespace):
    text = json.dumps({"name": name, "namespace": namespace, "identity_strategy": "always_unique", "steps": steps})
    query(f"select pawl_dag.define_template($json${text}$json$)")


def start(name, namespace, tasks, context="'{}'::jsonb"):
    return (
        f"select count(*) from pawl_dag.start_tasks('{name}', array(select {context} from generate_series(1, "
        f"{tasks})), '{namespace}')"
    )


def define_all():
    query("set client_min_messages = warning; create extension if not exists pawl_dag cascade")
    middle = [f"s{n}" for n in range(10)]
    define(
        "fan",
        [
            {"name": "first"},
            *({"name": n, "dependencies": ["first"]} for n in middle),
            {"name": "last", "dependencies": middle},
        ],
        "fans",
    )
    define("ten", [{"name": f"s{n}", "dependencies": [f"s{n - 1}"] if n % 5 else []} for n in range(10)], "tens")
    define(
        "linear",
        [{"name": f"s{n}", "handler": "sleep", "dependencies": [f"s{n - 1}"] if n else []} for n in range(4)],
        "lines",
    )
    define("map", [{"name": "each", "map": "items"}, {"name": "join", "dependencies": ["each"]}], "maps")


def results():
    return int(query("select count(*) from pawl_dag.step_result_audit"))


def fans(commit):
    """steps a second and CPU microseconds a step of one round"""
    waiting = int(query("select count(*) from pawl_dag.tasks where name = 'fan' and completed_at is null"))
    for _ in range(0, WAITING - waiting, 500):
        query(start("fan", "fans", 500))
    floor.tidy()
    before = results()
    run = pgbench(script("dag_fans", WORK % "fans"), CLIENTS, *BEGIN, "-T", SECONDS, settings=SETTINGS[commit])
    steps = results() - before
    return steps / (run.transactions / run.tps), run.cpu / steps * 1e6


def install_baselines():
    """a folder with the two queues in it, or why there is none"""
    if not shutil.which("node") or not shutil.which("npm"):
        return None, "node and npm are not here"
    folder = Path(os.environ["PAWL_RUN"]) / "queues"
    folder.mkdir()
    shutil.copy(Path(__file__).parent / "queues.mjs", folder)
    done = subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, *BASELINES.values(), "pg@8"],
        capture_output=True,
        text=True,
    )
    return (folder, "") if done.returncode == 0 else (None, "npm could not install them")


def baseline(folder, name, commit):
    database = f"queue_{name.replace('-', '_')}"
    subprocess.run(["dropdb", "--if-exists", database], check=True, capture_output=True)
    subprocess.run(["createdb", database], check=True)
    done = subprocess.run(
        ["node", "queues.mjs", name, str(JOBS)],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PGDATABASE": database, "PGOPTIONS": SETTINGS[commit]},
    )
    if done.returncode != 0:
        raise SystemExit(f"bench: {name}: {done.stderr.strip()[-500:]}")
    return float(done.stdout.split()[-1])


def measure_throughput():
    folder, missing = install_baselines()
    if missing:
        print(f"  without graphile-worker and pg-boss: {missing}", flush=True)
    rates = {}
    before, done = floor.updates(), results()
    for commit in SETTINGS:
        for number in range(ROUNDS):
            rates.setdefault((commit, "pawl_dag"), []).append(fans(commit))
            for name in BASELINES if folder else ():
                rates.setdefault((commit, name), []).append((baseline(folder, name, commit), None))
            print(
                f"  synchronous_commit {commit}, round {number + 1} of {ROUNDS}: "
                + "  ".join(f"{n} {r[-1][0]:,.0f}" for (c, n), r in rates.items() if c == commit)
                + " a second",
                flush=True,
            )
    return rates, floor.written(before, results() - done)


def measure_floor(pack):
    """what PostgreSQL takes for the same rows, of steps in batches and of starts"""
    floors = [floor.of_work("fan", FLOOR_TASKS, BATCH, CLIENTS, pack) for _ in range(ROUNDS)]
    work = floor.Floor(*(statistics.median(getattr(f, what) for f in floors) for what in ("rate", "cpu")))
    print(
        f"  floor of {pack.of_steps:.2f} versions of a step and {pack.of_tasks:.2f} of its task: "
        f"{work.rate:,.0f} steps a second, {work.cpu:.0f} µs of CPU a step",
        flush=True,
    )
    return work


def measure_start():
    """tasks of ten steps a second: one statement starts a hundred; and the floor of that"""
    session = Session()
    session.run(start("ten", "tens", 100))
    took = [session.seconds(start("ten", "tens", 100)) for _ in range(STARTS)]
    session.close()
    started = 100 / statistics.median(took)
    least = statistics.median(floor.of_start("ten", 100 * STARTS, 100) for _ in range(3))
    print(f"  start: {started:,.0f} tasks of 10 steps a second; floor {least:,.0f}", flush=True)
    return started, least


def measure_maps():
    """steps a second, start to join, for each size: the batches of one client, as the library's worker sends them; and
    the floor of the largest, whose start and work come one after the other"""
    rates = {}
    before = floor.updates()
    for size in MAPS:
        tasks = MAPS[-1] // size
        floor.tidy()
        began = time.time()
        query(
            f"select count(*) from pawl_dag.start_tasks('map', array(select jsonb_build_object('items', "
            f"(select jsonb_agg(g) from generate_series(1, {size}) g)) from generate_series(1, {tasks})), 'maps')"
        )
        path = script("dag_maps", WORK % "maps")
        while query("select count(*) from pawl_dag.tasks where name = 'map' and completed_at is null") != "0":
            # empty ones at the end cost next to nothing; what a run that was too short still holds is taken back
            pgbench(path, 1, *BEGIN, "-t", 2 * (size + 1) * tasks // BATCH + 10)
            query("select pawl.reap('pawl_dag.steps', 10000)")
        rates[size] = (size + 1) * tasks / (time.time() - began)
        print(f"  map of {size:,}: {rates[size]:,.0f} steps a second", flush=True)
    pack = floor.written(before, sum((size + 1) * (MAPS[-1] // size) for size in MAPS))
    start_rate = floor.of_start("map", 1, 1, "complete") * MAPS[-1]
    least = 1 / (1 / start_rate + 1 / floor.of_work("map", 1, BATCH, 1, pack).rate)
    print(f"  floor of a map of {MAPS[-1]:,}: {least:,.0f} steps a second", flush=True)
    return rates, least


def measure_readiness():
    """milliseconds, median, of step_readiness of a task of ten steps among so many steps"""
    for _ in range(0, HISTORY // 10, 1_000):
        query(start("ten", "history", 1_000).replace("'history'", "'tens'"))
    floor.tidy()
    tasks = query("select task_uuid from pawl_dag.tasks tablesample system (1) where name = 'ten' limit 300").split()
    session = Session()
    took = [session.seconds(f"select count(*) from pawl_dag.step_readiness('{task}')") * 1000 for task in tasks][20:]
    session.close()
    steps = int(query("select count(*) from pawl_dag.steps"))
    print(f"  readiness among {steps:,} steps: {statistics.median(took):.2f} ms", flush=True)
    return steps, statistics.median(took)


def measure_latency():
    """milliseconds from start to complete of four linear steps: one pawld, one worker, nothing else to do"""
    if not (PROGRAMS / "pawld").exists():
        print("  latency: programs are missing (make programs)", flush=True)
        return []
    floor.tidy()  # what was measured before must not be written to disk meanwhile
    environment = {**os.environ, "PGDATABASE": "bench"}
    programs = [
        subprocess.Popen(
            [PROGRAMS / name, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for name, arguments in (("pawld", []), ("example_worker", ["lines", "4", "0"]))
    ]
    session = Session()
    try:
        for number in range(SAMPLES + 5):
            task = session.run("select pawl_dag.start_task('linear', namespace => 'lines')")[0]
            while session.run(f"select completed_at is not null from pawl_dag.tasks where task_uuid = '{task}'") != [
                "t"
            ]:
                time.sleep(0.2)  # looks seldom, and lets everybody fall asleep
    finally:
        for program in programs:
            program.terminate()
            program.wait()
        session.close()
    took = [
        float(ms)
        for ms in query(
            "select extract(epoch from completed_at - created_at) * 1000 from pawl_dag.tasks where name = 'linear' "
            "order by created_at offset 5"
        ).split()
    ]
    print(
        f"  latency of four linear steps: p50 {percentile(took, 50):.1f} ms, p99 {percentile(took, 99):.1f} ms",
        flush=True,
    )
    return took


def percentile(values, p):
    return statistics.quantiles(values, n=100, method="inclusive")[p - 1]


def measure():
    print(f"Workflows: {CLIENTS} clients, batches of {BATCH}, {ROUNDS} rounds of {SECONDS} s:", flush=True)
    define_all()
    latency = measure_latency()
    rates, pack = measure_throughput()
    work = measure_floor(pack)
    started, start_floor = measure_start()
    maps, map_floor = measure_maps()
    return Dag(rates, latency, started, maps, *measure_readiness(), pack, work, start_floor, map_floor)


@dataclass
class Dag:
    rates: dict  # (synchronous commit, system) -> [(steps or jobs a second, CPU microseconds a step)]
    latency: list  # milliseconds
    started: float  # tasks a second
    maps: dict  # size -> steps a second
    history: int  # steps
    readiness: float  # milliseconds
    pack: floor.Written  # row versions of the pack in fans
    work: floor.Floor  # of a step of fans
    start_floor: float  # tasks a second
    map_floor: float  # steps a second

    def median(self, commit, name, what=0):
        return statistics.median(r[what] for r in self.rates[commit, name])

    def against(self, name):
        """pawl against a peer in the same round, then the median"""
        pairs = zip(self.rates["off", "pawl_dag"], self.rates["off", name])
        return statistics.median(ours[0] / theirs[0] for ours, theirs in pairs)

    def targets(self):
        largest = f"map of {MAPS[-1]:,}"
        rows = [
            at_least(
                "workflows: steps a second, fans of 10 with a join, 4 clients, with log and audit "
                f"(floor: {self.work.rate:,.0f})",
                25_000,
                self.median("off", "pawl_dag"),
                "{:,.0f}",
            ),
            at_least(
                f"workflows: tasks of 10 steps started a second, 100 a statement (floor: {self.start_floor:,.0f})",
                8_000,
                self.started,
                "{:,.0f}",
            ),
            at_least(
                f"workflows: {largest}: steps a second of one client (floor: {self.map_floor:,.0f})",
                15_000,
                self.maps[MAPS[-1]],
                "{:,.0f}",
            ),
            at_most(
                f"workflows: {largest}: how much slower a step is than in maps of 100",
                1.5,
                self.maps[100] / self.maps[MAPS[-1]],
            ),
            at_most(f"workflows: readiness of a task among {self.history:,} steps, ms, median", 0.5, self.readiness),
        ]
        if ("off", "pg-boss") in self.rates:
            rows += [
                at_least("workflows: steps of fans, times jobs of pg-boss", 1.5, self.against("pg-boss")),
                floor_row(
                    "the same versions, index entries and log entries by plain SQL and COPY, nothing decided",
                    self.work.rate / self.median("off", "pg-boss"),
                ),
            ]
        if self.latency:
            rows += [
                at_most("workflows: latency of four linear steps, ms, p50", 8, percentile(self.latency, 50), "{:.1f}"),
                at_most("workflows: latency of four linear steps, ms, p99", 16, percentile(self.latency, 99), "{:.1f}"),
            ]
        return rows

    def beside(self):
        return [
            Beside(
                "steps a second of fans of ten with a join, batches of 100; the peer's jobs depend on nothing",
                self.median("off", "pawl_dag"),
                name,
                self.median("off", name),
                self.against(name),
                "nothing of how a job came to its state",
            )
            for name in BASELINES
            if ("off", name) in self.rates
        ]

    def section(self):
        body = []
        for commit, name in self.rates:
            rates = [r[0] for r in self.rates[commit, name]]
            ours = self.median(commit, "pawl_dag")
            body.append(
                [
                    f"{name}, synchronous_commit {commit}",
                    f"{statistics.median(rates):,.0f}",
                    f"{min(rates):,.0f}–{max(rates):,.0f}",
                    f"{ours / statistics.median(rates):.2f}",
                    f"{self.median(commit, name, 1):.0f}" if name == "pawl_dag" else "",
                ]
            )
        ratio = self.median("off", "pawl_dag") / self.work.rate
        body.append(["the floor of pawl_dag", f"{self.work.rate:,.0f}", "", f"{ratio:.2f}", f"{self.work.cpu:.0f}"])
        body += [[f"map of {size:,}, one client", f"{rate:,.0f}", "", "", ""] for size, rate in self.maps.items()]
        body.append([f"the floor of a map of {MAPS[-1]:,}", f"{self.map_floor:,.0f}", "", "", ""])
        return (
            "Workflows",
            table(["what", "steps or jobs/s", "least–most", "pawl_dag ×", "CPU µs/step"], body),
            f"A workflow is a step, ten that wait for it, and one that waits for these; {CLIENTS} clients move tasks "
            "on, claim with inputs and report in batches of "
            f"{BATCH}, {ROUNDS} rounds of {SECONDS} s. Every step has its whole log and a row of the audit. The job "
            f"queues run {JOBS:,} single jobs that depend on nothing "
            "and keep no log: graphile-worker job by job in one node process over four connections, pg-boss by batches "
            "of 100 from four loops. The floors are what PostgreSQL takes for the same rows and index entries, with "
            "nothing to decide, to claim or to look for: bare UPDATEs by key, in as many versions as the pack writes "
            f"({self.pack.of_steps:.2f} of a step and {self.pack.of_tasks:.2f} of its task), and COPY of what is "
            f"inserted (bench/floor.py). Starts: {self.started:,.0f} tasks of ten steps a second, "
            f"floor {self.start_floor:,.0f}. A target above its floor cannot be met with these rows.",
        )

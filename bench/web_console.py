"""The console in front of 1,000,000 tasks and 10,000,000 steps for the part `http`: each question it asks, and the
first view in a browser."""

import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
import urllib.request
from contextlib import contextmanager

from server import query
from web_daemon import DATABASE

QUICK = bool(os.environ.get("BENCH_QUICK"))
TASKS = 20_000 if QUICK else 1_000_000
STEPS = 10
TIMES = 3 if QUICK else 7
VIEWS = 3 if QUICK else 5

# A history as a year of work leaves it, written past the triggers: 1 in 200 is blocked and a dead letter, 1 in 200 has
# failed, 1 in 200 was cancelled, the newest 1 in 200 are at work.
TASK_ROWS = f"""
insert into pawl_dag.tasks (task_uuid, template_uuid, namespace, name, version, state, rank, context, identity_key,
    evaluate, created_at, deadline_at, entered_at, watch_at,
                            completed_at, steps_total, steps_satisfied, steps_failed, steps_ready, steps_in_flight,
                            steps_blocked)
select pawl.uuid_v7(), t.template_uuid, 'default', case g % 5 when 0 then 'invoice' else 'order' end, t.version,
    s.state, 0, jsonb_build_object('order', g), 'task ' || g, false,
       a.at, a.at + interval '1 day', a.at + interval '1 minute', case when s.state = 'steps_in_process' then
           clock_timestamp() + interval '1 day' end,
       case when s.state in ('complete', 'cancelled', 'error') then a.at + interval '1 minute' end,
       {STEPS}, case s.state when 'complete' then {STEPS} else 3 end,
           (s.state in ('error', 'blocked_by_failures'))::integer,
       case s.state when 'steps_in_process' then 4 else 0 end, case s.state when 'steps_in_process' then 1 else 0 end,
           case s.state when 'complete' then 0 else 2 end
  from generate_series(1, {TASKS}) g,
       lateral (select clock_timestamp() - ({TASKS} - g) * interval '30 s' as at) a,
       lateral (select case when g > {TASKS} * 0.995 then 'steps_in_process' when g % 200 = 0 then 'blocked_by_failures'
           when g % 200 = 1 then 'error' when g % 200 = 2 then 'cancelled'
                            else 'complete' end as state) s,
       (select template_uuid, version from pawl_dag.templates where name = 'order') t;
"""
STEP_ROWS = f"""
insert into pawl_dag.steps (task_uuid, step_uuid, name, state, namespace, rank, handler, level, total_parents,
    unsatisfied_parents, attempts, result, error, created_at,
                            last_attempted_at, worker_uuid, lease_until)
select t.task_uuid, pawl.uuid_v7(), 'step ' || n, s.state, 'default', 0, 'shop.work', n, (n > 0)::integer,
    (s.state = 'pending')::integer, (s.state <> 'pending')::integer,
       case s.state when 'complete' then '{{"done": true}}'::jsonb end,
           case s.state when 'error' then '{{"message": "the card was declined"}}'::jsonb end, t.created_at,
           t.entered_at,
       case s.state when 'in_progress' then '00000000-0000-4000-8000-000000000001'::uuid end,
           case s.state when 'in_progress' then clock_timestamp() + interval '1 day' end
  from pawl_dag.tasks t cross join generate_series(0, {STEPS - 1}) n,
       lateral (select case when t.state = 'complete' or n < 3 then 'complete'
                            when t.state = 'steps_in_process' then case when n < 7 then 'enqueued' when n = 7 then
                            'in_progress' else 'pending' end
                            when t.state in ('error', 'blocked_by_failures') and n = 3 then 'error'
                            when t.state = 'cancelled' then 'cancelled' else 'pending' end as state) s;
"""
DLQ_ROWS = """
insert into pawl_dag.dlq (task_uuid, original_state, reason, dlq_timestamp, resolution_status, task_snapshot)
select task_uuid, 'steps_in_process', 'max_retries_exceeded', entered_at,
    case state when 'error' then 'permanently_failed' else 'pending' end, '{}'
  from pawl_dag.tasks where state in ('error', 'blocked_by_failures');
"""
TABLES = ("tasks", "steps", "dlq")


def fill():
    """The history. Seconds."""
    began = time.time()
    query(
        "select pawl_dag.define_template($${\"name\": \"order\", \"version\": \"1.0.0\", \"identity_strategy\": "
        "\"always_unique\", \"steps\": [{\"name\": \"step 0\", \"handler\": \"shop.work\"}]}$$);"
        "select pawl_dag.start_tasks('order', array(select jsonb_build_object('order', g) from generate_series(1, 20) "
        "g));"
        + "".join(f"alter table pawl_dag.{t} disable trigger all;" for t in TABLES)
        + TASK_ROWS
        + STEP_ROWS
        + DLQ_ROWS
        + "".join(f"alter table pawl_dag.{t} enable trigger all;" for t in TABLES),
        DATABASE,
    )
    query("vacuum analyze", DATABASE)
    print(f"  {TASKS:,} tasks of {STEPS} steps are there after {time.time() - began:.0f} s", flush=True)


def questions(daemon):
    """What each page asks, by page."""
    task = query(
        "select task_uuid from pawl_dag.tasks where state = 'blocked_by_failures' order by task_uuid desc limit 1",
        DATABASE,
    )
    return {
        "overview": ["/v1/session", "/v1/overview"],
        "tasks": ["/v1/templates", "/v1/tasks"],
        "tasks by state, blocked": ["/v1/tasks?state=blocked_by_failures"],
        "tasks by template": ["/v1/tasks?name=invoice"],
        "tasks by age": [
            "/v1/tasks?created_before="
            + query(
                "select to_char(min(created_at) + (max(created_at) - min(created_at)) / 2, 'YYYY-MM-DD') from "
                "pawl_dag.tasks",
                DATABASE,
            )
        ],
        "tasks by key": ["/v1/tasks?identity_key=task%201000"],
        "tasks by a key without a task": ["/v1/tasks?identity_key=missing"],
        "a task": [
            f"/v1/tasks/{task}",
            f"/v1/tasks/{task}/context",
            f"/v1/tasks/{task}/transitions",
            f"/v1/tasks/{task}/timings",
        ],
        "dead letters": ["/v1/dlq?status=pending", "/v1/dlq/stats"],
        "machine of tasks": [
            "/v1/machines/pawl_dag.task",
            "/v1/machines/pawl_dag.task/counts",
            "/v1/machines/pawl_dag.task/slowest",
        ],
        "machine of steps": [
            "/v1/machines/pawl_dag.step",
            "/v1/machines/pawl_dag.step/counts",
            "/v1/machines/pawl_dag.step/slowest",
        ],
    }


def measure_questions(daemon):
    """Milliseconds of each question: the first time, and the median."""
    times = {}
    for page, paths in questions(daemon).items():
        for path in paths:
            took = daemon.milliseconds(path, TIMES + 1)
            times[page, path.replace(path.split("/")[3], "{task}", 1) if path.startswith("/v1/tasks/") else path] = (
                took[0],
                statistics.median(took[1:]),
            )
        print(f"  {page}: " + ", ".join(f"{times[k][1]:.0f}" for k in times if k[0] == page) + " ms", flush=True)
    return times


class Browser:
    """Chromium without a window by WebDriver."""

    def __init__(self, driver, folder):
        self.base = driver
        self.session = self.ask(
            "POST",
            "/session",
            {
                "capabilities": {
                    "alwaysMatch": {
                        "goog:chromeOptions": {
                            "args": [
                                "--headless=new",
                                "--no-sandbox",
                                "--disable-gpu",
                                "--disable-dev-shm-usage",
                                "--no-first-run",
                                "--disable-background-networking",
                                f"--user-data-dir={folder}",
                            ]
                        }
                    }
                }
            },
        )["sessionId"]

    def ask(self, method, path, body=None):
        request = urllib.request.Request(
            self.base + path,
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def call(self, path, body):
        return self.ask("POST", f"/session/{self.session}{path}", body)

    def run(self, script):
        return self.call("/execute/sync", {"script": script, "args": []})


@contextmanager
def browser():
    folder = tempfile.mkdtemp()
    driver = subprocess.Popen(
        ["chromedriver", "--port=0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "HOME": folder},
    )
    try:
        for line in driver.stdout:
            if "successfully on port" in line:
                port = line.rstrip().rstrip(".").split()[-1]
                break
        one = Browser(f"http://127.0.0.1:{port}", folder + "/profile")
        yield one
        one.ask("DELETE", f"/session/{one.session}")
    finally:
        driver.terminate()
        driver.wait()
        shutil.rmtree(folder, ignore_errors=True)


# Of the page's own clock, which begins with the navigation: when what was asked for stood there.
WATCH = """sessionStorage.setItem(%s, %s);
new MutationObserver((_, self) => { if ([...document.querySelectorAll('h2')].some(e => e.textContent.includes(%s)) &&
    document.querySelector(%s)) {
    window.benchSeen = performance.now(); self.disconnect(); } }).observe(document,
        {subtree: true, childList: true, characterData: true});"""


def measure_views(daemon):
    """Milliseconds until the overview stands there with its figures, each time in a browser that has nothing yet."""
    if not shutil.which("chromedriver"):
        return []
    views = []
    for _ in range(VIEWS):
        with browser() as one:
            one.call(
                "/goog/cdp/execute",
                {
                    "cmd": "Page.addScriptToEvaluateOnNewDocument",
                    "params": {
                        "source": WATCH
                        % tuple(json.dumps(text) for text in ("pawl.token", daemon.token, "Queues", "table tbody tr"))
                    },
                },
            )
            one.call("/url", {"url": f"http://127.0.0.1:{daemon.port}/console/"})
            for _ in range(600):
                if seen := one.run("return window.benchSeen ?? null"):
                    break
                time.sleep(0.05)
            views.append(seen or float("inf"))
            print(f"  first view of the overview in Chromium: {views[-1]:,.0f} ms", flush=True)
    return views

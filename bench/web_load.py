"""Load on the HTTP API for the part `http`: requests by wrk, listeners of the event stream, a large file up and
down."""

import hashlib
import json
import os
import re
import socket
import statistics
import subprocess
import time
from pathlib import Path

from pgbench import pgbench, script
from server import PeakMemory, query
from web_daemon import DATABASE

QUICK = bool(os.environ.get("BENCH_QUICK"))
TEMPLATE = {
    "name": "five",
    "identity_strategy": "always_unique",
    "steps": [
        {"name": "first"},
        *({"name": n, "dependencies": ["first"]} for n in ("left", "middle", "right")),
        {"name": "last", "dependencies": ["left", "middle", "right"]},
    ],
}
FILE_MB = 64 if QUICK else 1024
LISTENERS = 100 if QUICK else 500
TRANSITIONS = 5_000  # a second
STREAM_SECONDS = 6 if QUICK else 20


def in_milliseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000}[unit]


def wrk(daemon, path, clients, seconds):
    """requests a second, p50 and p99 in milliseconds, and what went wrong"""
    out = subprocess.run(
        [
            "wrk",
            "-t2",
            f"-c{clients}",
            f"-d{seconds}s",
            "--timeout",
            "10s",
            "--latency",
            "-H",
            "Authorization: Bearer " + daemon.token,
            f"http://127.0.0.1:{daemon.port}{path}",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    got = dict(re.findall(r"^\s+(\d+)%\s+(\S+)$", out, re.M))
    errors = re.findall(r"Socket errors:.*|Non-2xx.*", out)
    return {
        "rate": float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]),
        "p50": in_milliseconds(got["50"]),
        "p99": in_milliseconds(got["99"]),
        "errors": "; ".join(errors),
    }


def a_task():
    query(f"select pawl_dag.define_template($json${json.dumps(TEMPLATE)}$json$)", DATABASE)
    return query("select pawl_dag.start_task('five', '{\"customer\": 42}')", DATABASE)


def measure_reads(daemon, rounds, seconds):
    """GET of a task with its five steps by 50 clients, round by round."""
    path = "/v1/tasks/" + a_task()
    size = len(daemon.get(path))
    wrk(daemon, path, 50, 1)
    runs = [wrk(daemon, path, 50, seconds) for _ in range(rounds)]
    for run in runs:
        print(
            f"  GET of a task by 50 clients: {run['rate']:,.0f} a second, p50 {run['p50']:.1f} ms, p99 "
            f"{run['p99']:.1f} ms {run['errors']}",
            flush=True,
        )
    return {
        "bytes": size,
        "runs": runs,
        "rate": statistics.median(r["rate"] for r in runs),
        "p99": statistics.median(r["p99"] for r in runs),
    }


def measure_database(daemon, rounds, seconds):
    """The statements of the same GETs by pgbench, without pawld and without HTTP: how many the database answers a
    second while no other program takes its processors."""
    digest = hashlib.sha256(daemon.token.encode()).hexdigest()
    asked = json.dumps({"task": query("select min(task_uuid::text) from pawl_dag.tasks", DATABASE)})
    path = script(
        "web_floor",
        f"\\startpipeline\nselect pawl_api.begin_request('bearer', '\\x{digest}', 'read', null);\n"
        f"select pawl_api.get_task('{asked}');\n\\endpipeline\n",
    )
    login = f"user=pawl_authenticator dbname={DATABASE}"
    runs = [pgbench(path, 4, "-T", seconds, database=login, alone=False).tps for _ in range(rounds)]
    print(f"  the same statements by pgbench: {statistics.median(runs):,.0f} a second", flush=True)
    return statistics.median(runs)


def duties(daemon):
    return (
        daemon.metric("pawld_duty_runs_total"),
        daemon.metric("pawld_duty_seconds_total"),
        daemon.metric("pawld_duty_errors_total"),
    )


def milliseconds_a_run(before, after):
    runs, seconds = (sum(after[i].values()) - sum(before[i].values()) for i in (0, 1))
    return seconds / runs * 1000 if runs else 0.0


def measure_crowd(daemon, seconds):
    """200 clients for a minute: errors, memory, and what became of the duties meanwhile."""
    path = "/v1/tasks/" + a_task()
    quiet = duties(daemon)
    time.sleep(min(seconds, 10))
    begin = duties(daemon)
    wrk(daemon, path, 200, 2)
    before = daemon.memory()
    run = wrk(daemon, path, 200, seconds)
    after, end = daemon.memory(), duties(daemon)
    run |= {
        "seconds": seconds,
        "memory_before": before,
        "memory_after": after,
        "duty_quiet": milliseconds_a_run(quiet, begin),
        "duty_loaded": milliseconds_a_run(begin, end),
        "duty_runs": sum(end[0].values()) - sum(begin[0].values()),
        "duty_errors": sum(end[2].values()) - sum(quiet[2].values()),
    }
    print(
        f"  200 clients for {seconds} s: {run['rate']:,.0f} a second, p50 {run['p50']:.1f} ms, p99 {run['p99']:.1f} "
        f"ms; memory {before:.1f} -> {after:.1f} MB; "
        f"a duty takes {run['duty_quiet']:.2f} -> {run['duty_loaded']:.2f} ms {run['errors']}",
        flush=True,
    )
    return run


def send_file(daemon, head, line, lines, tail):
    """An upload by hand: what makes the file must not be what is slow. The answer."""
    begin = (
        f"--XyZ\r\nContent-Disposition: form-data; name=\"operationName\"\r\n\r\nlarge\r\n"
        "--XyZ\r\nContent-Disposition: form-data; name=\"file\"; filename=\"large.csv\"\r\nContent-Type: "
        f"text/csv\r\n\r\n{head}"
    ).encode()
    end = f"{tail}\r\n--XyZ--\r\n".encode()
    block = line.encode() * 100
    length = len(begin) + len(block) * (lines // 100) + len(end)
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=600) as link:
        link.sendall(
            f"POST /api/bulks HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {daemon.token}\r\nContent-Type: "
            "multipart/form-data; boundary=XyZ\r\n"
            f"Content-Length: {length}\r\nConnection: close\r\n\r\n".encode() + begin
        )
        for _ in range(lines // 100):
            link.sendall(block)
        link.sendall(end)
        answer = b""
        while more := link.recv(1 << 16):
            answer += more
    if not answer.startswith(b"HTTP/1.1 201"):
        raise SystemExit(f"bench: upload: {answer[:500]}")
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])


def fetch_file(daemon, path):
    """Bytes of an answer in chunks, whose end must be there."""
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=600) as link:
        link.sendall(f"GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {daemon.token}\r\n\r\n".encode())
        size, end = 0, b""
        while more := link.recv(1 << 20):
            size += len(more)
            end = (end + more)[-5:]
    if end != b"0\r\n\r\n":
        raise SystemExit(f"bench: {path} is not whole")
    return size


def measure_files(daemon):
    """A CSV file up, back as it was, and out again as rows: seconds, and how much pawld's own memory grew at most."""
    query(
        "select pawl_bulk.define('{\"name\": \"large\", \"track_row_data\": true, \"max_input_bytes\": 0, \"steps\": "
        "[{\"name\": \"load\", \"handler\": \"missing\"}]}')",
        DATABASE,
    )
    line = ",".join(["x" * 250] * 4) + "\n"
    lines = FILE_MB * 1024 * 1024 // len(line) // 100 * 100
    result = {"mb": lines * len(line) / 1024 / 1024}
    steps = {
        "up": lambda: send_file(daemon, "a,b,c,d\n", line, lines, "")["operation"],
        "back": lambda id: fetch_file(daemon, f"/api/bulks/{id}/file"),
        "rows": lambda id: fetch_file(daemon, f"/api/bulks/{id}/export?mode=data&format=csv"),
    }
    operation = ()
    for name, step in steps.items():
        with PeakMemory(daemon.process.pid) as memory:
            began = time.time()
            got = step(*operation)
        result[name] = {"seconds": time.time() - began, "growth": memory.peak - memory.start}
        if name == "up":
            operation = (got,)
        elif got < lines * len(line):
            raise SystemExit(f"bench: {name}: {got:,} bytes of {lines * len(line):,}")
        print(
            f"  file of {result['mb']:,.0f} MB, {name}: {result[name]['seconds']:.1f} s, memory "
            f"+{result[name]['growth']:.1f} MB",
            flush=True,
        )
        if name == "back":
            wait_for_rows(operation[0], lines)
    query(f"select pawl_bulk.cancel('{operation[0]}')", DATABASE)
    return result


def wait_for_rows(operation, lines):
    while (
        query(
            f"select status = 'Running' and total_rows = {lines} from pawl_bulk.status where operation = '{operation}'",
            DATABASE,
        )
        != "t"
    ):
        time.sleep(0.2)


def compile_listeners():
    path = Path(os.environ["PAWL_RUN"]) / "listeners"
    subprocess.run(["g++", "-O2", "-std=c++20", "-o", path, Path(__file__).parent / "listeners.cpp"], check=True)
    return path


def measure_stream(daemon):
    """Listeners while rows move at a steady pace: how late each heard of it, and whether all heard all."""
    query(
        "select pawl.define('ball', E'stateDiagram-v2\\n[*] --> left\\nleft --> right : there\\nright --> left : "
        "back');"
        "create table balls (id integer primary key, state text not null default 'left'); select pawl.enforce('balls', "
        "'state', 'ball'), pawl.enable_log('balls', 'state'), pawl.enable_events('balls', 'state');"
        "insert into balls select g from generate_series(1, 100000) g; grant select on balls to pawl_operator",
        DATABASE,
    )
    # pawld reads the insertions first, and the first listener would hear the last of them
    while query("select coalesce(max(behind), 0) from pawl.consumers", DATABASE) != "0":
        time.sleep(0.1)
    listeners = subprocess.Popen(
        [compile_listeners(), "127.0.0.1", str(daemon.port), daemon.token, str(LISTENERS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    if listeners.stdout.readline() != "ready\n":
        raise SystemExit("bench: the listeners are not heard")
    script = Path(os.environ["PAWL_RUN"]) / "balls.pgbench"
    script.write_text(
        "\\set a random(0, 9999)\nupdate balls set state = case state when 'left' then 'right' else 'left' end where "
        "id between :a * 10 + 1 and :a * 10 + 10;\n"
    )
    out = subprocess.run(
        [
            "pgbench",
            "-n",
            "-M",
            "prepared",
            "-c",
            "4",
            "-j",
            "1",
            "--rate",
            str(TRANSITIONS // 10),
            "-T",
            str(STREAM_SECONDS),
            "-f",
            script,
            DATABASE,
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    done = int(re.search(r"actually processed: (\d+)", out)[1])
    rate = float(re.search(r"tps = ([\d.]+)", out)[1]) * 10
    time.sleep(2)  # the last ones are on their way
    said = json.loads(listeners.communicate("")[0])
    said |= {"listeners": LISTENERS, "rate": rate, "moved": done * 10, "seconds": STREAM_SECONDS}
    # the bytes of listeners differ a little, because events come to them in other chunks, but by less than an event
    an_event = said["least"] / max(said["events"], 1)
    said["whole"] = said["events"] == done * 10 and said["most"] - said["least"] < an_event and not said["ended"]
    print(
        f"  {LISTENERS} listeners at {rate:,.0f} transitions a second: lag p50 {said['p50']:.0f} ms, p99 "
        f"{said['p99']:.0f} ms, most {said['max']:.0f} ms; "
        f"{said['events']:,} of {done * 10:,} events, {said['bytes'] / 2 ** 20:,.0f} MB",
        flush=True,
    )
    if not said["whole"]:
        print(f"  not all listeners heard all: {said}", flush=True)
    return said

"""A psql session that times statements, and what /proc knows of the server's processes."""

import os
import re
import subprocess
import threading
import time

TICK = os.sysconf("SC_CLK_TCK")
POSTMASTER = int(os.environ["PAWL_POSTMASTER"])


class Session:
    """One psql for many statements; what fails ends the benchmark."""

    def __init__(self, database="bench"):
        self.process = subprocess.Popen(
            ["psql", "-XAtq", "-d", database, "-v", "ON_ERROR_STOP=1"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def run(self, sql):
        """The lines of the answer."""
        self.process.stdin.write(f"{sql.rstrip().rstrip(';')};\n\\echo @done\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.rstrip("\n") == "@done":
                return lines
            lines.append(line.rstrip("\n"))
        raise SystemExit(f"bench: psql gave up on: {sql.strip()[:300]}")

    def seconds(self, sql):
        """How long one statement took, commit included, as the client sees it."""
        self.run("\\timing on\nselect 1")
        lines = self.run(sql)
        self.process.stdin.write("\\timing off\n")
        times = [float(m[1]) for line in lines if (m := re.match(r"Time: ([0-9.]+) ms", line))]
        return times[-1] / 1000

    def pid(self):
        return int(self.run("select pg_backend_pid()")[0])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def query(sql, database="bench"):
    """Statements in one go (by standard input: they may be long); what comes back, as text."""
    done = subprocess.run(
        ["psql", "-XAtq", "-d", database, "-v", "ON_ERROR_STOP=1"], input=sql, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise SystemExit(f"bench: {done.stderr.strip()}\nbench: in {sql.strip()[:300]}")
    return done.stdout.strip()


def children():
    with open(f"/proc/{POSTMASTER}/task/{POSTMASTER}/children") as file:
        return [int(pid) for pid in file.read().split()]


def is_client_backend(pid):
    """also one that has ended and that the postmaster has not waited for yet"""
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            title = file.read()
        return " [local] " in title or not title
    except (FileNotFoundError, ProcessLookupError):
        return True


def times_of(pid):
    """user and system seconds of a process, and of the children it has waited for"""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK, (int(fields[13]) + int(fields[14])) / TICK


def server_cpu():
    """CPU seconds of the whole server so far: the postmaster, its living children, and the backends that have gone."""
    while any(is_client_backend(pid) for pid in children()):
        time.sleep(0.01)
    own, gone = times_of(POSTMASTER)
    return own + gone + sum(times_of(pid)[0] for pid in children())


class PeakMemory:
    """The highest RssAnon (what a process has for itself, shared memory not counted) while the block runs, in MB."""

    def __init__(self, pid):
        self.pid = pid
        self.peak = 0.0
        self.stop = threading.Event()

    def sample(self):
        with open(f"/proc/{self.pid}/status") as file:
            for line in file:
                if line.startswith("RssAnon:"):
                    self.peak = max(self.peak, int(line.split()[1]) / 1024)

    def watch(self):
        while not self.stop.wait(0.005):
            self.sample()

    def __enter__(self):
        self.sample()
        self.start = self.peak
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        self.sample()

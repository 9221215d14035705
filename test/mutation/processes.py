"""Runs commands and ends whatever they have started."""
import os
import pathlib
import signal
import subprocess
import time


def descendants():
    """Processes below this one: as it is their subreaper, also those whose parent has ended."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = pathlib.Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(int(entry))
    found, look = [], [os.getpid()]
    while look:
        more = children.get(look.pop(), [])
        found += more
        look += more
    return found


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def end_all(first):
    """Ends what was started, the polite way first. A server that hangs is told to quit at once, then killed."""
    try:
        os.kill(first.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    for sent, patience in ((None, 10), (signal.SIGQUIT, 8), (signal.SIGKILL, 5)):
        for pid in descendants() if sent else []:
            try:
                os.kill(pid, sent)
            except ProcessLookupError:
                pass
        until = time.monotonic() + patience
        while time.monotonic() < until:
            first.poll()
            if first.returncode is not None:
                reap()
            if not descendants():
                return
            time.sleep(0.1)


def run(command, folder, limit, environment, log):
    """The status, or None after so many seconds. Whatever it started is ended."""
    with open(log, "wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=environment
        )
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            if process.returncode is None or descendants():
                end_all(process)
            reap()
    return status

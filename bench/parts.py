"""Keeps each part that was measured in bench/results, and joins them on the screen and in bench/RESULTS.md."""

import datetime
import json
import os
import platform
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from peers import BESIDE, Beside, left_out, peers_table
from pgbench import machine_speed
from server import query
from tables import table

# As they are measured, and stand in the file.
ORDER = (
    *("rows", "single", "memory", "define", "claims", "backlog", "snapshot", "timers", "attach", "wake"),
    *("dag", "steps", "bulk", "saga", "http"),
)


def machine():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    with open("/proc/meminfo") as file:
        memory = int(file.readline().split()[1]) // 1024 // 1024
    return (
        f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores, {memory} GB, Linux "
        f"{platform.release().split('-')[0]}"
    )


SETTINGS = (
    "shared_buffers",
    "max_wal_size",
    "wal_level",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "autovacuum",
    "work_mem",
    "jit",
)


def facts():
    settings = ", ".join(f"{name} = {query(f'show {name}')}" for name in SETTINGS)
    version = query("select split_part(version(), ' on ', 1)")
    pawl = query("select extversion from pg_extension where extname = 'pawl'")
    return [
        f"Machine: {machine()}",
        f"Server: {version}, pawl {pawl}",
        f"Settings, the same for every variant: {settings}",
    ]


@dataclass
class Part:
    """A part as it was measured, in one go."""

    name: str
    targets: list  # rows of the table of targets
    title: str
    body: str
    note: str
    when: str
    minutes: float
    load: tuple  # load averages before and after
    facts: list
    beside: list = field(default_factory=list)  # the lines of its peers
    speed: tuple = ()  # of the machine before and after: pgbench.machine_speed

    def measured(self):
        before, after = (f"load average {load:.1f}" for load in self.load)
        if self.speed:
            first, last = self.speed
            before, after = f"{before}, {first:,.0f} answers a second", f"{after}, {last:,.0f} answers a second"
        return f"Measured {self.when} in {self.minutes:.0f} minutes; {before} before, and {after} at the end."


def measure(name, take):
    """The part that take() measures: it returns targets, title with body and note, and the lines of peers."""
    before, started, when = (os.getloadavg()[0], machine_speed()), time.time(), datetime.datetime.now()
    targets, section, beside = take()
    minutes, after = (time.time() - started) / 60, (os.getloadavg()[0], machine_speed())
    loads, speeds = zip(before, after)
    return Part(name, list(targets), *section, f"{when:%Y-%m-%d %H:%M}", minutes, loads, facts(), beside, speeds)


def screen(parts):
    head = "== Targets\n" + targets_table([row for part in parts for row in part.targets])
    lines = [Beside(**line) for part in parts for line in part.beside]
    if lines:
        head = f"== Beside what you would take instead\n{peers_table(lines)}\n{left_out(lines).strip()}\n\n{head}"
    return "\n\n".join([head] + [f"== {part.title}\n{part.body}" for part in parts]) + "\n"


def targets_table(rows):
    return table(["target", "wanted", "measured", ""], rows)


SPEED = "Answers a second are those to `select 1` by two clients: how quick the machine was."
MADE = (
    "Made by `make bench`; run it on your own machine, the ratios are what matters. Each part was measured in one run, "
    f"beside what it is compared with. {SPEED}"
)


def markdown(parts, title="What it costs", made=MADE):
    text = [f"# {title}", made, ""]
    text += [f"- {fact}" for fact in dict.fromkeys(fact for part in parts for fact in part.facts)]
    lines = [Beside(**line) for part in parts for line in part.beside]
    if lines:
        text += ["", "## Beside what you would take instead", BESIDE + left_out(lines), "", peers_table(lines)]
    text += ["", "## Targets", targets_table([row for part in parts for row in part.targets]), ""]
    for part in parts:
        text += [f"## {part.title}", f"{part.note} {part.measured()}", "", part.body, ""]
    return "\n".join(text)


def keep(parts):
    """Puts the parts in the place of what was measured earlier, and joins all there are."""
    here = Path(__file__).parent
    folder = here / "results"
    folder.mkdir(exist_ok=True)
    for part in parts:
        (folder / f"{part.name}.json").write_text(json.dumps(asdict(part), indent=1, ensure_ascii=False) + "\n")
    kept = [
        Part(**json.loads((folder / f"{name}.json").read_text()))
        for name in ORDER
        if (folder / f"{name}.json").exists()
    ]
    (here / "RESULTS.md").write_text(markdown(kept))

"""Turns what was measured into the table on the screen and into bench/RESULTS.md, with the targets and whether they are met."""

import datetime
import os
import platform
from dataclasses import dataclass, field

from server import query
from variants import VARIANTS

LABEL = {v.name: v.label for v in VARIANTS}


@dataclass
class Results:
    rows: int
    rounds: int
    single_rounds: int
    single_seconds: int
    clients: tuple
    memory_rows: tuple
    seconds: dict = field(default_factory=dict)   # variant -> median seconds of the statement
    samples: dict = field(default_factory=dict)   # variant -> all of them
    single: dict = field(default_factory=dict)    # (variant, clients) -> (tps, CPU microseconds)
    memory: dict = field(default_factory=dict)    # (variant, rows) -> MB
    define: dict = field(default_factory=dict)
    work: list = field(default_factory=list)      # what claims, backlog, ... have measured: each has targets() and section()
    minutes: float = 0
    load: tuple = ()  # load averages before and after

    def added(self, name):
        """microseconds a row more than the bare UPDATE takes"""
        return (self.seconds[name] - self.seconds["bare"]) / self.rows * 1e6


def table(head, rows):
    """Markdown that also reads well on a screen: the first column to the left, numbers to the right."""
    cells = [head] + rows
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    def line(row):
        return "| " + " | ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))) + " |"
    rule = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|"
    return "\n".join([line(head), rule] + [line(row) for row in rows])


def rows_table(r):
    body = []
    for name, seconds in r.seconds.items():
        spread = f"{min(r.samples[name]) * 1000:,.0f}–{max(r.samples[name]) * 1000:,.0f}"
        added = "" if name == "bare" else f"{r.added(name):.2f}"
        body.append([LABEL[name], f"{seconds * 1000:,.0f}", spread, added, f"{seconds / r.seconds['bare']:.2f}"])
    return table(["variant", "median ms", "least–most", "added µs/row", "× bare"], body)


def single_table(r):
    body = []
    names = [v.name for v in VARIANTS if (v.name, r.clients[0]) in r.single]
    for name in names:
        row = [LABEL[name]]
        for clients in r.clients:
            row.append(f"{r.single[name, clients][0]:,.0f}")
        for clients in r.clients:
            cpu, bare = r.single[name, clients][1], r.single["bare", clients][1]
            row.append(f"{cpu:.0f} ({cpu / bare:.2f}×)")
        body.append(row)
    return table(["variant"] + [f"tps, {c} cl." for c in r.clients] + [f"CPU µs/tx, {c} cl." for c in r.clients], body)


def memory_table(r):
    few, many = r.memory_rows
    names = [v.name for v in VARIANTS if (v.name, many) in r.memory]
    body = [[LABEL[n], f"{r.memory[n, few]:.1f}", f"{r.memory[n, many]:.1f}", f"{r.memory[n, many] - r.memory[n, few]:+.1f}"] for n in names]
    return table(["variant", f"{few:,} rows, MB", f"{many:,} rows, MB", "growth, MB"], body)


# Rows of the table of targets: what, wanted, measured, met.
def at_most(what, limit, value, form="{:.2f}"):
    return [what, "at most " + form.format(limit), form.format(value), "pass" if value <= limit else "FAIL"]


def at_least(what, limit, value, form="{:.2f}"):
    return [what, "at least " + form.format(limit), form.format(value), "pass" if value >= limit else "FAIL"]


def times_less(what, limit, value):
    return [what, f"at least {limit} times less", f"{value:.1f} times less", "pass" if value >= limit else "FAIL"]


def row_targets(r):
    needed = {"bare", "c_before", "plpgsql_lookup", "statesman", "statesman_key", "guard", "guard_big", "derived", "stored"}
    if not needed <= r.seconds.keys():
        return

    def less(ours, theirs):  # an addition too small to be told from nothing counts as a hundredth of a microsecond
        return r.added(theirs) / max(r.added(ours), 0.01)
    yield at_most("guard only, time against the empty C trigger (BEFORE ROW)", 1.15, r.seconds["guard"] / r.seconds["c_before"])
    yield times_less("guard only, added µs per row, against the plpgsql lookup trigger", 12, less("guard", "plpgsql_lookup"))
    for rival, words in (("statesman", "Statesman in one statement, without its foreign key"), ("statesman_key", "Statesman as generated, with its foreign key")):
        yield times_less(f"guard + derived log, added µs per row, against {words}", 8, less("derived", rival))
        yield times_less(f"guard + stored most_recent, added µs per row, against {words}", 4, less("stored", rival))
    yield at_most("guard with 1,000 states, time against 10 states", 1.05, r.seconds["guard_big"] / r.seconds["guard"])
    if "derived_events" in r.seconds:
        yield at_most("log (derived) and outbox, time against the log alone", 1.7, r.seconds["derived_events"] / r.seconds["derived"])


def single_targets(r):
    for mode in ("derived", "stored"):
        for clients in r.clients if ("bare", r.clients[0]) in r.single and (mode, r.clients[0]) in r.single else ():
            yield at_most(f"guard + log ({mode}), single rows, {clients} client(s), CPU per transaction against bare", 2.0,
                          r.single[mode, clients][1] / r.single["bare", clients][1])


def memory_targets(r):
    few, many = r.memory_rows
    if not all((name, many) in r.memory for name in ("transition", "c_before", "derived", "stored")):
        return

    def growth(name):
        return r.memory[name, many] - r.memory[name, few]
    for mode in ("derived", "stored"):
        for rival, words in (("transition", "transition tables"), ("c_before", "an empty BEFORE ROW trigger")):
            yield at_most(f"memory growth from {few:,} to {many:,} rows with log ({mode}), MB; that of {words} + 4", max(growth(rival), 0) + 4,
                          growth(mode), "{:.1f}")


def targets(r):
    rows = [*row_targets(r), *single_targets(r), *memory_targets(r)]
    if r.define:
        rows.append(at_most("pawl.define of 1,000 states and 10,000 arrows, seconds", 1.0, r.define["define"]))
    for part in r.work:
        rows += part.targets()
    return rows


def targets_table(r):
    return table(["target", "wanted", "measured", ""], targets(r))


def machine():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    with open("/proc/meminfo") as file:
        memory = int(file.readline().split()[1]) // 1024 // 1024
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores, {memory} GB, Linux {platform.release().split('-')[0]}"


SETTINGS = ("shared_buffers", "max_wal_size", "wal_level", "fsync", "synchronous_commit", "full_page_writes", "autovacuum", "work_mem", "jit")


def facts():
    settings = ", ".join(f"{name} = {query(f'show {name}')}" for name in SETTINGS)
    version = query("select split_part(version(), ' on ', 1)")
    pawl = query("select extversion from pg_extension where extname = 'pawl'")
    return [f"Date: {datetime.date.today()}", f"Machine: {machine()}", f"Server: {version}, pawl {pawl}", f"Settings, the same for every variant: {settings}"]


def sections(r):
    yield "Targets", targets_table(r), ""
    if r.seconds:
        yield (f"One UPDATE of {r.rows:,} rows", rows_table(r),
               f"Median of {r.rounds} rounds. Each round runs every variant once, beginning with another one each time; vacuum and a checkpoint lie between "
               "the rounds. Time is what the client sees, commit included. A table has three columns beside its key and no other index; every UPDATE moves all "
               "of its rows along one arrow. Log tables grow round by round, pawl's and Statesman's alike.")
    if r.single:
        yield ("Single-row transactions", single_table(r),
               f"pgbench -M prepared, random rows, median of {r.single_rounds} rounds of {r.single_seconds} s across the variants. CPU is user and system time of all "
               "server processes, in parentheses against the bare UPDATE. Statesman is its three statements in one transaction.")
    if r.memory:
        yield ("Memory of the backend during one UPDATE", memory_table(r),
               "Highest RssAnon of a fresh backend while the statement runs, sampled every 5 ms; shared memory is not in it. PostgreSQL 15 itself "
               "keeps 32 bytes a row until the statement ends for any BEFORE UPDATE ROW trigger, even an empty or a disabled one (to choose the row's lock it copies "
               "the set of key columns into the memory of the query, once a row), and an event for every AFTER ROW trigger.")
    if r.define:
        d = r.define
        yield ("A machine of 1,000 states and 10,000 arrows",
               table(["", "ms"], [["pawl.define", f"{d['define'] * 1000:,.0f}"], ["first move of a fresh session", f"{d['first_big'] * 1000:.1f}"],
                                  ["first move of a fresh session, 10 states", f"{d['first_small'] * 1000:.1f}"]]), "Medians of 5.")
    for part in r.work:
        yield part.section()


def screen(r):
    return "\n\n".join(f"== {title}\n{body}" for title, body, _ in sections(r)) + "\n"


def markdown(r):
    text = ["# What it costs", "Made by `make bench`; run it on your own machine, the ratios are what matters.", ""]
    text += [f"- {fact}" for fact in facts()]
    text += [f"- The whole run took {r.minutes:.0f} minutes; load average {r.load[0]:.1f} before it and {r.load[1]:.1f} at its end (about 1 is the benchmark itself)", ""]
    for title, body, note in sections(r):
        text += [f"## {title}"] + ([note, ""] if note else []) + [body, ""]
    return "\n".join(text)

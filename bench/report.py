"""Targets and whether they are met, and the tables of the parts that bench/run measures itself."""

from dataclasses import dataclass, field

from peers import LOGGED, Beside
from tables import table
from variants import VARIANTS

FRESH = 31  # sessions whose first statement is timed
DEFINED = 11  # settings that pawl defines (src/session/context.cpp)
LABEL = {v.name: v.label for v in VARIANTS}
FLOORS = {v.name for v in VARIANTS if v.floor}


@dataclass
class Results:
    rows: int
    rounds: int
    single_rounds: int
    single_seconds: int
    clients: tuple
    memory_rows: tuple
    seconds: dict = field(default_factory=dict)  # variant -> median seconds of the statement
    samples: dict = field(default_factory=dict)  # variant -> all of them
    single: dict = field(default_factory=dict)  # (variant, clients) -> (tps, CPU microseconds)
    memory: dict = field(default_factory=dict)  # (variant, rows) -> MB
    define: dict = field(default_factory=dict)

    def added(self, name):
        """microseconds a row more than the bare UPDATE takes; of a floor, which comes without one, all that it takes"""
        return (self.seconds[name] - (0 if name in FLOORS else self.seconds["bare"])) / self.rows * 1e6


def rows_table(r):
    body = []
    for name, seconds in r.seconds.items():
        spread = f"{min(r.samples[name]) * 1000:,.0f}–{max(r.samples[name]) * 1000:,.0f}"
        added = "" if name == "bare" else f"{r.added(name):.2f}"
        ratio = "" if name in FLOORS else f"{seconds / r.seconds['bare']:.2f}"
        body.append([LABEL[name], f"{seconds * 1000:,.0f}", spread, added, ratio])
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
    body = [
        [
            LABEL[n],
            f"{r.memory[n, few]:.1f}",
            f"{r.memory[n, many]:.1f}",
            f"{r.memory[n, many] - r.memory[n, few]:+.1f}",
        ]
        for n in names
    ]
    return table(["variant", f"{few:,} rows, MB", f"{many:,} rows, MB", "growth, MB"], body)


# Rows of the table of targets: what, wanted, measured, met.
NEARLY = 1e-9  # an error of floating point is no difference: 0.45 s of 1,000 tasks is more than 450 µs a task


def at_most(what, limit, value, form="{:.2f}"):
    passes = value <= limit * (1 + NEARLY)
    return [what, "at most " + form.format(limit), form.format(value), "pass" if passes else "FAIL"]


def at_least(what, limit, value, form="{:.2f}"):
    passes = value >= limit * (1 - NEARLY)
    return [what, "at least " + form.format(limit), form.format(value), "pass" if passes else "FAIL"]


def floor(what, value, form="{:.2f}", word="floor"):
    """What PostgreSQL itself takes for the same rows, measured beside the target of the row before it. word: of what is
    no floor, but what users would write."""
    return [f"– {word}: {what}", "", form.format(value), word]


def times_less(what, limit, value):
    return [what, f"at least {limit} times less", f"{value:.1f} times less", "pass" if value >= limit else "FAIL"]


def row_targets(r):
    needed = {
        "bare",
        "c_before",
        "plpgsql_lookup",
        "statesman",
        "statesman_key",
        "guard",
        "guard_big",
        "derived",
        "stored",
    }
    if not needed <= r.seconds.keys():
        return

    def less(ours, theirs):  # an addition too small to be told from nothing counts as a hundredth of a microsecond
        return r.added(theirs) / max(r.added(ours), 0.01)

    yield at_most(
        "guard only, time against the empty C trigger (BEFORE ROW)", 1.15, r.seconds["guard"] / r.seconds["c_before"]
    )
    yield times_less(
        "guard only, added µs per row, against the plpgsql lookup trigger", 12, less("guard", "plpgsql_lookup")
    )
    for rival, words in (
        ("statesman", "Statesman in one statement, without its foreign key"),
        ("statesman_key", "Statesman as generated, with its foreign key"),
    ):
        for ours, mode, limit, least in (
            ("derived", "derived log", 8, "floor"),
            ("stored", "stored most_recent", 4, "floor_stored"),
        ):
            yield times_less(f"guard + {mode}, added µs per row, against {words}", limit, less(ours, rival))
            if least in r.seconds:
                yield floor(LABEL[least], less(least, rival), "{:.1f} times less")
    yield at_most("guard with 1,000 states, time against 10 states", 1.05, r.seconds["guard_big"] / r.seconds["guard"])
    if "floor" in r.seconds:
        yield at_most(
            "guard + derived log, added µs per row, against COPY of the same rows of the log",
            0.8,
            r.added("derived") / r.added("floor"),
        )
        yield floor(
            "an empty C trigger (BEFORE ROW), and COPY of the rows",
            (r.added("c_before") + r.added("floor")) / r.added("floor"),
        )
    if "derived_two" in r.seconds:
        yield at_most(
            "two transitions in one write (derived log), time against one",
            1.3,
            r.seconds["derived_two"] / r.seconds["derived"],
        )
        if "floor_two" in r.seconds:
            yield floor(
                "an UPDATE with an empty C trigger (BEFORE ROW), and COPY of two entries a row",
                (r.seconds["c_before"] + r.seconds["floor_two"]) / r.seconds["derived"],
            )
    if "derived_events" in r.seconds:
        yield at_most(
            "log (derived) and outbox, time against the log alone",
            1.7,
            r.seconds["derived_events"] / r.seconds["derived"],
        )


def row_peers(r):
    """rows a second of the statement, pawl and what a team writes or takes instead"""
    for ours, theirs, keeps in (
        ("guard", "plpgsql_lookup", "nothing; enforces transitions of its column where no later trigger changes it"),
        ("derived", "statesman", "every state change, in a table that any client can edit; enforces in Ruby alone"),
        ("derived", "statesman_key", "the same, with its foreign key"),
    ):
        if {ours, theirs} <= r.seconds.keys():
            ratio = r.seconds[theirs] / r.seconds[ours]
            rates = [r.rows / r.seconds[name] for name in (ours, theirs)]
            kept = "nothing, with the guard alone; no other change is possible" if ours == "guard" else LOGGED
            yield Beside("rows a second, one UPDATE of many", rates[0], LABEL[theirs], rates[1], ratio, keeps, kept)


def single_targets(r):
    for mode, limit in (("derived", 1.5), ("stored", 2.0)):
        for clients in r.clients if ("bare", r.clients[0]) in r.single and (mode, r.clients[0]) in r.single else ():
            bare = r.single["bare", clients][1]
            yield at_most(
                f"guard + log ({mode}), single rows, {clients} client(s), CPU per transaction against bare",
                limit,
                r.single[mode, clients][1] / bare,
            )
            for name, word in ("triggered", "floor"), ("appended", "by hand"):
                if mode == "derived" and (name, clients) in r.single:
                    yield floor(LABEL[name], r.single[name, clients][1] / bare, word=word)


def memory_targets(r):
    few, many = r.memory_rows
    if not all((name, many) in r.memory for name in ("transition", "c_before", "derived", "stored")):
        return

    def growth(name):
        return r.memory[name, many] - r.memory[name, few]

    for mode in ("derived", "stored"):
        yield at_most(
            f"memory growth from {few:,} to {many:,} rows with log ({mode}), MB; that of transition tables + 4",
            max(growth("transition"), 0) + 4,
            growth(mode),
            "{:.1f}",
        )
        yield floor(LABEL["c_before"], growth("c_before"), "{:.1f}")


def define_targets(r):
    yield at_most("pawl.define of 1,000 states and 10,000 transitions, seconds", 1.0, r.define["define"])
    yield at_most("first state change of a fresh session, 10 states, ms", 1.0, r.define["first_small"] * 1000)
    yield at_most("the same, with the library loaded, as by preloading, ms", 1.0, r.define["first_loaded"] * 1000)
    yield floor("a bare UPDATE as the first statement, ms", r.define["first_bare"] * 1000)
    yield floor("an UPDATE with an empty trigger in C, whose library is loaded, ms", r.define["first_c"] * 1000)
    yield floor(
        f"the same, and the library defines {DEFINED} settings, as pawl does, ms", r.define["first_settings"] * 1000
    )
    yield floor("an UPDATE with a trigger in PL/pgSQL, ms", r.define["first_plpgsql"] * 1000)


def rows_section(r):
    return (
        f"One UPDATE of {r.rows:,} rows",
        rows_table(r),
        f"Median of {r.rounds} rounds. Each round runs every variant once, beginning with another one each time; "
        "vacuum and a checkpoint lie between "
        "the rounds. Time is what the client sees, commit included. A table has three columns beside its key and no "
        "other index; every UPDATE moves all "
        "of its rows along one transition. Log tables grow round by round, pawl's and Statesman's alike. The last "
        "lines are no rivals but what PostgreSQL itself takes to "
        "add the rows of a log, read from a file, to a table with its indexes: guard and log together are to be "
        "compared with that and the guard.",
    )


def single_section(r):
    return (
        "Single-row transactions",
        single_table(r),
        f"pgbench -M prepared, random rows, median of {r.single_rounds} rounds of {r.single_seconds} s across the "
        "variants. CPU is user and system time of all "
        "server processes, in parentheses against the bare UPDATE. Statesman is its three statements in one "
        "transaction.",
    )


def memory_section(r):
    return (
        "Memory of the backend during one UPDATE",
        memory_table(r),
        "Highest RssAnon of a fresh backend while the statement runs, sampled every 5 ms; shared memory is not in it. "
        "PostgreSQL 15 itself "
        "keeps 32 bytes a row until the statement ends for any BEFORE UPDATE ROW trigger, even an empty or a disabled "
        "one (to choose the row's lock it copies "
        "the set of key columns into the memory of the query, once a row), and an event for every AFTER ROW trigger.",
    )


def define_section(r):
    d = r.define
    return (
        "A machine of 1,000 states and 10,000 transitions",
        table(
            ["", "ms"],
            [
                ["pawl.define", f"{d['define'] * 1000:,.0f}"],
                ["first state change of a fresh session", f"{d['first_big'] * 1000:.1f}"],
                ["first state change of a fresh session, 10 states", f"{d['first_small'] * 1000:.1f}"],
                ["first state change of a fresh session, 10 states, library loaded", f"{d['first_loaded'] * 1000:.1f}"],
                ["first UPDATE of a fresh session, bare", f"{d['first_bare'] * 1000:.1f}"],
                ["first UPDATE of a fresh session, empty trigger in C", f"{d['first_c'] * 1000:.1f}"],
                [
                    f"first UPDATE of a fresh session, empty trigger in C, {DEFINED} settings",
                    f"{d['first_settings'] * 1000:.1f}",
                ],
                ["first UPDATE of a fresh session, trigger in PL/pgSQL", f"{d['first_plpgsql'] * 1000:.1f}"],
            ],
        ),
        f"Medians; of {FRESH} fresh sessions, the kinds in turn.",
    )


# Parts that have no file of their own.
TRIGGERS = {
    "rows": (row_targets, rows_section),
    "single": (single_targets, single_section),
    "memory": (memory_targets, memory_section),
    "define": (define_targets, define_section),
}

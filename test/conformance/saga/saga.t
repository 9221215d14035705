#!/usr/bin/env python3
"""The saga suite: every case driven in plain SQL, its events, states and reverts compared as README.md says.

The results of a claim are reported one by one or together. Cases take turns; with PAWL_FULL=1, or named by SAGA_CASE,
each runs in both ways."""
import collections, copy, glob, itertools, json, os, subprocess, tempfile

here = os.path.dirname(os.path.abspath(__file__))
only = os.environ.get("SAGA_CASE", "").split()
cases = [c for f in sorted(glob.glob(os.path.join(here, "*.json"))) for c in json.load(open(f))
         if not only or c["name"] in only]
assert only or len(cases) == 131, "README.md counts 131 cases"
# A case, and whether its results are reported together.
runs_of_cases = [(c, together) for i, c in enumerate(cases) for together in (False, True)
                 if only or os.environ.get("PAWL_FULL") or together == bool(i % 2)]


def definition(case):
    """The suite lets a driver decide what an AlwaysRevert provides; for us that is part of the definition."""
    def walk(item):
        retry = item.get("retry") if isinstance(item.get("retry"), dict) else None
        said = case.get("outcomes", {}).get(retry["name"], {}).get("execute") if retry else None
        if said and isinstance(said[0], dict) and "ok" in said[0]:
            retry["value"] = said[0]["ok"]
        for child in item.get("children", []):
            walk(child)
    made = copy.deepcopy(case["flow"])
    walk(made)
    return made


def run_all():
    database = "saga_conformance"
    subprocess.run(["createdb", database], check=True)
    script = ["\\set QUIET 1", "\\set ON_ERROR_STOP 0", "create extension pawl;",
              open(os.path.join(here, "saga_driver.sql")).read(), "\\pset tuples_only on", "\\pset format unaligned"]
    for case, together in runs_of_cases:
        given = json.dumps({**case, "definition": definition(case)}).replace("'", "''")
        script.append(f"\\echo @\nbegin; select run_case('{given}', {str(together).lower()}); rollback;")
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write("\n".join(script))
        file.flush()
        out = subprocess.run(["psql", "-X", "-q", "-d", database, "-f", file.name], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True).stdout
    subprocess.run(["dropdb", database], check=True)
    parts = out.split("@\n")[1:]
    return dict(zip([(c["name"], together) for c, together in runs_of_cases], parts))


def blocks(events):
    """Consecutive PENDING and IGNORE events are sets; RESUMING and SUSPENDED at the start are optional."""
    events = list(events)
    while len(events) > 1 and events[0] in (["$flow", "RESUMING"], ["$flow", "SUSPENDED"]):
        events.pop(0)
    result = []
    for state, group in itertools.groupby(events, key=lambda e: e[1] if e[1] in ("PENDING", "IGNORE") else None):
        result += [sorted(map(json.dumps, group))] if state else list(group)
    return result


def sequences(events):
    result = collections.defaultdict(list)
    for event in events:
        if event[0] != "$flow":
            result[event[0]].append(event[1])
    return dict(result)


def error_of(seen):
    if not seen["error"]:
        return None
    messages = sorted(f["message"] for f in seen["error"].values())
    return {"type": "one" if len(messages) == 1 else "several", "failures": messages}


def closure(pairs):
    after = collections.defaultdict(set)
    for u, v in pairs:
        after[u].add(v)
    def reach(u, found):
        for v in after[u] - found:
            found.add(v)
            reach(v, found)
        return found
    return [(u, v) for u in list(after) for v in reach(u, set())]


def differences(case, expected, seen, precedence, retries):
    if expected.get("crashed"):
        expected = {k: v for k, v in expected.items() if k in ("events",)}
    found = []
    def same(key, want, have):
        if want != have:
            found.append(f"{key}: wanted {json.dumps(want)}, got {json.dumps(have)}")
    have = {**seen, "error": error_of(seen), "sequences": sequences(seen["events"])}
    if case["compare"] == "outcome":
        same("flow", expected["flow"], seen["flow"])
        same("atoms", expected["atoms"], {k: v for k, v in seen["atoms"].items() if k in expected["atoms"]})
        same("error", True, seen["error"] is not None)
        return found
    for key in ("sequences", "atoms", "intentions", "flow", "error", "retry_values", "retry_history",
                "args", "outputs"):
        if key in expected:
            want = expected[key]
            if key == "retry_history":
                want = {r: [[v, sorted(a)] for v, a in h] for r, h in want.items()}
            got = have[key]
            if key == "args":
                got = {k: v for k, v in got.items() if k in want}
            same(key, want, got)
    if case["compare"] == "exact":
        same("events", blocks(expected["events"]), blocks(seen["events"]))
        if "reverts" in expected:
            same("reverts", [[t, v, sorted(n)] for t, v, n in expected["reverts"]], seen["reverts"])
        return found
    want, got = expected["events"], seen["events"]
    same("events as a set", sorted(map(json.dumps, want)), sorted(map(json.dumps, got)))
    same("first", want[0], got[0])
    same("last", want[-1], got[-1])
    if "reverts" in expected:
        values = lambda list_: sorted(json.dumps([r[0], r[1]]) for r in list_)
        same("reverts", values(expected["reverts"]), values(seen["reverts"]))
    for u, v in closure(precedence):
        keep = lambda list_: [e for e in list_ if e[0] in (u, v) and e[1] != "IGNORE"
                              and (e[1] != "PENDING" or u in retries)]
        if [blocks_ for blocks_ in keep(want)] != [b for b in keep(got)]:
            found.append(f"order of {u} and {v}: wanted {keep(want)}, got {keep(got)}")
    if case.get("start_order_exact") and not retries:
        starts = lambda list_: [e for e in list_ if e[1] in ("RUNNING", "REVERTING") and e[0] != "$flow"]
        same("starts", starts(want), starts(got))
    return found


def main():
    results = run_all()
    print(f"1..{len(results)}")
    for n, ((name, together), text) in enumerate(results.items(), 1):
        case = next(c for c in cases if c["name"] == name)
        title = f"{name}{', reported together' if together else ''}"
        try:
            runs = json.loads(text.strip().splitlines()[0])
        except (ValueError, IndexError):
            print(f"not ok {n} - {title}\n# " + text.strip().replace("\n", "\n# "))
            continue
        found = []
        retries = set((runs[-1] or {}).get("retry_history", {}))
        for i, (directive, seen) in enumerate(zip(case["runs"], runs)):
            expected = directive["expected"]
            if "rejected" in expected:
                if "rejected" not in seen:
                    found.append("not rejected")
            elif seen is not None:
                found += [f"run {i + 1}: {d}"
                          for d in differences(case, expected, seen, case.get("precedence", []), retries)]
        if len(runs) != len(case["runs"]):
            found.append(f"{len(runs)} runs")
        print(f"{'not ok' if found else 'ok'} {n} - {title}")
        for each in found:
            print("# " + each)


main()

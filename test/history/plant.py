#!/usr/bin/env python3
"""Plants faults in a good history and asks whether the checker finds each:  plant.py SEED HISTORY FINAL

Prints a line of TAP for each fault. A checker that finds nothing proves nothing.
"""
import copy
import sys

from check import Checker, read


def last_entry(final, table, wanted=lambda entry: True):
    return next(entry for entry in reversed(final[table]["log"]) if entry["tag"] != "setup" and wanted(entry))


def forget_entry(history, final):
    final["items"]["log"].remove(last_entry(final, "items"))


def illegal_transition(history, final):
    entry = last_entry(final, "items", lambda entry: entry["from"] is not None and entry["to"] is not None)
    entry["event"] = "e9"


def row_moved_alone(history, final):
    key, state = final["items"]["rows"][0]
    final["items"]["rows"][0] = (key, "s0" if state != "s0" else "s1")


def entry_without_request(history, final):
    last_entry(final, "items")["tag"] = "c0.0.0"


def undone_request_in_log(history, final):
    transaction = last_entry(final, "items")["tag"].rsplit(".", 1)[0]
    for entry in history:
        if entry["transaction"] == transaction and entry["kind"] in ("commit", "prepare"):
            entry["outcome"] = "error"
            entry["sqlstate"] = "40001"


def other_event(history, final):
    tags = {entry["tag"]: entry for entry in history if entry.get("event")}
    entry = last_entry(final, "items", lambda entry: entry["tag"] in tags)
    tags[entry["tag"]]["event"] = "e8"


def clock_runs_back(history, final):
    last_entry(final, "items", lambda entry: entry["sort_key"] > 1)["created_at"] -= 1e6


def order_turned_round(history, final):
    entry = last_entry(final, "items", lambda entry: entry["sort_key"] > 2)
    first = next(e for e in final["items"]["log"] if e["key"] == entry["key"] and e["tag"] != entry["tag"])
    for request in history:
        if request.get("tag") == first["tag"]:
            request["asked"] = request["told"] = 1e12


def completed_by_another(history, final):
    tags = {entry["tag"]: entry for entry in history if entry["kind"] == "complete" and entry["outcome"] == "ok"}
    tags[last_entry(final, "jobs", lambda entry: entry["tag"] in tags)["tag"]]["token"] += 1


def token_given_twice(history, final):
    tags = {entry["tag"]: entry for entry in history if entry["kind"] == "claim" and entry["outcome"] == "ok"}
    entry = last_entry(final, "jobs", lambda entry: entry["tag"] in tags and entry["sort_key"] > 3)
    for row in tags[entry["tag"]]["rows"]:
        row[2] = 1


def lease_cut_short(history, final):
    tags = {entry["tag"]: entry for entry in history if entry["kind"] == "reap" and entry["outcome"] == "ok"}
    entry = last_entry(final, "jobs", lambda entry: entry["tag"] in tags)
    tags[entry["tag"]]["told"] = 0


def job_lost(history, final):
    final["jobs"]["rows"][0] = (final["jobs"]["rows"][0][0], "ready")


def internal_error(history, final):
    entry = next(entry for entry in history if entry["outcome"] == "error")
    entry["sqlstate"] = "XX000"


FAULTS = (
    forget_entry,
    illegal_transition,
    row_moved_alone,
    entry_without_request,
    undone_request_in_log,
    other_event,
    clock_runs_back,
    order_turned_round,
    completed_by_another,
    token_given_twice,
    lease_cut_short,
    job_lost,
    internal_error,
)


def main():
    seed, history, final = sys.argv[1:4]
    good = read(history, final)
    missed = 0
    for number, fault in enumerate(FAULTS, 1):
        entries, end = copy.deepcopy(good)
        try:
            fault(entries, end)
            found = Checker(int(seed), entries, end).check()
        except StopIteration:
            found = ["this history has no place for the fault"]
        missed += not found
        print(
            f"{'ok' if found else 'not ok'} {number} - {fault.__name__.replace('_', ' ')}: "
            f"{found[0] if found else 'not found'}"
        )
    print(f"1..{len(FAULTS)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Decides offline whether a history keeps the three promises:  check.py SEED HISTORY FINAL

Input: what the sessions asked and were told (sessions.py), and the rows and logs at the end (run.py finish_all).
Nothing here asks a server or knows how pawl works: a log entry is checked against the request that its tag names, and
by the machine that machines.py made. Prints one line a violation and ends with status 1 when there is one.
"""
import json
import sys
from collections import defaultdict

from machines import JOB, random_machine

# What a server may answer. Anything else is a fault: an internal error is no answer.
EXPECTED_ERRORS = {"PW001", "PW002", "PW004", "PW005", "P0002", "40001", "40P01", "55P03", "57014", "42704"}
WRITES = ("move", "insert", "delete", "claim", "complete", "give up", "reap")


class Transaction:
    """The requests of one transaction that count, and what is known of its end."""

    def __init__(self):
        self.requests, self.savepoint, self.fate, self.told, self.prepared_as = [], None, "aborted", None, None

    def take(self, entry):
        kind, outcome = entry["kind"], entry["outcome"]
        if kind == "savepoint":
            self.savepoint = len(self.requests)
        elif kind == "rollback to" and outcome == "ok":
            del self.requests[self.savepoint :]
        elif kind in WRITES and outcome == "ok":
            self.requests.append(entry)
        elif kind == "commit":
            self.fate = {"ok": "committed", "lost": "unknown"}.get(outcome, "aborted")
            self.told = entry["told"]
        elif kind == "prepare" and outcome != "error":
            self.prepared_as, self.told = entry["name"], entry["told"]


class Checker:
    def __init__(self, seed, history, final):
        self.machines = {"items": random_machine(seed), "jobs": JOB}
        self.history, self.final, self.violations = history, final, []

    def complain(self, promise, what):
        self.violations.append(f"{promise}: {what}")

    def check(self):
        self.read_history()
        for table in ("items", "jobs"):
            logs = defaultdict(list)
            for entry in self.final[table]["log"]:
                logs[entry["key"]].append(entry)
            for log in logs.values():
                log.sort(key=lambda entry: entry["sort_key"])
            self.check_chains(table, logs)
            self.check_rows(table, logs)
            self.check_requests(table, logs)
            self.check_order(logs)
        self.check_work()
        return self.violations

    # What was asked, and what became of it

    def read_history(self):
        self.transactions, ends = defaultdict(Transaction), defaultdict(list)
        for entry in self.history:
            if (
                entry["outcome"] == "error"
                and entry.get("sqlstate") not in EXPECTED_ERRORS
                and entry["session"] != "janitor"
            ):
                self.complain(
                    "answers", f"{entry['kind']} {entry.get('tag')} was answered with {entry.get('sqlstate')}"
                )
            if entry["kind"].endswith(" prepared"):
                ends[entry["name"]].append(entry)
            elif entry["transaction"] is not None:
                self.transactions[entry["transaction"]].take(entry)
        for transaction in self.transactions.values():
            if transaction.prepared_as is not None:
                transaction.fate, told = self.fate_of_prepared(ends[transaction.prepared_as])
                transaction.told = told or transaction.told
        self.requests = {}
        for transaction in self.transactions.values():
            for request in transaction.requests:
                request["of"] = transaction
                self.requests[request["tag"]] = request

    @staticmethod
    def fate_of_prepared(ends):
        """What ends says of a prepared transaction: an answer decides; else the words that had none; else it was never
        prepared."""
        for entry in ends:
            if entry["outcome"] == "ok":
                return {"commit": "committed", "rollback": "aborted"}[entry["kind"].split()[0]], entry["told"]
        words = {entry["kind"].split()[0] for entry in ends if entry["outcome"] == "lost"}
        if not words:
            return ("unknown", None) if ends else ("aborted", None)
        return ({"commit": "unknown", "rollback": "aborted"}[words.pop()] if len(words) == 1 else "unknown"), None

    # First promise: no illegal state

    def check_chains(self, table, logs):
        machine = self.machines[table]
        for key, log in logs.items():
            state, before = None, None
            for number, entry in enumerate(log, 1):
                where = f"{table} {key} entry {number}"
                if entry["sort_key"] != number:
                    self.complain("log", f"{where} has sort key {entry['sort_key']}")
                if entry["from"] != state:
                    self.complain("log", f"{where} begins at {entry['from']}, the one before ended at {state}")
                if before is not None and entry["created_at"] < before:
                    self.complain("log", f"{where} is older than the one before")
                if entry["from"] is None:
                    legal = entry["to"] in machine["initial"]
                elif entry["to"] is None:
                    legal = True
                else:
                    legal = (entry["from"], entry["event"], entry["to"]) in machine["transitions"]
                if not legal:
                    self.complain("state", f"{where} goes from {entry['from']} to {entry['to']} by {entry['event']}")
                state, before = entry["to"], entry["created_at"]

    def check_rows(self, table, logs):
        rows = {key: state for key, state in self.final[table]["rows"]}
        for key in rows.keys() | logs.keys():
            logged = logs[key][-1]["to"] if logs.get(key) else None
            if rows.get(key) != logged:
                self.complain("state", f"{table} {key} is in {rows.get(key)}, its log ends at {logged}")

    # Second promise: everything is in the log, and nothing else

    def expected(self, request):
        """The entries that a request must have: key -> state; None where only their number is known."""
        if request["kind"] in ("give up", "reap"):
            return None
        if request["kind"] == "delete":
            return {row[0]: None for row in request["rows"]}
        return {row[0]: row[1] for row in request["rows"]}

    def check_requests(self, table, logs):
        found = defaultdict(list)
        for log in logs.values():
            for entry in log:
                found[entry["tag"]].append(entry)
        for tag, entries in found.items():
            request = self.requests.get(tag)
            if tag == "setup":
                continue
            if request is None or request["of"].fate == "aborted" or request["table"] != table:
                self.complain("log", f"{table} has entries of {tag}, which never took place")
        for transaction_name, transaction in self.transactions.items():
            requests = [request for request in transaction.requests if request["table"] == table]
            if transaction.fate == "aborted":
                continue
            missing = present = 0
            for request in requests:
                wanted, entries = self.expected(request), found[request["tag"]]
                got = {entry["key"]: entry["to"] for entry in entries}
                if wanted is None:
                    whole = len(entries) == request["rows"][0][0]
                    nothing_to_see = request["rows"][0][0] == 0
                else:
                    whole = got == wanted and len(entries) == len(wanted)
                    nothing_to_see = not wanted
                if not whole and entries:
                    self.complain("log", f"{request['tag']} was told {request['rows']}, the log of {table} has {got}")
                elif not whole:
                    missing += 1
                elif not nothing_to_see:
                    present += 1
                for entry in entries:
                    if request.get("event") not in (None, entry["event"]):
                        self.complain(
                            "log", f"{request['tag']} asked for {request['event']}, the log has {entry['event']}"
                        )
                    if entry["processor"] != request["processor"]:
                        self.complain(
                            "log", f"{request['tag']} was of {request['processor']}, the log has {entry['processor']}"
                        )
            if missing and (transaction.fate == "committed" or present):
                self.complain(
                    "log",
                    f"{missing} requests of {transaction_name} ({transaction.fate}) are not in the log of {table}",
                )

    def check_order(self, logs):
        """No entry stands behind one whose request came after the transaction of the former had ended."""
        for key, log in logs.items():
            ended_first = float("inf")
            for entry in reversed(log):
                request = self.requests.get(entry["tag"])
                if request is None:
                    continue
                if ended_first < request["asked"]:
                    self.complain(
                        "log",
                        f"{key} entry {entry['sort_key']} stands before one that had ended before it was asked for",
                    )
                if request["of"].fate == "committed" and request["of"].told is not None:
                    ended_first = min(ended_first, request["of"].told)

    # Third promise: work has one owner at a time, and is never lost

    def check_work(self):
        log_of = defaultdict(list)
        for entry in self.final["jobs"]["log"]:
            log_of[entry["key"]].append(entry)
        for key, log in log_of.items():
            claim, newest_token = None, 0
            for entry in sorted(log, key=lambda entry: entry["sort_key"]):
                request = self.requests.get(entry["tag"])
                if request is None:
                    continue
                where = f"job {key} entry {entry['sort_key']}"
                if request["kind"] == "claim":
                    token = {row[0]: row[2] for row in request["rows"]}.get(key)
                    if token is None or token <= newest_token:
                        self.complain("work", f"{where} was claimed under token {token} after {newest_token}")
                    claim, newest_token = request, token or newest_token
                elif claim is None:
                    self.complain("work", f"{where} ends work that was not claimed")
                elif request["kind"] == "complete":
                    if (request["processor"], request["token"]) != (claim["processor"], newest_token):
                        self.complain(
                            "work",
                            f"{where} was completed by {request['processor']} under {request['token']}, it is"
                            f" claimed by {claim['processor']} under {newest_token}",
                        )
                    claim = None
                elif request["kind"] == "give up":
                    if request["processor"] != claim["processor"]:
                        self.complain(
                            "work",
                            f"{where} was given up by {request['processor']}, it is claimed by {claim['processor']}",
                        )
                    claim = None
                else:
                    if request["told"] < claim["asked"] + claim["lease"]:
                        self.complain("work", f"{where} was taken away before its lease had expired")
                    claim = None
        for key, state in self.final["jobs"]["rows"]:
            if state not in JOB["final"]:
                self.complain("work", f"job {key} was lost in {state}")


def read(history, final):
    with open(history, encoding="ascii") as lines, open(final, encoding="ascii") as end:
        return [json.loads(line) for line in lines], json.load(end)


def main():
    seed, history, final = sys.argv[1:4]
    entries, end = read(history, final)
    violations = Checker(int(seed), entries, end).check()
    for violation in violations[:50]:
        print(violation)
    writes = [entry for entry in entries if entry["kind"] in WRITES]
    print(
        f"{len(writes)} requests ({sum(entry['outcome'] == 'ok' for entry in writes)} ok), "
        f"{sum(entry['outcome'] == 'lost' for entry in entries)} lost answers, "
        f"{sum(len(end[table]['log']) for table in end)} log entries, {len(violations)} violations"
    )
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())

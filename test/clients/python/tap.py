# What the tests of Python clients share: TAP, and the tables of ../fixture.sql in a schema of the client's name.
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DOC = "6ecd8c99-4036-403d-bf84-cf8400f67836"
DATABASE = "pawl_clients"
count = 0
failed = 0


def ok(passed, name, seen=None):
    global count, failed
    count += 1
    if not passed:
        failed += 1
        print("# have: %r" % (seen,), file=sys.stderr)
    print("%s %d - %s" % ("ok" if passed else "not ok", count, name), flush=True)


def equal(have, want, name):
    ok(have == want, name, have)


def fixture(client):
    subprocess.run(["psql", "-X", "-q", "-d", DATABASE, "-v", "client=" + client, "-f",
                    os.path.join(HERE, "..", "fixture.sql")], check=True)


def end():
    print("1..%d" % count)
    sys.exit(1 if failed else 0)


def raised(kind, call, name):
    """The exception of a call, which must be of this class."""
    try:
        call()
    except Exception as error:
        ok(isinstance(error, kind), name, error)
        return error
    ok(False, name, "no exception")
    return None

# What the tests of Python clients share: TAP, the tables of ../fixture.sql in a schema of the client's name, and the
# examples of docs/drivers.md.
import os
import re
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


def sqlstate(error):
    """The code of an error of psycopg 2 or 3: which of them Django takes depends on its version."""
    return error.sqlstate if hasattr(error, "sqlstate") else error.pgcode


def fixture(client):
    subprocess.run(["psql", "-X", "-q", "-d", DATABASE, "-v", "client=" + client, "-f",
                    os.path.join(HERE, "..", "fixture.sql")], check=True)


def example(client, **names):
    """The function that docs/drivers.md shows for a client, with the names that its file would import."""
    with open(os.path.join(HERE, "../../../docs/drivers.md")) as file:
        code = re.search(r"^### %s\n+```python\n(.*?)^```" % re.escape(client), file.read(), re.M | re.S)
    exec(compile(code.group(1), "docs/drivers.md, " + client, "exec"), names)
    return names["set_state"]


def is_validation(error, name):
    """Whether it is what the examples without a framework raise."""
    (said,) = error.args
    equal(list(said), ["state"], name + " names the column")
    ok("no transition" in said["state"][0] and '"paid" (pay)' in said["state"][1], "with message and HINT", said)


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

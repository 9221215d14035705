#!/usr/bin/python3
# The package of client/python as a stranger gets it: installed by pip without a network, beside Debian's psycopg, with
# its types; the package and the examples of its page pass mypy --strict.
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from tap import DATABASE, HERE, end, equal, fixture, ok

TOP = os.path.join(HERE, "../../..")


def run(*command, cwd=None):
    """Exit status and output."""
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def passes(name, *command, cwd=None):
    status, output = run(*command, cwd=cwd)
    ok(status == 0, name, output)
    return output


with open(os.path.join(TOP, "extension/pawl.control")) as control:
    version = re.search(r"^default_version = '(.*)'", control.read(), re.M).group(1)
fixture("python_package")
with tempfile.TemporaryDirectory() as folder:
    ignored = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    shutil.copytree(os.path.join(TOP, "client/python"), folder + "/source", ignore=ignored)
    environment, python = folder + "/env", folder + "/env/bin/python"
    passes("an environment", sys.executable, "-m", "venv", "--system-site-packages", environment)
    passes("pip installs the package", environment + "/bin/pip", "install", "--no-index", "--no-build-isolation",
           "./source", cwd=folder)
    listed = json.loads(run(environment + "/bin/pip", "list", "--local", "--format", "json")[1].splitlines()[0])
    equal([one["version"] for one in listed if one["name"] == "pawl"], [version], "with the version of the extension")
    place = run(python, "-c", "import pawl, os; print(os.path.dirname(pawl.__file__))", cwd=folder)[1].strip()
    ok(place.startswith(environment), "which is imported from there", place)
    equal(sorted(name for name in os.listdir(place) if name != "__pycache__"),
          sorted(name for name in os.listdir(os.path.join(TOP, "client/python/pawl")) if name != "__pycache__"),
          "with all of its files, py.typed too")
    call = "import pawl, psycopg; print(pawl.fire(psycopg.connect(%r, autocommit=True), 'orders', 1, 'pay'))" % (
        "dbname=%s options='-c search_path=python_package,public'" % DATABASE)
    equal(run(python, "-c", call, cwd=folder), (0, "paid\n"), "and it works")

    passes("the package passes mypy --strict", "mypy", "--strict", "pawl", cwd=folder + "/source")
    pages = []
    for page in ("README.md", "client/python/README.md"):
        with open(os.path.join(TOP, page)) as file:
            pages += re.findall(r"^```python\n(.*?)^```", file.read(), re.M | re.S)
    # The functions that the examples leave to the reader.
    before = ("from typing import Any\nimport pawl\ndef book(*given: Any) -> str: return ''\n"
              "def send(given: Any) -> bool: return True\n")
    with open(folder + "/source/examples.py", "w") as file:
        file.write(before + "\n".join(pages))
    passes("the examples have the types that the package says", "mypy", "--check-untyped-defs", "examples.py",
           cwd=folder + "/source")
    with open(folder + "/source/wrong.py", "w") as file:
        file.write(before + "pawl.fire(1, 2, 3)\npawl.Worker(threads='four')\npawl.Table('jobs')\n")
    status, output = run("mypy", "wrong.py", cwd=folder + "/source")
    equal(len(re.findall(r"^wrong\.py:\d+: error", output, re.M)) >= 4, True, "and wrong calls have not")
end()

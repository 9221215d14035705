#!/usr/bin/env python3
"""Every mutation of test/mutation still has its place: the text that it replaces is in the sources, once."""
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent.parent


def check(*names):
    """What --check prints: a line for each mutation, and the lines of those without a place."""
    done = subprocess.run(
        [sys.executable, TOP / "test/mutation/run", "--check", *names], capture_output=True, text=True, cwd=TOP
    )
    lines = done.stdout.splitlines()
    return done.returncode, lines[:-1], [line for line in lines if "place not found" in line]


status, found, lost = check()
print("ok 1 - there are mutations" if len(found) >= 100 else "not ok 1 - there are mutations")
print("ok 2 - each has its place" if status == 0 and not lost else "not ok 2 - each has its place")
for line in lost:
    print("#", line)
status, found, lost = check("no_such_mutation")
print(f"{'ok' if status != 0 else 'not ok'} 3 - an unknown name is an error")
print("1..3")

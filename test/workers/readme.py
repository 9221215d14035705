# Runs the examples in Python of a page, one after the other as one program: readme.py PAGE.
import re
import sys

import pawl


def send(key):
    sys.stdout.write(f"sent {key}\n")  # whole lines: handlers run on threads
    sys.stdout.flush()
    return True


def book(card, price):
    return card + "-1"


with open(sys.argv[1]) as page:
    examples = re.findall(r"^```python\n(.*?)^```", page.read(), re.M | re.S)
exec(compile("\n".join(examples), sys.argv[1], "exec"), {"pawl": pawl, "send": send, "book": book})

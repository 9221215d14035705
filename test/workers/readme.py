# Runs the examples in Python of a page, one after the other as one program: readme.py PAGE.
import re
import sys

import pawl


def send(key):
    print("sent", key, flush=True)
    return True


def book(card, price):
    print("booked", card, price, flush=True)
    return card + "-1"


with open(sys.argv[1]) as page:
    examples = re.findall(r"^```python\n(.*?)^```", page.read(), re.M | re.S)
exec(compile("\n".join(examples), sys.argv[1], "exec"), {"pawl": pawl, "send": send, "book": book})

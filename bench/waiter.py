#!/usr/bin/env python3
"""A worker that waits until it is woken, through libpq itself: it tells what it did when its standard input is closed.

    waiter.py TABLE CHECK [NAP]

It sleeps, looks (the query CHECK, one number: how much there was), waits for a notification, is awake, and so on. With
NAP it naps for so many seconds and looks once more before it sleeps; after it was woken in vain several times, each nap
is twice as long.

    waiter.py - CHECK SECONDS

The same without sleeping: where nothing was found it looks again after so many seconds.

Prints "<looks> <found> <woken> <late>": late counts the waits of five seconds that ended without a notification though
there was work.
"""

import ctypes
import ctypes.util
import select
import sys

WAIT = 5.0


class Notification(ctypes.Structure):
    _fields_ = [("relname", ctypes.c_char_p), ("be_pid", ctypes.c_int), ("extra", ctypes.c_char_p)]


pq = ctypes.CDLL(ctypes.util.find_library("pq") or "libpq.so.5")
for name, result in (
    ("PQconnectdb", ctypes.c_void_p),
    ("PQexec", ctypes.c_void_p),
    ("PQgetvalue", ctypes.c_char_p),
    ("PQnotifies", ctypes.POINTER(Notification)),
    ("PQerrorMessage", ctypes.c_char_p),
):
    getattr(pq, name).restype = result
connection = ctypes.c_void_p(pq.PQconnectdb(b""))  # by the environment


def ask(query):
    result = ctypes.c_void_p(pq.PQexec(connection, query.encode()))
    if pq.PQresultStatus(result) != 2:
        raise SystemExit(f"waiter: {pq.PQerrorMessage(connection).decode()}")
    value = pq.PQgetvalue(result, 0, 0).decode()
    pq.PQclear(result)
    return value


def notified():
    """Takes what notifications there are."""
    any_came = False
    pq.PQconsumeInput(connection)
    while note := pq.PQnotifies(connection):
        pq.PQfreemem(note)
        any_came = True
    return any_came


def ended(seconds=0.0):
    return bool(select.select([sys.stdin], [], [], seconds)[0])


def main():
    table, check = sys.argv[1], sys.argv[2]
    nap = float(sys.argv[3]) if table != "-" and len(sys.argv) > 3 else 0.0
    looks = found = woken = late = in_vain = 0
    waited_in_vain = False
    while not ended():
        for doubled in range(min(in_vain, 3) + 1 if nap else 0):
            if ended(nap * 2**doubled):
                break
            looks += 1
            if work := int(ask(check)):
                found += work
                in_vain = 0
                break
        if table != "-":
            notified()  # what has come before we sleep counts no more; what comes from here on does
            ask(f"select pawl.sleep('{table}')")
        work = int(ask(check))
        looks += 1
        found += work
        in_vain = 0 if work else in_vain
        if waited_in_vain and work:
            late += 1
        waited_in_vain = False
        if table == "-" and work == 0:
            ended(float(sys.argv[3]))
        elif table != "-" and work == 0:
            came = notified()
            ready = came or select.select([pq.PQsocket(connection), sys.stdin], [], [], WAIT)[0]
            if came or notified():
                woken += 1
                in_vain += 1
            elif not ready:
                waited_in_vain = True
        if table != "-" and work > 0:  # otherwise it goes to sleep again at once
            ask(f"select pawl.awake('{table}')")
    print(looks, found, woken, late)


main()

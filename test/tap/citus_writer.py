#!/usr/bin/env python3
"""A client that writes several rows in each transaction, and prints what became of each, until it gets SIGTERM.

    citus_writer.py CONNECTION NAME ROWS

Table orders (number, state, version) has rows 1 to ROWS. Each transaction changes two or three of them, and has a
correlation id of its own. A line says: the id, committed, rolled_back or unknown, how many rows, and the SQLSTATE.
"""

import random
import signal
import sys
import time

import psycopg2

CONNECTION, NAME, ROWS = sys.argv[1], sys.argv[2], int(sys.argv[3])
CHANGE = (
    "update orders set state = case state when 'new' then 'paid' else 'new' end, version = version + 1 "
    "where number = %s"
)
ending = []
signal.signal(signal.SIGTERM, lambda *_: ending.append(True))


def attempt(connection, name, numbers):
    """(fate, SQLSTATE): an error of COMMIT that leaves a connection is a rollback, one that loses it says nothing"""
    committing = False
    try:
        with connection.cursor() as cursor:
            cursor.execute("select pawl.set_context(correlation_id => %s)", [name])
            for number in numbers:
                cursor.execute(CHANGE, [number])
                if cursor.rowcount != 1:
                    sys.exit(f"row {number} was changed {cursor.rowcount} times")
        committing = True
        connection.commit()
    except psycopg2.Error as error:
        lost = connection.closed != 0
        if not lost:
            connection.rollback()
        return ("unknown" if committing and lost else "rolled_back"), error.pgcode or "08006"
    return "committed", "00000"


connection = None
count = 0
while not ending:
    if connection is None or connection.closed:
        try:
            connection = psycopg2.connect(CONNECTION)
        except psycopg2.OperationalError:
            time.sleep(0.05)
            continue
    count += 1
    name = f"{NAME}-{count}"
    numbers = sorted(random.sample(range(1, ROWS + 1), random.randint(2, 3)))
    fate, sqlstate = attempt(connection, name, numbers)
    print(name, fate, len(numbers), sqlstate, flush=True)

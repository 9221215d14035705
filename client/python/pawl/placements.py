"""Where a namespace is, when the work of the packs is divided among several databases."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Optional, TypeVar

import psycopg
from psycopg.rows import tuple_row

from .errors import ConnectionLost, PlacedElsewhere, translated

Connection = psycopg.Connection[Any]
T = TypeVar("T")


class _Known(NamedTuple):
    """What was read of the databases: their connection strings by name, that of the home, and where namespaces are."""

    databases: dict[str, str]
    home: Optional[str]
    placements: dict[tuple[str, Optional[str]], str]


class Placements:
    """A cache of pawl.placement, and calls that go to the right database:

        placements = pawl.Placements("service=home")
        task = placements.run("dag", "billing", lambda connection: pawl.start_task(connection, "invoice",
            namespace="billing"))

    member: the connection string of any of the databases. patience: how many seconds run() waits for a namespace that
    moves. options: those of psycopg.connect for each connection. Threads can share it."""

    def __init__(self, member: str, patience: float = 300, **options: Any) -> None:
        self._member = member
        self._patience = patience
        self._options = options
        self._last: Optional[_Known] = None

    def refresh(self) -> None:
        """Reads databases and placements anew: from the home, or from the member if the home does not answer."""
        self._last = self._fresh()

    def databases(self) -> dict[str, str]:
        """The connection strings of all databases by name; empty: there is only the member."""
        return dict(self._known().databases)

    def find(self, kind: str, namespace: str) -> str:
        """The connection string of the database that a namespace is in. kind: dag, bulk or saga."""
        known = self._known()
        if not known.databases:
            return self._member
        name = known.placements.get((kind, namespace), known.placements.get((kind, None)))
        if name is None or name not in known.databases:
            raise PlacedElsewhere(f'namespace "{namespace}" of kind "{kind}" is in no database')
        return known.databases[name]

    def learn(self, rejecting: Connection, kind: str, namespace: str) -> None:
        """Asks a database that has rejected a namespace (PW009) where it is."""
        with translated():
            place = (
                rejecting.cursor(row_factory=tuple_row)
                .execute(
                    "SELECT w.database, w.connection FROM pawl.where_is(%s, %s) w WHERE NOT w.here", (kind, namespace)
                )
                .fetchone()
            )
        if place:
            known = self._known()
            known.databases.setdefault(place[0], place[1])
            known.placements[kind, namespace] = place[0]

    def run(self, kind: str, namespace: str, body: Callable[[Connection], T]) -> T:
        """Calls body with a connection to the namespace's database, in a transaction. Where that database rejects it
        because the namespace has moved (PW009), it is called again with a connection to the one that it names."""
        deadline = time.monotonic() + self._patience
        wait, tries = 0.02, 0
        while True:
            with translated(), psycopg.connect(self.find(kind, namespace), **self._options) as connection:
                try:
                    with translated(), connection.transaction():
                        return body(connection)
                except PlacedElsewhere:
                    if time.monotonic() >= deadline:
                        raise
                    self.learn(connection, kind, namespace)
            # where both say that it is in the other one, it is on its way
            if tries > 0:
                time.sleep(wait)
                wait = min(2 * wait, 1.0)
                if tries % 8 == 0:
                    self.refresh()
            tries += 1

    def _known(self) -> _Known:
        if self._last is None:
            self._last = self._fresh()
        return self._last

    def _fresh(self) -> _Known:
        known = self._last or self._read(self._member)
        try:
            return self._read(known.home or self._member)
        except ConnectionLost:
            return self._read(self._member)

    def _read(self, conninfo: str) -> _Known:
        with translated(), psycopg.connect(conninfo, **self._options) as connection:
            cursor = connection.cursor(row_factory=tuple_row)
            databases = cursor.execute("SELECT d.name, d.connection, d.is_home FROM pawl.database d").fetchall()
            placements = cursor.execute("SELECT p.kind, p.namespace, p.database FROM pawl.placement p").fetchall()
        return _Known(
            {name: target for name, target, _ in databases},
            next((target for _, target, home in databases if home), None),
            {(kind, namespace): name for kind, namespace, name in placements},
        )

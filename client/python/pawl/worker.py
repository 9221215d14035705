"""A worker: claims work, runs its handlers on threads, reports the results. A result counts exactly once."""

from __future__ import annotations

import logging
import select
import signal
import socket
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Optional

import psycopg

from .errors import ConnectionLost, Error, LeaseLost, NotTheOwner, PlacedElsewhere
from .errors import error_of, is_transient, translated
from .handle import Handler, handle, text_of
from .placements import Placements
from .sources import Connection, Job, Key, Result, Source, Steps, first_part


class Worker:
    """Works until `stop()`, SIGTERM or SIGINT: then it claims nothing more, lets running handlers finish for `grace`
    seconds, asks them to stop (`job.stop`), and gives the rest back.

    conninfo: a libpq connection string; what it leaves out comes from PGHOST and so on. placed: it is that of one of
    several databases: the worker connects to the one that its queue is in, and follows it when it moves; for Steps.
    threads: of handlers. batch: how much it owns at once; 0: twice the threads. lease, grace, shortest_poll,
    longest_poll: seconds. wake: wait for notifications. pooler: none, session or transaction. on_message: gets lines
    for a log; without it they are warnings of the logger "pawl". on_dropped: gets jobs whose result did not count;
    without it they are such lines. What these two raise does not stop the worker.
    `counts` counts claimed, succeeded, failed, dropped, abandoned and reconnects."""

    def __init__(
        self,
        conninfo: str = "",
        source: Optional[Source] = None,
        *,
        placed: bool = False,
        threads: int = 4,
        batch: int = 0,
        lease: float = 60,
        grace: float = 30,
        shortest_poll: float = 0.005,
        longest_poll: float = 1,
        wake: bool = True,
        pooler: str = "none",
        on_message: Callable[[str], None] = logging.getLogger("pawl").warning,
        on_dropped: Optional[Callable[[Job], None]] = None,
    ) -> None:
        self._conninfo, self._source = conninfo, source or Steps()
        self._placements: Optional[Placements] = None
        if placed:
            if not isinstance(self._source, Steps):
                raise Error("a worker that follows its queue to other databases works on steps")
            self._placements = Placements(conninfo)
            self._source.placed = True
        self._threads, self._batch, self._grace = threads, batch or 2 * threads, grace
        self._seconds, self._lease = lease, f"{round(lease * 1000)} ms"
        self._polls = shortest_poll, longest_poll
        self._wake, self._pooler = wake and pooler != "transaction", pooler
        self._message_callback = on_message
        self._dropped_callback = on_dropped or (lambda job: on_message(f"dropped the result of {job.key}"))
        self.counts: Counter[str] = Counter()
        self.processor = str(uuid.uuid4())
        self._handlers: dict[tuple[str, bool], Handler] = {}
        self._lock = threading.Lock()
        self._jobs: dict[Key, Job] = {}  # in flight: claimed and not yet reported
        self._waiting: SimpleQueue[Optional[Job]] = SimpleQueue()
        self._finished: deque[Result] = deque()
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._bell, self._ringer = socket.socketpair()
        self._ringer.setblocking(False)
        self._connection: Optional[Connection] = None
        self._is_begun = False  # the source has seen the connection
        self._was_connected = self._in_doubt = self._asleep = self._cannot_sleep = self._gave_back = False
        self._woken = False

    def on(self, handler: str, function: Optional[Handler] = None) -> Any:
        """Registers a handler, also as a decorator. Its return value is the result; an exception is a failure. The
        handler "" gets what has no other."""
        return self._register((handler, False), function)

    def on_revert(self, handler: str, function: Optional[Handler] = None) -> Any:
        """Registers what reverts tasks of flows: the handler that reverts, or executes, the task."""
        return self._register((handler, True), function)

    def _register(self, name: tuple[str, bool], function: Optional[Handler]) -> Any:
        if function is None:
            return lambda given: self._register(name, given)
        self._handlers[name] = function
        return function

    def stop(self) -> None:
        """From any thread, and from signal handlers."""
        self._stopping.set()
        self._ring()

    def run(self, signals: Sequence[int] = (signal.SIGTERM, signal.SIGINT)) -> None:
        """Works until it is stopped. `signals` stop it; give none where run() is not called on the main thread. Losses
        of the database are survived; an error that no retry can cure is raised."""
        before = {number: signal.signal(number, lambda *_: self.stop()) for number in signals}
        pool = [threading.Thread(target=self._handle_all, daemon=True) for _ in range(self._threads)]
        heartbeat = threading.Thread(target=self._heartbeats, daemon=True)
        for thread in (*pool, heartbeat):
            thread.start()
        try:
            self._loop()
            self._drain()
        finally:
            self._ended.set()
            for _ in pool:
                self._waiting.put(None)
            heartbeat.join(self._seconds)
            if self._connection is not None:
                self._connection.close()
            for number, handler in before.items():
                signal.signal(number, handler)

    # Handlers.

    def _handle_all(self) -> None:
        while (job := self._waiting.get()) is not None:
            result = handle(self._handlers, job)
            with self._lock:
                self._finished.append(result)
            self._ring()

    # Callbacks. What they raise is not the worker's: a log whose pipe is closed costs no lease.

    def _on_message(self, text: str) -> None:
        with suppress(BaseException):
            self._message_callback(text)

    def _on_dropped(self, job: Job) -> None:
        try:
            self._dropped_callback(job)
        except BaseException as caught:
            self._on_message(f"on_dropped failed: {text_of(caught)}")

    # The session and its loop.

    def _ring(self) -> None:
        with suppress(BlockingIOError):  # it rings already
            self._ringer.send(b"!")

    def _connect(self) -> Connection:
        prepare = {"prepare_threshold": None} if self._pooler == "transaction" else {}
        conninfo = self._placements.find("dag", self._source.queue or "") if self._placements else self._conninfo
        # the driver returns bytes for text if the encoding is SQL_ASCII
        return psycopg.connect(
            conninfo, autocommit=True, row_factory=psycopg.rows.dict_row, client_encoding="UTF8", **prepare
        )

    def _session(self) -> Connection:
        if self._connection is None:
            self._connection, self._is_begun = self._connect(), False
            self._connection.add_notify_handler(self._note_wake_up)
        if not self._is_begun:
            self._source.prepare(self._connection)
            if self._was_connected:
                self.counts["reconnects"] += 1
                self._on_message("connected again")
                self._add_owned(self._connection)
            self._was_connected = self._is_begun = True
            self._asleep = self._cannot_sleep = self._woken = False
        return self._connection

    def _note_wake_up(self, _notification: psycopg.Notify) -> None:
        """The driver tells of what comes while a statement runs: then nothing is left in the socket."""
        self._woken = True

    def _learn(self, rejecting: Connection) -> None:
        """Asks where the queue is; a database that is lost meanwhile does not say it."""
        if self._placements is not None:
            with suppress(Exception):
                self._placements.learn(rejecting, "dag", self._source.queue or "")

    def _loop(self) -> None:
        wait = self._polls[0]
        while not self._stopping.is_set():
            try:
                with translated():
                    found = self._turn(self._session())
                    wait = self._polls[0] if found else wait
                    if not found and self._wait(wait):
                        wait = self._polls[0]
                    elif not found:
                        wait = min(2 * wait, self._polls[1])
            except Error as caught:
                self._survive(caught)
                self._rest(max(wait, 0.05))
                wait = min(2 * wait, self._polls[1])

    def _survive(self, error: Error) -> None:
        lost = isinstance(error, ConnectionLost)
        if isinstance(error, PlacedElsewhere) and self._placements is not None and self._connection is not None:
            self._learn(self._connection)
            lost = True
        if not lost and not is_transient(error.sqlstate):
            raise error
        known = "connection lost" if self._connection is not None else "cannot connect, will retry"
        self._on_message(f"{known if lost else 'temporary error, will retry'}: {error}")
        if lost and self._connection is not None:
            self._connection.close()
            self._connection = None

    def _turn(self, connection: Connection) -> bool:
        reported = self._report(connection)
        if self._gave_back:
            self._add_owned(connection)
        room = self._batch - len(self._jobs)
        if room <= 0 or (room < self._batch // 2 and len(self._jobs) >= self._threads):
            return reported
        found = self._source.claim(connection, self.processor, self._lease, room)
        self._add(found)
        return reported or len(found) > 0

    def _add_owned(self, connection: Connection) -> None:
        """Begins again what it owns and does not handle; a draining worker gives it back."""
        self._gave_back = False
        if self._stopping.is_set():
            return
        found = self._source.owned(connection, self.processor)
        if found is None:
            self.processor = str(uuid.uuid4())  # no heartbeat extends what belongs to the one before
        self._add(found or [])

    def _add(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            job.processor = self.processor
            with self._lock:
                if (job.key, job.token) in self._jobs:
                    continue
                self._jobs[job.key, job.token] = job
            self.counts["claimed"] += 1
            self._waiting.put(job)

    def _rest(self, seconds: float, connection: Optional[Connection] = None) -> bool:
        """Waits for results, stop() or, on a connection, a notification. True: there was one of them."""
        files: list[Any] = [self._bell] if connection is None else [self._bell, connection]
        ready = select.select(files, [], [], seconds)[0]
        if self._bell in ready:
            self._bell.recv(4096)
        return len(ready) > 0

    def _wait(self, seconds: float) -> bool:
        connection = self._session()
        if self._wake and not self._asleep and not self._cannot_sleep and seconds > self._polls[0]:
            self._asleep = self._sleep(connection)
            self._cannot_sleep = not self._asleep
            if self._asleep:
                return True  # for what came before was not notified: look once more
        rang = self._woken or self._rest(seconds, connection)
        connection.pgconn.consume_input()
        while connection.pgconn.notifies() is not None:
            self._woken = True
        if self._woken:
            self._woken = self._asleep = False
        return rang

    def _sleep(self, connection: Connection) -> bool:
        """Asks for a notification of the next work. A lock of the session could stay with others behind a pooler that
        is not named: there the worker polls."""
        try:
            row = connection.execute(
                "SELECT CASE WHEN %s::boolean OR pg_catalog.pg_backend_pid() = %s::integer"
                " THEN coalesce(pawl.sleep(%s::text::regclass), '') END AS channel",
                (self._pooler == "session", connection.pgconn.backend_pid, self._source.relation),
            ).fetchone()
        except psycopg.Error as caught:
            if isinstance(error_of(caught), ConnectionLost):
                raise
            return False  # the binding has no wake-ups, or the role may not wait
        return row is not None and row["channel"] is not None

    # Results.

    def _report(self, connection: Connection) -> bool:
        with self._lock:
            results = list(self._finished)
            self._finished.clear()
        given_back = [one for one in results if one.outcome == "given_back"]
        self._forget(given_back)
        self._gave_back = self._gave_back or len(given_back) > 0
        left = [one for one in results if one.outcome != "given_back"]
        any_left = len(left) > 0
        while left:
            part = first_part(left)
            try:
                accepted = self._report_part(connection, part)
            except BaseException:
                self._in_doubt = True
                with self._lock:
                    self._finished.extend(left)
                raise
            self._in_doubt = False
            self._forget(part)
            for one in part:
                counts = one.key in accepted
                self.counts["dropped" if not counts else "succeeded" if one.outcome == "success" else "failed"] += 1
                if not counts:
                    self._on_dropped(one.job)
            reported = {one.key for one in part}
            left = [one for one in left if one.key not in reported]
        return any_left

    def _report_part(self, connection: Connection, part: Sequence[Result]) -> set[Key]:
        try:
            with translated():
                return self._source.report(connection, part[0].job.processor, part, self._in_doubt)
        except Error as rejection:
            if isinstance(rejection, (ConnectionLost, PlacedElsewhere)) or is_transient(rejection.sqlstate):
                raise
            if len(part) > 1:  # what one result does wrong does not stop the others
                return set().union(*(self._report_part(connection, [one]) for one in part))
            if isinstance(rejection, (LeaseLost, NotTheOwner)) or part[0].outcome == "permanent_failure":
                return set()
            message = {"message": f"result rejected: {rejection}"}
            return self._report_part(connection, [Result(part[0].job, "permanent_failure", message)])

    def _forget(self, results: Sequence[Result]) -> None:
        with self._lock:
            for one in results:
                self._jobs.pop(one.key, None)

    def _drain(self) -> None:
        self._on_message("draining")
        with suppress(Empty):
            while (job := self._waiting.get_nowait()) is not None:
                self._forget([Result(job, "given_back", None)])
        deadline = time.monotonic() + self._grace
        while self._jobs:
            late = time.monotonic() > deadline
            try:
                with translated():
                    self._report(self._session())
            except Error as caught:
                self._survive(caught)
                if late:
                    raise  # without a database nothing can be given back: the leases expire
            for job in list(self._jobs.values()) if late else ():
                job.stop.set()
            if self._jobs:
                self._rest(0.1)
        try:
            with translated():
                given = (self._source.relation, self.processor)
                found = self._session().execute("SELECT pawl.abandon(%s::text::regclass, %s) AS n", given)
                row = found.fetchone()
            self.counts["abandoned"] += row["n"] if row else 0
        except Error as caught:
            if self._was_connected:
                self._on_message(f"claimed rows were not returned, their leases expire: {caught}")

    # Leases.

    def _heartbeats(self) -> None:
        connection: Optional[Connection] = None
        extended_at = time.monotonic()
        while not self._ended.wait(max(self._seconds / 3, 0.01)):
            began = time.monotonic()
            with self._lock:
                known = list(self._jobs.values())
            try:
                if known and connection is None:
                    connection = self._connect()
                    self._source.prepare(connection)
                for processor in {job.processor for job in known}:
                    assert connection is not None
                    connection.execute(
                        "SELECT pawl.heartbeat(%s::text::regclass, %s, %s::interval)",
                        (self._source.relation, processor, self._lease),
                    )
                    owned = self._source.tokens(connection, processor)
                    self._source.require_rows(connection)  # where they have left, it owns none, and has lost none
                    for job in known:
                        if job.processor == processor and (job.key, job.token) not in owned:
                            job.stop.set()
                extended_at = began
            except Exception as caught:  # without heartbeats all leases end
                self._on_message(f"heartbeat failed: {caught}")
                if connection is not None:
                    if isinstance(caught, PlacedElsewhere):
                        self._learn(connection)
                    with suppress(Exception):
                        connection.close()
                    connection = None
                expired = time.monotonic() - self._seconds
                for job in known if extended_at < expired else ():
                    if job.claimed_at < expired:
                        job.stop.set()
        if connection is not None:
            connection.close()

"""Where a worker's work comes from: steps of workflows, tasks of flows, rows of bulk operations, rows of a table."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

import psycopg

from .calls import json_text
from .errors import Error, PlacedElsewhere, translated

Connection = psycopg.Connection[Any]
Key = tuple[str, int]  # of a job in flight: its key and its fencing token
LONGEST = 64 * 1024 * 1024  # of a result: characters of its JSON


@dataclass
class Job:
    """One piece of work, as its handler gets it. Of a step: context, inputs (the results of the parents by name) and
    options. Of a task of a flow: context has the arguments, action is execute or revert, and inputs has result, failure
    and failures. Of a row of an operation: context has the row, options the operation's metadata, action is start or
    check. Of a row of a table: context is the row."""

    key: str
    name: str
    handler: str
    token: int  # the fencing token
    parent: str = ""  # the task, flow or operation
    context: Any = None
    inputs: Any = None
    options: Any = None
    attempt: int = 1
    action: str = ""
    traceparent: Optional[str] = None
    tracestate: Optional[str] = None
    stop: threading.Event = field(default_factory=threading.Event)  # set when the result will not count any more
    problem: str = ""  # why it cannot be handled
    processor: str = ""
    claimed_at: float = field(default_factory=time.monotonic)


@dataclass
class Result:
    """What became of a job: success, failure, permanent_failure or given_back. value: the result, or the error."""

    job: Job
    outcome: str
    value: Any
    retry_after: Optional[float] = None
    size: int = 0  # of a success: characters of its JSON

    @property
    def key(self) -> Key:
        return self.job.key, self.job.token


def first_part(results: Sequence[Result]) -> list[Result]:
    """The first of the results that one statement can report: of one processor, and not too long together."""
    part: list[Result] = []
    size = 0
    for one in results:
        if one.job.processor != results[0].job.processor:
            continue
        size += one.size
        if len(part) == 1000 or (part and size > LONGEST):
            break
        part.append(one)
    return part


class Source:
    """The statements of one kind of work. Claims return the fields of a Job, JSON as text; reports the keys that count;
    the tokens all that the processor owns."""

    relation = CLAIM = OWNED = REPORT = TOKENS = ""
    orchestrates = False

    def __init__(self, queue: Optional[str] = None) -> None:
        self.queue = queue

    def prepare(self, connection: Connection) -> None:
        """Looks at what it is to work on."""

    def require_rows(self, connection: Connection) -> None:
        """Raises PlacedElsewhere if it follows its queue, and the rows are not in this database."""

    def _jobs(self, connection: Connection, statement: str, **values: Any) -> list[Job]:
        jobs = []
        for row in connection.execute(statement, {"queue": self.queue, **values}):
            job = Job(**row)
            for name in ("context", "inputs", "options"):  # what one job contains does not stop the others
                try:
                    text = row.get(name)
                    setattr(job, name, None if text is None else json.loads(text))
                except (ValueError, RecursionError) as caught:
                    job.problem = f"its {name} cannot be read: {caught}"
            jobs.append(job)
        return jobs

    def claim(self, connection: Connection, processor: str, lease: str, limit: int) -> list[Job]:
        return self._jobs(connection, self.CLAIM, processor=processor, lease=lease, limit=limit)

    def owned(self, connection: Connection, processor: str) -> Optional[list[Job]]:
        """The work that a lost session of this processor had claimed; None: it cannot be found, and its leases
        expire."""
        return self._jobs(connection, self.OWNED, processor=processor) if self.OWNED else None

    def report(self, connection: Connection, processor: str, results: Sequence[Result], in_doubt: bool) -> set[Key]:
        """Those of the results that count. A repeated report is accepted again."""
        reports = json_text([self._element(one) for one in results])
        found = connection.execute(self.REPORT, {"processor": processor, "reports": reports})
        keys = self._accepted(found.fetchall())
        return {one.key for one in results if one.job.key in keys}

    def _accepted(self, answers: Sequence[dict[str, Any]]) -> set[str]:
        return {row["key"] for row in answers}

    def _element(self, one: Result) -> dict[str, Any]:
        raise NotImplementedError

    def tokens(self, connection: Connection, processor: str) -> set[Key]:
        found = connection.execute(self.TOKENS, {"processor": processor})
        return {(row["key"], row["token"]) for row in found}


class Steps(Source):
    """Steps of workflows (pawl_dag). queue: the namespace."""

    relation = "pawl_dag.steps"
    orchestrates = True
    placed = False  # whether the queue can move to another database
    _COLUMNS = (
        "SELECT c.step_uuid::text AS key, c.name, c.handler, c.token, c.task_uuid::text AS parent,"
        " i.context::text, i.parents::text AS inputs, c.handler_options::text AS options, c.attempts AS attempt,"
        " i.traceparent, i.tracestate FROM "
    )
    CLAIM = _COLUMNS.replace("i.", "c.") + (
        "pawl_dag.claim(%(processor)s, %(queue)s, %(limit)s::integer, %(lease)s::interval, 100) c"
    )
    OWNED = _COLUMNS + (
        "pawl_dag.steps c CROSS JOIN LATERAL pawl_dag.step_inputs(ARRAY[c.task_uuid], ARRAY[c.step_uuid]) i"
        " WHERE c.worker_uuid = %(processor)s::uuid AND c.state = 'in_progress' AND c.lease_until > clock_timestamp()"
    )
    REPORT = (
        "SELECT r.step_uuid::text AS key, r.ok, coalesce(r.problem, '') AS problem"
        "  FROM pawl_dag.report(%(reports)s::text::jsonb, %(processor)s) r"
    )
    TOKENS = "SELECT s.step_uuid::text AS key, s.token FROM pawl_dag.steps s WHERE s.worker_uuid = %(processor)s::uuid"

    # until they leave, results can be reported
    _REQUIRE_ROWS = (
        "SELECT pawl.require_here('dag', %(queue)s) WHERE NOT EXISTS (SELECT FROM pawl.departure d"
        " WHERE d.kind = 'dag' AND d.namespace = %(queue)s AND d.phase = 'closed')"
    )

    def __init__(self, queue: str = "default") -> None:
        super().__init__(queue)

    def prepare(self, connection: Connection) -> None:
        self.require_rows(connection)

    def require_rows(self, connection: Connection) -> None:
        if self.placed:
            with translated():
                connection.execute(self._REQUIRE_ROWS, {"queue": self.queue})

    def _accepted(self, answers: Sequence[dict[str, Any]]) -> set[str]:
        for row in answers:
            if self.placed and row["problem"].startswith("PW009"):
                raise PlacedElsewhere(row["problem"], "PW009")
        return {row["key"] for row in answers if row["ok"]}

    def _element(self, one: Result) -> dict[str, Any]:
        element = {"task_uuid": one.job.parent, "step_uuid": one.job.key, "token": one.job.token}
        if one.outcome == "success":
            return {**element, "result": one.value}
        error = dict(one.value)
        if one.outcome == "permanent_failure":
            error["permanent"] = True
        if one.retry_after is not None:
            error["retry_after"] = one.retry_after
        return {**element, "error": error}


class FlowTasks(Source):
    """Tasks of flows (pawl_saga)."""

    relation = "pawl_saga.tasks"
    _COLUMNS = (
        "SELECT c.flow_uuid || ' ' || c.node AS key, c.name, c.handler, c.token, c.flow_uuid::text AS parent,"
        " c.arguments::text AS context, c.action, c.traceparent, c.tracestate,"
        " jsonb_build_object('result', c.result, 'failure', c.failure, 'failures', c.failures)::text AS inputs FROM "
    )
    CLAIM = _COLUMNS + "pawl_saga.claim(%(processor)s, %(queue)s, %(limit)s::integer, %(lease)s::interval) c"
    OWNED = _COLUMNS + (
        "(SELECT t.flow_uuid, t.node, t.name, CASE t.state WHEN 'RUNNING' THEN 'execute' ELSE 'revert' END AS action,"
        " CASE t.state WHEN 'RUNNING' THEN t.execute ELSE coalesce(t.revert, t.execute) END AS handler, t.token,"
        " pawl_saga.arguments(t.flow_uuid, t.node) AS arguments, t.result, t.failure,"
        " CASE WHEN t.state = 'REVERTING' THEN pawl_saga.failures(t.flow_uuid) END AS failures,"
        " f.traceparent, f.tracestate FROM pawl_saga.tasks t JOIN pawl_saga.flows f USING (flow_uuid)"
        " WHERE t.worker = %(processor)s AND t.state IN ('RUNNING', 'REVERTING')"
        " AND t.lease_until > clock_timestamp()) c"
    )
    REPORT = (
        "SELECT r.flow_uuid || ' ' || r.node AS key"
        "  FROM pawl_saga.report(%(reports)s::text::jsonb, %(processor)s) r WHERE r.ok"
    )
    TOKENS = "SELECT t.flow_uuid || ' ' || t.node AS key, t.token FROM pawl_saga.tasks t WHERE t.worker = %(processor)s"

    def __init__(self, queue: str = "default") -> None:
        super().__init__(queue)

    def _element(self, one: Result) -> dict[str, Any]:
        element = {"flow_uuid": one.job.parent, "node": int(one.job.key.split()[1]), "token": one.job.token}
        if one.outcome == "success":
            return {**element, "result": one.value}
        permanent = {"type": "permanent"} if one.outcome == "permanent_failure" else {}
        return {**element, "failure": {**one.value, **permanent}}


class OperationRows(Source):
    """Rows of bulk operations (pawl_bulk); a handler is called by the name of the step. For action check it returns
    True if the row is done, and None if it is not yet. queue: None: every queue."""

    relation = "pawl_bulk.work"
    _KEY = "{0}.operation || ' ' || {0}.row_number || ' ' || {0}.step_index AS key"
    CLAIM = (
        f"SELECT {_KEY.format('c')}, c.step_name AS name, c.step_name AS handler, c.token, c.operation::text AS parent,"
        " c.data::text AS context, c.metadata::text AS options, c.tries + 1 AS attempt, c.kind AS action,"
        " c.traceparent, c.tracestate"
        "  FROM pawl_bulk.claim(%(processor)s, %(queue)s, %(limit)s::integer, %(lease)s::interval) c"
    )
    REPORT = f"SELECT {_KEY.format('r')} FROM pawl_bulk.report(%(reports)s::text::jsonb, %(processor)s) r WHERE r.ok"
    TOKENS = f"SELECT {_KEY.format('w')}, w.token FROM pawl_bulk.work w WHERE w.worker = %(processor)s"

    def _element(self, one: Result) -> dict[str, Any]:
        operation, number, step = one.job.key.split()
        checks, good = one.job.action == "check", one.outcome == "success"
        return {
            "operation": operation,
            "row_number": int(number),
            "step_index": int(step),
            "token": one.job.token,
            "result": (("done" if one.value else "pending") if good else "failed")
            if checks
            else "ok"
            if good
            else "fail",
            "message": "" if good else one.value["message"],
        }


class Table(Source):
    """The rows of any enforced table with an owner, a token, claim events and a key of one column. success, failure and
    permanent_failure (default: failure) are the events that results fire; claim: the event that claims, if the machine
    has several; handler: the name of the handler. A result that is an object, and the error of a failure, are the
    metadata of the log entry."""

    def __init__(
        self,
        relation: str,
        *,
        success: str,
        failure: str,
        permanent_failure: Optional[str] = None,
        claim: Optional[str] = None,
        handler: str = "job",
        queue: Optional[str] = None,
    ) -> None:
        super().__init__(queue)
        self.relation, self._event, self._handler = relation, claim, handler
        self._events = {"success": success, "failure": failure, "permanent_failure": permanent_failure or failure}
        self._knows_events = False

    _FIRE_ALL = (
        "SELECT f.key FROM pawl.fire_many(%(relation)s::text::regclass, %(keys)s::text[], %(event)s,"
        " processor => %(processor)s, tokens => %(tokens)s::bigint[], metadata => %(notes)s::text::jsonb) f WHERE f.ok"
    )
    _FIRE_EACH = (
        "SELECT f.key FROM unnest(%(keys)s::text[], %(tokens)s::bigint[], %(notes)s::text[]) r(key, token, notes)"
        " CROSS JOIN LATERAL pawl.fire_many(%(relation)s::text::regclass, ARRAY[r.key], %(event)s,"
        " processor => %(processor)s, tokens => ARRAY[r.token], metadata => r.notes::jsonb) f WHERE f.ok"
    )

    def prepare(self, connection: Connection) -> None:
        rows = connection.execute(
            "SELECT %(relation)s::text::regclass::text AS relation, cardinality(b.key_columns) AS keys,"
            " quote_ident(b.key_columns[1]) AS key, quote_ident(b.owner_column) AS owner,"
            " quote_ident(b.token_column) AS token, quote_ident(b.lease_column) AS lease,"
            " quote_ident(b.attempts_column) AS attempts"
            "  FROM pawl.binding b WHERE b.relation = %(relation)s::text::regclass AND b.claim_events <> '{}'",
            {"relation": self.relation},
        ).fetchall()
        if len(rows) != 1 or rows[0]["keys"] != 1 or rows[0]["owner"] is None or rows[0]["token"] is None:
            raise Error(
                f"table {self.relation} must have one binding with claim events, an owner column, a token column and "
                "a key of one column",
                "55000",
            )
        # An unknown event would be found out when the work of a row is done. Only at the start: a worker that connects
        # again has results to report.
        if not self._knows_events:
            connection.execute(
                "SELECT count(f.key) FROM unnest(%(events)s::text[]) u(event)"
                " CROSS JOIN LATERAL pawl.fire_many(%(relation)s::text::regclass, '{}'::text[], u.event) f",
                {"relation": self.relation, "events": list(self._events.values())},
            )
            self._knows_events = True
        names = {name: text.replace("%", "%%") for name, text in rows[0].items() if isinstance(text, str)}
        table, key, token = names["relation"], f"c.{names['key']}::text", f"c.{names['token']}"
        attempts = f"c.{names['attempts']}" if "attempts" in names else "1"
        columns = (
            f"SELECT {key} AS key, {key} AS name, %(handler)s::text AS handler, {token} AS token,"
            f" to_jsonb(c)::text AS context, {attempts}::integer AS attempt FROM "
        )
        owns = f"{table} c WHERE c.{names['owner']}::text = %(processor)s"
        self.CLAIM = columns + (
            f"pawl.claim(null::{table}, %(event)s::text, %(processor)s, %(lease)s::interval, %(limit)s::integer,"
            " %(queue)s::text) c"
        )
        self.OWNED = columns + owns + (f" AND c.{names['lease']} > clock_timestamp()" if "lease" in names else "")
        self.TOKENS = f"SELECT {key} AS key, {token} AS token FROM {owns}"
        # only a result leaves the token and clears the owner
        self._reported = (
            f"SELECT FROM {table} c WHERE {key} = %s AND {token} = %s::bigint AND c.{names['owner']} IS NULL"
        )

    def _jobs(self, connection: Connection, statement: str, **values: Any) -> list[Job]:
        return super()._jobs(connection, statement, handler=self._handler, event=self._event, **values)

    def report(self, connection: Connection, processor: str, results: Sequence[Result], in_doubt: bool) -> set[Key]:
        accepted = set()
        for outcome, event in self._events.items():
            part = [one for one in results if one.outcome == outcome]
            if not part:
                continue
            notes = [json_text(one.value) if isinstance(one.value, dict) else "{}" for one in part]
            same = notes.count(notes[0]) == len(notes)  # then one statement writes all rows
            values = {
                "keys": [one.job.key for one in part],
                "tokens": [one.job.token for one in part],
                "notes": notes[0] if same else notes,
            }
            found = connection.execute(
                self._FIRE_ALL if same else self._FIRE_EACH,
                {**values, "relation": self.relation, "event": event, "processor": processor},
            )
            keys = {row["key"] for row in found}
            accepted |= {one.key for one in part if one.job.key in keys}
        for one in results if in_doubt else ():  # an earlier report may have been committed
            if connection.execute(self._reported, one.key).fetchone() is not None:
                accepted.add(one.key)
        return accepted

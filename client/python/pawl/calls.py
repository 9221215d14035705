"""Calls in the caller's own transaction: a task begins if, and only if, the caller's changes are committed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Optional

import psycopg

from .errors import translated

Connection = psycopg.Connection[Any]


def json_text(value: object) -> str:
    """JSON without escapes of letters, which a database of the encoding SQL_ASCII rejects; lone surrogates, which have
    no encoding, stay escaped."""
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def _value(connection: Connection, statement: str, *values: object) -> Any:
    with translated():
        cursor = connection.cursor(row_factory=psycopg.rows.tuple_row)
        row = cursor.execute(statement, values).fetchone()
    return row[0] if row else None


@contextmanager
def acting(
    connection: Connection, *, processor: Optional[str] = None, correlation_id: Optional[str] = None
) -> Iterator[Connection]:
    """A transaction whose state changes are logged with this processor and correlation id. Errors in the block are
    those of pawl.errors."""
    with translated(), connection.transaction():
        connection.execute(
            "SELECT pawl.set_context(processor => %s, correlation_id => %s)", (processor, correlation_id)
        )
        yield connection


def fire(
    connection: Connection,
    relation: str,
    key: object,
    event: str,
    metadata: Optional[dict[str, Any]] = None,
    token: Optional[int] = None,
) -> str:
    """Fires an event for a row of an enforced table and returns the new state. key: the value of the key; a list for a
    key of several columns. token: the fencing token that the row must have."""
    statement = "SELECT pawl.fire(%s::text::regclass, %s, %s::text, %s::text::jsonb, token => %s::bigint)"
    notes = None if metadata is None else json_text(metadata)
    return str(_value(connection, statement, relation, key, event, notes, token))


def start_task(
    connection: Connection,
    name: str,
    context: Optional[dict[str, Any]] = None,
    *,
    namespace: str = "default",
    version: Optional[str] = None,
    priority: int = 0,
    identity_key: Optional[str] = None,
    correlation_id: Optional[str] = None,
) -> str:
    """Starts a task of a workflow (pawl_dag) and returns its id. A second one with the same identity_key is rejected
    (23505)."""
    statement = (
        "SELECT pawl_dag.start_task(%s::text, %s::text::jsonb, namespace => %s::text, version => %s::text,"
        " priority => %s::integer, identity_key => %s::text, correlation_id => %s::uuid)::text"
    )
    values = (name, json_text(context or {}), namespace, version, priority, identity_key, correlation_id)
    return str(_value(connection, statement, *values))


def submit_rows(connection: Connection, definition: str, rows: Sequence[dict[str, Any]]) -> str:
    """Submits rows as a bulk operation (pawl_bulk) and returns its id."""
    statement = "SELECT s.operation::text FROM pawl_bulk.submit(%s::text, rows => %s::text::jsonb) s"
    return str(_value(connection, statement, definition, json_text(list(rows))))


def start_flow(connection: Connection, name: str, inputs: Optional[dict[str, Any]] = None) -> str:
    """Starts a flow of a saga (pawl_saga) and returns its id."""
    statement = "SELECT pawl_saga.start(%s::text, %s::text::jsonb)::text"
    return str(_value(connection, statement, name, json_text(inputs or {})))


def signal_flow(connection: Connection, flow: str, signal: str, payload: Any = None) -> str:
    """Sends a signal to a flow and returns its id."""
    statement = "SELECT pawl_saga.signal(%s::uuid, %s::text, %s::text::jsonb)::text"
    return str(_value(connection, statement, flow, signal, json_text(payload)))

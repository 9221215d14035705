"""Errors as types: one for each SQLSTATE of class PW, so that callers branch by `except` and never by text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Optional

import psycopg


class Error(Exception):
    """The base of all errors of this library that the server has raised. `str()` is the message with DETAIL and
    HINT."""

    def __init__(self, message: str, sqlstate: str = "") -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.detail: Optional[str] = None
        self.hint: Optional[str] = None
        self.schema: Optional[str] = None
        self.table: Optional[str] = None
        self.column: Optional[str] = None
        self.constraint: Optional[str] = None  # of class PW: the machine


class ConnectionLost(Error):
    """The connection is lost, or the server shuts down: connect again. The outcome of a pending COMMIT is unknown."""


class TryAgain(Error):
    """Class 40: two transactions were in each other's way. The same transaction can be repeated at once."""


class NoSuchTransition(Error):
    """PW001: the machine has no transition from the old state to the new one."""


class NotAnInitialState(Error):
    """PW002: the state of the new row is not an initial state."""


class GuardRejected(Error):
    """PW003: a guard rejected the transition."""


class NotTheOwner(Error):
    """PW004: the acting processor does not own the row."""


class LeaseLost(Error):
    """PW005: the lease is lost: it has expired, or the fencing token is stale."""


class LogIsImmutable(Error):
    """PW006: the log cannot be changed."""


class DefinitionError(Error):
    """PW007: the diagram cannot be read or cannot be held by one column."""


class UnknownObject(Error):
    """PW008: unknown machine, state or event."""


class PlacedElsewhere(Error):
    """PW009: the namespace is placed in another database."""


BY_SQLSTATE = {
    "PW001": NoSuchTransition,
    "PW002": NotAnInitialState,
    "PW003": GuardRejected,
    "PW004": NotTheOwner,
    "PW005": LeaseLost,
    "PW006": LogIsImmutable,
    "PW007": DefinitionError,
    "PW008": UnknownObject,
    "PW009": PlacedElsewhere,
}
# As pawl.is_transient: the longest prefix that matches decides.
TRANSIENT = dict.fromkeys(("08", "40", "40003", "53", "55P03", "57014", "57P"), True)
TRANSIENT |= dict.fromkeys(("40002", "57P04"), False)


def is_transient(sqlstate: str) -> bool:
    """Whether a statement that failed with this SQLSTATE may succeed unchanged later."""
    for length in range(len(sqlstate), 1, -1):
        if sqlstate[:length] in TRANSIENT:
            return TRANSIENT[sqlstate[:length]]
    return False


def error_of(caught: psycopg.Error) -> Error:
    """The error of this library for one of psycopg. A binding with errors => 'check_violation' raises 23514, whose
    DETAIL begins with the code of class PW: it has the type of that code."""
    diag = caught.diag
    sqlstate = caught.sqlstate or ""
    detail = diag.message_detail
    code = detail[:5] if sqlstate == "23514" and detail and detail[5:7] == ": " else sqlstate
    kind = BY_SQLSTATE.get(code)
    if kind is None:
        lost = isinstance(caught, psycopg.OperationalError) and not sqlstate
        if lost or sqlstate[:2] == "08" or sqlstate in ("57P01", "57P02", "57P03"):
            kind = ConnectionLost
        else:
            kind = TryAgain if sqlstate[:2] == "40" and is_transient(sqlstate) else Error
    lines = [diag.message_primary or str(caught).strip()]
    lines += [f"{name}: {text}" for name, text in (("DETAIL", detail), ("HINT", diag.message_hint)) if text]
    error = kind("\n".join(lines), sqlstate)
    error.detail, error.hint = detail, diag.message_hint
    error.schema, error.table = diag.schema_name, diag.table_name
    error.column, error.constraint = diag.column_name, diag.constraint_name
    return error


@contextmanager
def translated() -> Iterator[None]:
    """Errors of psycopg in the block become errors of this library; the original is the `__cause__`."""
    try:
        yield
    except psycopg.Error as caught:
        raise error_of(caught) from caught


class Failure(Exception):
    """Raised by a handler: the work has failed, with a type that retries of sagas can match."""

    def __init__(self, type: str, message: str) -> None:
        super().__init__(message)
        self.type = type


class PermanentFailure(Exception):
    """Raised by a handler: no other attempt can succeed."""


class RetryLater(Exception):
    """Raised by a handler: try again, and not before `after` seconds have passed (steps only)."""

    def __init__(self, message: str, after: float) -> None:
        super().__init__(message)
        self.after = after

"""Runs the handler of a job, and makes a result of whatever it returns or raises."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from datetime import datetime, timedelta
from typing import Any, Optional

import psycopg

from .errors import Error, Failure, PermanentFailure, RetryLater
from .sources import LONGEST, Job, Result

Handler = Callable[[Job], Any]
DEEPEST, LONGEST_TEXT = 512, 64 * 1024  # levels of a result; characters of a message or type
LONGEST_WAIT = 1e9  # seconds; longer ones overflow a timestamp
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # a string that is decoded has surrogates only where they are alone


def text_of(value: object) -> str:
    """The text of an exception or another object, as PostgreSQL can store it. Never raises: whatever the object does
    when it is asked for its text, another attempt may still succeed."""
    for by_class in (False, True):
        with suppress(BaseException):
            text = type(value).__name__ if by_class else value if isinstance(value, str) else str(value)
            text = str.__getitem__(text, slice(LONGEST_TEXT))  # a subclass of str can have methods of its own
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")
            if text:
                return text
    return "an exception without a text"


def handle(handlers: Mapping[tuple[str, bool], Handler], job: Job) -> Result:
    """What became of a job. handlers: by their names, and whether they revert; "" gets what has no other. Never
    raises."""
    if job.problem:
        return _failed(job, "permanent_failure", job.problem)
    reverts = job.action == "revert"
    handler = handlers.get((job.handler, reverts)) or handlers.get(("", reverts))
    if handler is None and reverts and (job.handler, False) in handlers:
        return Result(job, "success", None)  # there is nothing to undo
    if handler is None:
        return _failed(job, "failure", f'worker has no handler "{job.handler}"')
    try:
        value = handler(copy(job))  # what it does to its fields does not change what is reported
    except BaseException as caught:  # whatever it is, it is this job's
        return _failure_of(job, caught)
    return _success(job, value)


def _failed(job: Job, outcome: str, message: object, **more: Any) -> Result:
    # a handler that was asked to stop has not failed, unless it says that no other attempt can succeed
    stopped = outcome == "failure" and job.stop.is_set()
    return Result(job, "given_back" if stopped else outcome, {"message": text_of(message), **more})


def _failure_of(job: Job, caught: BaseException) -> Result:
    if isinstance(caught, PermanentFailure):
        return _failed(job, "permanent_failure", caught)
    more, after = {}, None
    with suppress(BaseException):  # an attribute that cannot be read is left out
        if isinstance(caught, Failure) and caught.type is not None:
            more["type"] = text_of(caught.type)
        elif isinstance(caught, RetryLater):
            after = _seconds(caught.after)
        elif isinstance(caught, (psycopg.Error, Error)) and caught.sqlstate:
            more["sqlstate"] = text_of(caught.sqlstate)
    result = _failed(job, "failure", caught, **more)
    result.retry_after = after
    return result


def _seconds(after: Any) -> Optional[float]:
    """How long to wait; None, which leaves it to the policy, if it is no time."""
    if isinstance(after, datetime):
        after = after - datetime.now(after.tzinfo)
    seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
    return None if math.isnan(seconds) else min(max(seconds, 0.0), LONGEST_WAIT)


def _success(job: Job, value: Any) -> Result:
    try:
        _measure(value, 0, {})
        text = json.dumps(value, allow_nan=False)
        # a copy: what the handler keeps can change until it is reported
        value = value if value is None or type(value) in (bool, int, float) else json.loads(text)
        problem = _problem_of(text, value)
        if not problem:
            return Result(job, "success", value, size=len(text))
    except BaseException as caught:
        problem = text_of(caught)
    return _failed(job, "permanent_failure", f"the result cannot be reported: {problem}")


def _measure(value: Any, level: int, known: dict[int, Optional[tuple[int, int]]]) -> tuple[int, int]:
    """The least characters that a value has as JSON, and its levels. Raises ValueError if it is too much, before its
    text fills the memory: values that are shared by many are measured once. known: by id; None: not measured yet."""
    if not isinstance(value, (dict, list, tuple)):
        return (len(value) + 2 if isinstance(value, str) else 1), 0
    found = known.get(id(value), (0, 0))
    if found is None:
        raise ValueError("it is circular")
    size, levels = found
    if level + max(levels, 1) > DEEPEST:
        raise ValueError("it is nested deeper than 512 levels")
    if size == 0:
        known[id(value)] = None
        for inner in value.values() if isinstance(value, dict) else value:
            inner_size, inner_levels = _measure(inner, level + 1, known)
            size, levels = size + inner_size + 1, max(levels, inner_levels)
            if size > LONGEST:
                raise ValueError("it is longer than 64 MiB")
        size, levels = size + 2, levels + 1
        known[id(value)] = size, levels
    return size, levels


def _problem_of(text: str, value: Any) -> str:
    """Why PostgreSQL cannot store a result; empty: it can. text: value as JSON."""
    if len(text) > LONGEST:
        return "it is longer than 64 MiB"
    if "\\u0000" not in text and "\\ud" not in text:
        return ""
    ahead = [value]
    for one in ahead:  # which grows
        if isinstance(one, str) and _UNSTORABLE.search(one):
            return "it has a NUL or a lone surrogate, which PostgreSQL cannot store"
        ahead += [*one, *one.values()] if isinstance(one, dict) else one if isinstance(one, list) else []
    return ""

"""Runs the handler of a job, and makes a result of whatever it returns or raises."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import psycopg

from .errors import Error, Failure, PermanentFailure, RetryLater
from .sources import Job, Result

Handler = Callable[[Job], Any]
DEEPEST, LONGEST = 512, 64 * 1024 * 1024  # of a result: levels, bytes


def handle(handlers: Mapping[tuple[str, bool], Handler], job: Job) -> Result:
    """What became of a job. handlers: by their names, and whether they revert; "" gets what has no other."""

    def failed(outcome: str, message: object, **more: Any) -> Result:
        # a handler that was asked to stop has not failed, unless it says that no other attempt can succeed
        stopped = outcome == "failure" and job.stop.is_set()
        return Result(job, "given_back" if stopped else outcome, {"message": str(message), **more})

    if job.problem:
        return failed("permanent_failure", job.problem)
    reverts = job.action == "revert"
    handler = handlers.get((job.handler, reverts)) or handlers.get(("", reverts))
    if handler is None and reverts and (job.handler, False) in handlers:
        return Result(job, "success", None)  # there is nothing to undo
    if handler is None:
        return failed("failure", f'worker has no handler "{job.handler}"')
    try:
        value = handler(job)
    except PermanentFailure as caught:
        return failed("permanent_failure", caught)
    except Failure as caught:
        return failed("failure", caught, type=caught.type)
    except RetryLater as caught:
        result = failed("failure", caught)
        result.retry_after = caught.after
        return result
    except (psycopg.Error, Error) as caught:
        code = {"sqlstate": caught.sqlstate} if caught.sqlstate else {}
        return failed("failure", caught, **code)
    except BaseException as caught:  # whatever it is, it is this job's
        return failed("failure", str(caught) or type(caught).__name__)
    try:
        excess = len(json.dumps(value, allow_nan=False)) > LONGEST or _depth(value) > DEEPEST
    except (TypeError, ValueError, RecursionError) as caught:
        return failed("permanent_failure", f"the result cannot be reported: {caught}")
    if excess:
        return failed("permanent_failure", "the result cannot be reported: it is too long or nested too deep")
    return Result(job, "success", value)


def _depth(value: Any) -> int:
    """The levels of a JSON value."""
    levels, level = 0, [value]
    while level:
        inner = [v.values() if isinstance(v, dict) else v for v in level if isinstance(v, (dict, list, tuple))]
        levels, level = levels + (len(inner) > 0), [v for values in inner for v in values]
    return levels

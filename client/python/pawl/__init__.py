"""pawl for Python: workers, calls in your own transaction, errors as types. See README.md."""

from .calls import acting, fire, signal_flow, start_flow, start_task, submit_rows
from .errors import (
    ConnectionLost,
    DefinitionError,
    Error,
    Failure,
    GuardRejected,
    LeaseLost,
    LogIsImmutable,
    NoSuchTransition,
    NotAnInitialState,
    NotTheOwner,
    PermanentFailure,
    PlacedElsewhere,
    RetryLater,
    TryAgain,
    UnknownObject,
    error_of,
    is_transient,
    translated,
)
from .placements import Placements
from .sources import FlowTasks, Job, OperationRows, Source, Steps, Table
from .worker import Worker

__all__ = [name for name, value in dict(globals()).items() if callable(value)]

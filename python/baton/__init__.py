"""Submit, run and follow tasks and workflows of Baton.

| module | holds |
|---|---|
| `workflow` | definitions of workflows |
| `tasks` | their tasks |
| `items` | items of a task, and edges between items |
| `functions` | Python functions as tasks |
| `commands` | the command that calls a function on a worker |
| `locations` | the module or file of a function |
| `boxes` | typed outputs between functions |
| `call` | entry point of a function on a worker: `python -m baton.call` |
| `values` | values that survive JSON unchanged |
| `parts` | large workflows, split into requests |
| `client` | client of one scheduler |
| `submission` | commands and task files, as requests |
| `submit` | submissions |
| `instances`, `arrays` | instances and arrays: state, wait, cancel, retry |
| `waiting` | waiting for several of them |
| `logs` | their output, also while it is written |
| `events` | events of the scheduler |
| `executor`, `futures` | functions on workers, for `concurrent.futures` |
| `aio`, `aio_handles`, `interrupt` | the client for asyncio |
| `library` | stored tasks and workflows, triggers, schedules |
| `settings` | URL, token and TLS files |
| `transport`, `stream` | requests and responses |
| `run` | a run: state, wait, halt, resume |
| `views` | responses of the server as plain data |
| `progress` | progress on terminals and in notebooks |
| `errors` | exceptions |

Only the standard library is used.
"""

from .aio import AsyncClient
from .aio_handles import AsyncArray, AsyncHandle, AsyncInstance, AsyncRun
from .arrays import Array
from .client import Client
from .errors import (
    BatonError,
    ConnectionFailed,
    FieldError,
    InstanceFailed,
    Problem,
    RemoteTraceback,
    RunConflict,
    RunFailed,
    WaitTimeout,
    WorkflowError,
)
from .events import Event, EventStream
from .executor import Executor
from .functions import TaskFunction, task
from .futures import CallFuture
from .instances import Handle, Instance
from .library import Entry, Library, Tick
from .run import Run
from .views import (
    ErrorGroup,
    ItemCounts,
    Limit,
    MeasuredUse,
    Process,
    RunEdge,
    RunItem,
    RunProblem,
    RunTask,
    Submitter,
    Worker,
)
from .tasks import Output, Task, Template
from .waiting import Waited, as_completed, wait
from .workflow import Workflow

__all__ = [
    "Array",
    "AsyncArray",
    "AsyncClient",
    "AsyncHandle",
    "AsyncInstance",
    "AsyncRun",
    "BatonError",
    "CallFuture",
    "Client",
    "ConnectionFailed",
    "Entry",
    "ErrorGroup",
    "Event",
    "EventStream",
    "Executor",
    "FieldError",
    "Handle",
    "Instance",
    "InstanceFailed",
    "ItemCounts",
    "Library",
    "Limit",
    "MeasuredUse",
    "Output",
    "Problem",
    "Process",
    "RemoteTraceback",
    "Run",
    "RunConflict",
    "RunEdge",
    "RunFailed",
    "RunItem",
    "RunProblem",
    "RunTask",
    "Submitter",
    "Task",
    "TaskFunction",
    "Template",
    "Tick",
    "WaitTimeout",
    "Waited",
    "Worker",
    "Workflow",
    "WorkflowError",
    "as_completed",
    "task",
    "wait",
]

__version__ = "0.1.0"

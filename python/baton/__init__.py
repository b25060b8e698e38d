"""Submit, run and follow tasks and workflows of Baton.

Programs import names from here, and errors also from `baton.errors`. Workers start
`python -m baton.call`, also for commands of earlier versions; `python -m baton` is the command line.
Every other module is private:

| package | holds |
|---|---|
| `_workflows` | definitions of workflows |
| `_functions` | Python functions as tasks, and their calls on workers |
| `_transport` | requests and responses |
| `_records` | data of a scheduler that is read: views, events, logs |
| `_handles` | instances, arrays and runs: state, wait, cancel, retry |
| `_client` | the client: submissions, library |
| `_executor` | functions on workers, for `concurrent.futures` |
| `_aio` | the client for asyncio |
| `_local` | a scheduler of this program's own |

A package imports those above it, `errors` and `_values` (values that survive JSON unchanged).

Only the standard library is used.
"""

from ._aio.client import AsyncClient
from ._aio.handles import AsyncArray, AsyncHandle, AsyncInstance, AsyncRun
from ._client.client import Client
from ._client.library import Entry, Library, Tick
from ._executor.executor import Executor
from ._executor.futures import CallFuture
from ._functions.functions import TaskFunction, task
from ._functions.progress import report_progress
from ._handles.arrays import Array
from ._handles.instances import Handle, Instance
from ._handles.run import Run
from ._handles.waiting import Waited, as_completed, wait
from ._local.server import Server, up
from ._records.events import Event, EventStream
from ._records.views import (
    Alarm,
    ArrayLimit,
    ErrorGroup,
    Fleet,
    FleetJob,
    InstanceProgress,
    ItemCounts,
    Limit,
    MeasuredUse,
    Percentiles,
    Process,
    RunEdge,
    RunItem,
    RunProblem,
    RunTask,
    Secret,
    Share,
    Submitter,
    TaskUsage,
    WaitGroup,
    Worker,
)
from ._workflows.tasks import Output, Task, Template
from ._workflows.workflow import Workflow
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

__all__ = [
    "Alarm",
    "Array",
    "ArrayLimit",
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
    "Fleet",
    "FleetJob",
    "Handle",
    "Instance",
    "InstanceFailed",
    "InstanceProgress",
    "ItemCounts",
    "Library",
    "Limit",
    "MeasuredUse",
    "Output",
    "Percentiles",
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
    "Secret",
    "Server",
    "Share",
    "Submitter",
    "Task",
    "TaskFunction",
    "TaskUsage",
    "Template",
    "Tick",
    "WaitGroup",
    "WaitTimeout",
    "Waited",
    "Worker",
    "Workflow",
    "WorkflowError",
    "as_completed",
    "report_progress",
    "task",
    "up",
    "wait",
]

__version__ = "0.1.0"

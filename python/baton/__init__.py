"""Define, run and follow workflows of Baton.

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
| `settings` | URL, token and TLS files |
| `transport` | requests and responses |
| `run` | a run: state, wait, halt, resume |
| `views` | responses of the server as plain data |
| `progress` | progress on terminals and in notebooks |
| `errors` | exceptions |

Only the standard library is used.
"""

from .client import Client
from .errors import (
    BatonError,
    ConnectionFailed,
    FieldError,
    Problem,
    RunConflict,
    RunFailed,
    WaitTimeout,
    WorkflowError,
)
from .functions import TaskFunction, task
from .run import Run
from .views import ErrorGroup, ItemCounts, Process, RunEdge, RunItem, RunProblem, RunTask
from .tasks import Output, Task, Template
from .workflow import Workflow

__all__ = [
    "BatonError",
    "Client",
    "ConnectionFailed",
    "ErrorGroup",
    "FieldError",
    "ItemCounts",
    "Output",
    "Problem",
    "Process",
    "Run",
    "RunConflict",
    "RunEdge",
    "RunFailed",
    "RunItem",
    "RunProblem",
    "RunTask",
    "Task",
    "TaskFunction",
    "Template",
    "WaitTimeout",
    "Workflow",
    "WorkflowError",
    "task",
]

__version__ = "0.1.0"

"""Define, run and follow workflows of Baton.

| module | holds |
|---|---|
| `workflow` | workflows, as they are defined |
| `tasks` | their tasks |
| `items` | what a task has one instance for each of, and edges item by item |
| `functions` | Python functions as tasks |
| `commands` | one call of a function, as the command that a worker runs |
| `places` | where a worker finds a function |
| `boxes` | how what a function puts out travels to another |
| `call` | what a worker runs for a function: `python -m baton.call` |
| `values` | what JSON keeps as it is, and what not |
| `parts` | large workflows, cut into requests that a server takes |
| `client` | a scheduler, seen from outside |
| `settings` | which scheduler, and how it is spoken to |
| `transport` | requests and answers |
| `run` | a run: looking, waiting, stopping, going on |
| `shapes` | what the server tells, as plain data |
| `progress` | what a waiting person sees |
| `errors` | what can go wrong |

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
from .shapes import ErrorGroup, ItemCounts, RunEdge, RunItem, RunProblem, RunTask
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

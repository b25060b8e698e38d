"""Large workflows, split into several requests.

The first part is the workflow with as many tasks as fit, unchanged; the others have tasks only, in
dependency order. Parameters apply to every part. Defaults and templates apply to the first part
only, so they are expanded here for the tasks of the others, by the rules of workflow files; the
server validates them with the first part. A template whose tasks share a limit cannot be expanded,
so all its tasks go into the first part.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

from .. import _values as values
from ..errors import WorkflowError

#: Bytes of one request: a server accepts 64 MiB of a workflow.
PART_BYTES_MAX = 60 * 1024 * 1024

#: Values of one request: a server accepts 3,000,000.
PART_VALUES_MAX = 2_900_000

# All tasks of a template share this limit.
_SHARED = "max_concurrent"

# Fields that are merged key by key.
_KEY_BY_KEY = ("env", "resources", "retry")

# A task with a field of the second group inherits none of the first.
_REPLACED = (
    (("run", "processes", "order"), ("run", "processes")),
    (("for_each", "matrix"), ("for_each", "matrix")),
)


def values_of(params: Optional[Mapping[str, Any]]) -> Dict[str, str]:
    """Values of parameters as strings, as the API takes them."""
    if params is not None and not isinstance(params, Mapping):
        raise WorkflowError(f"params is {params!r}", "pass a mapping of names to values")
    return {name: _value(name, value) for name, value in (params or {}).items()}


def cut(
    file: Mapping[str, Any],
    params: Mapping[str, str],
    most: Optional[int] = None,
    most_values: Optional[int] = None,
) -> Tuple[bytes, Optional[Iterator[bytes]]]:
    """The request that submits a workflow, and the requests that must follow it, if any.

    `most` limits the bytes of a request, `most_values` its values.
    """
    room = _Capacity(most or PART_BYTES_MAX, most_values or PART_VALUES_MAX)
    count = _checked(file) + _checked(params, "params")
    body = {"file": file, "params": params, "open": False}
    whole = values.write(body).encode()
    tasks = _mapping(file.get("tasks"))
    if (len(whole) <= room.most and count <= room.most_values) or not tasks:
        return whole, None
    filled = filled_in(file)
    pooled = _pooled(file)
    # Tasks that must be in the first part come first, after their upstream tasks.
    first_ones = sorted(filled, key=lambda name: name not in pooled)
    order = ordered({name: filled[name] for name in first_ones})
    head = {**body, "file": {**file, "tasks": {}}, "open": True}
    room.around(head)
    first = room.taken(order, tasks)
    if not first:
        raise room.too_large("with all other fields", order[0], tasks[order[0]])
    for name in pooled.difference(first):
        raise WorkflowError(
            f"the task {name} does not fit into the first part of a workflow as large as this, "
            "and must, since its template has a max_concurrent",
            "make the tasks of that template one array, and give that the max_concurrent",
        )
    head["file"] = {**file, "tasks": {name: tasks[name] for name in first}}
    rest = list(_packed(order[len(first) :], filled, room))
    return values.write(head).encode(), (values.write(part).encode() for part in rest)


def filled_in(file: Mapping[str, Any]) -> Dict[str, Any]:
    """The tasks of a workflow, with expanded templates and defaults."""
    defaults, templates = _mapping(file.get("defaults")), _mapping(file.get("templates"))
    tasks: Dict[str, Any] = {}
    for name, task in file["tasks"].items():
        if not isinstance(task, Mapping):
            # The server reports what is wrong with it.
            tasks[name] = task
            continue
        filled = dict(task)
        if "template" in task:
            of = task["template"]
            if not isinstance(of, str) or of not in templates:
                raise WorkflowError(
                    f"the task {name} uses {of!r}, and there is no such template",
                    f"the templates are: {', '.join(templates) or 'none'}",
                )
            del filled["template"]
            template = _mapping(templates[of])
            filled = _above(
                filled, {key: value for key, value in template.items() if key != _SHARED}
            )
        tasks[name] = _above(filled, defaults)
    return tasks


def ordered(tasks: Mapping[str, Any]) -> List[str]:
    """The names of the tasks in dependency order."""
    order: List[str] = []
    done: Set[str] = set()
    for start in tasks:
        # Not recursive: chains may be longer than Python's stack. An entry of the path is a task
        # with its upstream tasks that are still to be visited.
        path: List[Tuple[str, Iterator[str]]] = []
        on_path: Dict[str, None] = {}
        following: Optional[str] = start
        while following is not None:
            if following in on_path:
                names = list(on_path)
                cycle = [*names[names.index(following) :], following]
                data = " -> ".join(reversed(cycle))
                raise WorkflowError(f"tasks depend on each other: {data}", "remove one edge")
            if following in tasks and following not in done:
                on_path[following] = None
                path.append((following, iter(_upstream(tasks[following]))))
            following = None
            while path and following is None:
                following = next(path[-1][1], None)
                if following is None:
                    name, _ = path.pop()
                    del on_path[name]
                    done.add(name)
                    order.append(name)
    return order


def _upstream(task: Any) -> List[str]:
    """The upstream tasks. The server reports invalid entries."""
    if not isinstance(task, Mapping):
        return []
    after = task.get("after")
    entries = after if isinstance(after, (list, tuple)) else [after]
    names = [each.get("task") if isinstance(each, Mapping) else each for each in entries]
    return [name for name in names if isinstance(name, str)] + _mapped_over(task.get("for_each"))


def _mapped_over(for_each: Any) -> List[str]:
    """The task whose output the items are: only `{{ tasks.NAME.outputs.KEY }}`."""
    text = for_each.strip() if isinstance(for_each, str) else ""
    if not (text.startswith("{{") and text.endswith("}}")):
        return []
    inside = text[2:-2].strip()
    name, dot, _ = inside[len("tasks.") :].rpartition(".outputs.")
    return [name] if dot and inside.startswith("tasks.") else []


def _pooled(file: Mapping[str, Any]) -> Set[str]:
    """The tasks that share a limit."""
    templates = _mapping(file.get("templates"))
    shared = {name for name, each in templates.items() if _SHARED in _mapping(each)}
    tasks = file["tasks"].items()
    return {name for name, task in tasks if _mapping(task).get("template") in shared}


def _above(upper: Mapping[str, Any], lower: Mapping[str, Any]) -> Dict[str, Any]:
    """Merges fields; those of `upper` win."""
    hidden = {key for keys, by in _REPLACED if any(each in upper for each in by) for key in keys}
    both = dict(upper)
    for key, value in lower.items():
        if key not in both:
            if key not in hidden:
                both[key] = value
        elif key in _KEY_BY_KEY and isinstance(both[key], Mapping) and isinstance(value, Mapping):
            both[key] = {**value, **both[key]}
    return both


class _Capacity:
    """The remaining capacity of a request."""

    def __init__(self, most: int, most_values: int) -> None:
        self.most, self.most_values = most, most_values
        self._bytes, self._values = 0, 0

    def around(self, what: Any) -> None:
        """Starts a request with everything around its tasks."""
        self._bytes, self._values = len(values.write(what).encode()), values.check(what)

    def takes(self, name: str, task: Any) -> bool:
        """Adds a task, if it fits."""
        more, values_more = self._size(name, task)
        if self._bytes + more > self.most or self._values + values_more > self.most_values:
            return False
        self._bytes += more
        self._values += values_more
        return True

    def taken(self, order: Iterable[str], tasks: Mapping[str, Any]) -> List[str]:
        """The longest prefix of the tasks that fits."""
        part: List[str] = []
        for name in order:
            if not self.takes(name, tasks[name]):
                break
            part.append(name)
        return part

    def too_large(self, how: str, name: str, task: Any) -> WorkflowError:
        """The error for a task that does not fit into a request of its own."""
        more, values_more = self._size(name, task)
        return WorkflowError(
            f"the task {name} {how} takes {self._bytes + more} bytes "
            f"with {self._values + values_more} values, "
            f"and a request holds {self.most} with {self.most_values}",
            "split it into tasks with fewer items or edges each; edges are cheaper as one string",
        )

    @staticmethod
    def _size(name: str, task: Any) -> Tuple[int, int]:
        # With the colon and the comma.
        size = len(values.write(name).encode()) + len(values.write(task).encode()) + 2
        return size, values.check(task)


def _packed(order: List[str], tasks: Mapping[str, Any], room: _Capacity) -> Iterator[Dict[str, Any]]:
    while order:
        room.around({"tasks": {}})
        part = room.taken(order, tasks)
        if not part:
            raise room.too_large("alone", order[0], tasks[order[0]])
        yield {"tasks": {name: tasks[name] for name in part}}
        order = order[len(part) :]


def _mapping(value: Any) -> Mapping[str, Any]:
    # The server reports other types.
    return value if isinstance(value, Mapping) else {}


def _value(name: Any, value: Any) -> str:
    try:
        values.check({name: value})
    except values.NotJson as error:
        raise WorkflowError(
            f"the parameter {name!r} is not JSON: {error}", "pass a string, a number, true or false"
        ) from error
    return value if isinstance(value, str) else values.write(value)


def _checked(file: Any, *path: str) -> int:
    try:
        return values.check(file, path)
    except values.NotJson as error:
        raise WorkflowError("the workflow is not JSON", str(error)) from error

"""Large workflows, cut into requests that a server takes.

The first part holds everything but tasks, and as many tasks as there is room for; the others hold
tasks only, each behind those that it refers to. Defaults, templates and parameters count for the
first part alone, so that they are filled in here before a workflow is cut; a template whose tasks
share a limit cannot be, and its tasks all go into the first part.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

from .errors import WorkflowError

#: Bytes of one request: a server takes 8 MiB.
PART_BYTES_MAX = 7 * 1024 * 1024

_REFERENCE = re.compile(r"\{\{\s*tasks\.([^\s{}]+?)\.outputs\.")

# Two braces that are no template, or a parameter.
_PARAMETER = re.compile(r"\{\{\{\{|\{\{\s*params\.([\w-]+)\s*\}\}")

# A template's limit is that of all its tasks together.
_SHARED = "max_concurrent"

# Fields of which a task, its template and the defaults each may say a part.
_MERGED = ("env", "resources", "retry")


def values_of(params: Optional[Mapping[str, Any]]) -> Dict[str, str]:
    """Values of parameters as the API takes them: texts."""
    given = params or {}
    return {name: _value(value) for name, value in given.items()}


def cut(
    file: Mapping[str, Any], params: Mapping[str, str], most: int = PART_BYTES_MAX
) -> Tuple[bytes, Optional[Iterator[bytes]]]:
    """The request that submits a workflow, and those that must follow it, if any."""
    texts = {name: _text(task) for name, task in file.get("tasks", {}).items()}
    whole = _first(file, params, _joined(texts, texts), False).encode()
    if len(whole) <= most:
        return whole, None
    head, tasks = filled_in(file, params)
    texts = {name: _text(task) for name, task in tasks.items()}
    around = len(_first(head, params, "", True).encode())
    limited = {name for name, task in tasks.items() if "template" in task}
    # Those that must be in the first part come first, behind what they come after.
    limited_first = sorted(tasks, key=lambda name: name not in limited)
    order = ordered({name: tasks[name] for name in limited_first})
    parts = list(_packed(order, texts, most, around))
    for name in limited.difference(parts[0]):
        raise WorkflowError(
            f"the task {name} does not fit into the first part of a workflow as large as this, "
            "and must, since its template has a max_concurrent",
            "make the tasks of that template one array, and give that the max_concurrent",
        )
    first = _first(head, params, _joined(parts[0], texts), True)
    rest = ('{"tasks":{' + _joined(part, texts) + "}}" for part in parts[1:])
    return first.encode(), (part.encode() for part in rest)


def filled_in(
    file: Mapping[str, Any], params: Mapping[str, str]
) -> Tuple[Dict[str, Any], Dict[str, Dict[str, Any]]]:
    """A workflow as a head and tasks that need nothing of it but limits that they share."""
    head = {name: value for name, value in file.items() if name not in ("tasks", "defaults")}
    templates: Mapping[str, Mapping[str, Any]] = file.get("templates", {})
    shared = {name: each[_SHARED] for name, each in templates.items() if _SHARED in each}
    if templates:
        head["templates"] = {name: {_SHARED: limit} for name, limit in shared.items()}
    known = {name: _default(value) for name, value in file.get("params", {}).items()}
    known.update(params)
    tasks = {}
    for name, task in file.get("tasks", {}).items():
        of = task.get("template")
        merged = _merged(file.get("defaults", {}), _merged(templates.get(of, {}), task))
        if of in shared and _SHARED not in task:
            del merged[_SHARED]
        elif of in templates and of not in shared:
            del merged["template"]
        # Conditions know the parameters of the run.
        tasks[name] = {
            key: value if key == "when" else _with_params(value, known)
            for key, value in merged.items()
        }
    return head, tasks


def ordered(tasks: Mapping[str, Mapping[str, Any]]) -> List[str]:
    """The names of the tasks, each behind those that it comes after or refers to."""
    order: List[str] = []
    done: Set[str] = set()
    for start in tasks:
        # Not recursive: chains may be longer than Python's stack. A path is a task, and what of
        # those before it is still to be looked at.
        path: List[Tuple[str, Iterator[str]]] = []
        on_path: Dict[str, None] = {}
        following: Optional[str] = start
        while following is not None:
            if following in on_path:
                names = list(on_path)
                circle = [*names[names.index(following) :], following]
                told = " -> ".join(reversed(circle))
                raise WorkflowError(f"tasks wait for each other: {told}", "take one edge away")
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


def _upstream(task: Mapping[str, Any]) -> List[str]:
    after = [each if isinstance(each, str) else each["task"] for each in task.get("after", [])]
    mapped = task.get("for_each")
    return after + (_REFERENCE.findall(mapped) if isinstance(mapped, str) else [])


def _packed(
    order: Iterable[str], texts: Mapping[str, str], most: int, around: int
) -> Iterator[List[str]]:
    part: List[str] = []
    size = around
    for name in order:
        # With the colon and the comma.
        more = len(_text(name).encode()) + len(texts[name].encode()) + 2
        if more + around > most:
            raise WorkflowError(
                f"the task {name} alone takes {more} bytes, and a request holds {most}",
                "make it several tasks with fewer items or edges each",
            )
        if part and size + more > most:
            yield part
            part, size = [], around
        part.append(name)
        size += more
    yield part


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> Dict[str, Any]:
    """Fields of two, of which the second counts where both say something."""
    both = {**under, **over}
    for key in _MERGED:
        if isinstance(under.get(key), Mapping) and isinstance(over.get(key), Mapping):
            both[key] = {**under[key], **over[key]}
    return both


def _with_params(value: Any, params: Mapping[str, Optional[str]]) -> Any:
    if isinstance(value, str) and "{{" in value:

        def known(found: re.Match[str]) -> str:
            text = params.get(found[1]) if found[1] else None
            # What nobody knows is for the server to complain about.
            return found[0] if text is None else text.replace("{{", "{{{{")

        return _PARAMETER.sub(known, value)
    if isinstance(value, Mapping):
        return {name: _with_params(each, params) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_params(each, params) for each in value]
    return value


def _default(param: Any) -> Optional[str]:
    default = param.get("default") if isinstance(param, Mapping) else param
    return None if default is None else _value(default)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _text(task: Any) -> str:
    try:
        return json.dumps(task, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise WorkflowError("the workflow is no JSON", str(error)) from error


def _joined(names: Iterable[str], texts: Mapping[str, str]) -> str:
    return ",".join(f"{_text(name)}:{texts[name]}" for name in names)


def _first(file: Mapping[str, Any], params: Mapping[str, str], tasks: str, is_open: bool) -> str:
    head = _text({name: value for name, value in file.items() if name != "tasks"})[1:-1]
    told = "{" + head + ("," if head else "") + '"tasks":{' + tasks + "}}"
    return f'{{"file":{told},"params":{_text(dict(params))},"open":{_text(is_open)}}}'

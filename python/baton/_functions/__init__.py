"""Python functions as tasks: their calls as commands, and the worker's side of them.

| module | holds |
|---|---|
| `functions` | `@task`, and functions that have it |
| `commands` | the command that calls a function on a worker |
| `locations` | the module or file of a function |
| `boxes` | typed outputs between functions |
| `remote` | the call itself, on the worker |
"""

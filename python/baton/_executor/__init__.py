"""Functions on workers, for `concurrent.futures`.

| module | holds |
|---|---|
| `executor` | the executor |
| `futures` | its futures, and the thread that completes them |
"""

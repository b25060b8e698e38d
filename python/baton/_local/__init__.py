"""A scheduler of this program's own, on this host.

| module | holds |
|---|---|
| `binary` | the path of the `baton` binary |
| `server` | `up`, and the server that it starts |
| `guard` | the process between them, which ends the server with the program |
"""

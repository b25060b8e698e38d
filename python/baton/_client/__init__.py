"""The client of a scheduler.

| module | holds |
|---|---|
| `client` | the client |
| `submission`, `conditions` | commands, task files and their upstreams, as requests |
| `submit` | submissions |
| `library` | stored tasks and workflows, triggers, schedules |
"""

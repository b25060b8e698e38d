"""Definitions of workflows, without a scheduler.

| module | holds |
|---|---|
| `workflow` | a workflow |
| `tasks` | its tasks, templates and outputs |
| `items` | items of a task, and edges between items |
| `parts` | large workflows, split into requests |
"""

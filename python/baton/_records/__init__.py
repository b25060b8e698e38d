"""Data of a scheduler that is read and not changed.

| module | holds |
|---|---|
| `views` | responses as plain data |
| `events` | events |
| `logs` | output of an attempt, also while it is written |
| `spans` | numbers as spans |
"""

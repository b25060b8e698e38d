"""Instances, arrays and runs: state, wait, cancel, retry.

| module | holds |
|---|---|
| `instances`, `arrays`, `run` | one instance, array or run |
| `several` | changes of several at once |
| `waiting` | waiting for several |
| `progress` | progress on terminals and in notebooks |
"""

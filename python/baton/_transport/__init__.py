"""Requests to the schedulers, and their responses.

| module | holds |
|---|---|
| `settings` | URLs, token and TLS files |
| `schedulers` | the scheduler that leads, and connections to it |
| `transport` | requests, retries and problems |
| `stream` | responses that are read while they are written |
"""

"""The client for asyncio.

| module | holds |
|---|---|
| `client` | the client |
| `handles` | its instances, arrays and runs |
| `interrupt` | requests that a cancelled task ends |
"""

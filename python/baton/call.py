"""Entry point of a function on a worker: `python -m baton.call MODULE:FUNCTION CALL [WORD...]`.

Stored workflows and submitted runs have this command: its name and its arguments stay. See
`_functions.remote`.
"""

from __future__ import annotations

import sys

from ._functions import remote

if __name__ == "__main__":
    remote.hide_frames(__file__)
    remote.main(sys.argv[1:])

"""`python -m baton ARGUMENTS` runs the `baton` binary that belongs to this package."""

from __future__ import annotations

import os
import sys

from ._local import binary
from .errors import BatonError

if __name__ == "__main__":
    try:
        path = binary.find()
    except BatonError as error:
        sys.exit(f"baton: {error}")
    os.execv(path, ["baton", *sys.argv[1:]])

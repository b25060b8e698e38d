"""Progress that a task reports of itself, in the file that `BATON_PROGRESS` names."""

from __future__ import annotations

import os
import sys
from typing import List, Optional

_VARIABLE = "BATON_PROGRESS"


def report_progress(
    done: Optional[int] = None, total: Optional[int] = None, message: str = ""
) -> None:
    """Tells how far this attempt has come: `report_progress(42, 100, "rows read")`.

    `baton show`, the pages and `instance.progress` show the newest report, seconds later. It does
    nothing where no worker of Baton runs the program. A file that cannot be written is no reason to
    fail: the first such error is printed.
    """
    if (done is None) != (total is None):
        raise ValueError("done and total belong together: report_progress(42, 100)")
    if done is not None and total is not None and (done < 0 or total < 1):
        raise ValueError(f"there is no step {done} of {total}")
    words: List[str] = [] if done is None else [f"{int(done)}/{int(total or 0)}"]
    words += message.split()
    path = os.environ.get(_VARIABLE)
    if not path or not words:
        return
    try:
        # One write for each line: several processes may report.
        with open(path, "ab", buffering=0) as file:
            file.write((" ".join(words) + "\n").encode("utf-8", "replace"))
    except OSError as error:
        _complain(error)


_complained = False


def _complain(error: OSError) -> None:
    global _complained
    if not _complained:
        _complained = True
        print(f"baton: progress cannot be reported: {error}", file=sys.stderr)

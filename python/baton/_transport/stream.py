"""Responses that grow while they are read. One thread reads one; any thread may close it."""

from __future__ import annotations

import http.client
import math
import socket
from contextlib import suppress
from typing import Any, Optional

# The server sends a comment every 15 seconds.
_SILENCE_SECONDS = 60.0


class Stream:
    """A response that grows. A broken connection ends it like a complete response."""

    def __init__(
        self,
        connection: http.client.HTTPConnection,
        sock: Any,
        response: http.client.HTTPResponse,
    ) -> None:
        self._connection = connection
        self._sock = sock
        self._response = response
        self._closed = False

    def line(self, seconds: float = math.inf) -> Optional[bytes]:
        """The next line; b"" at the end, None if no byte comes in time. It is over then, too."""
        try:
            self._sock.settimeout(max(min(seconds, _SILENCE_SECONDS), 0.01))
            return self._response.readline()
        except (TimeoutError, socket.timeout):
            self.close()
            return None
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            # Python's own reader stumbles if another thread closes its socket.
            self.close()
            return b""

    def close(self) -> None:
        """Closes it; a thread that reads it gets its end."""
        if self._closed:
            return
        self._closed = True
        with suppress(OSError, ValueError, AttributeError):
            self._sock.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            self._connection.close()

"""A scripted HTTP server, and a manual clock."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, List, Optional, Tuple

from baton._transport.transport import Transport

#: A status and a body; None closes the connection without a response.
Reply = Optional[Tuple[int, bytes]]


class FakeServer:
    """Answers probes, and other requests from a list of replies, in order."""

    def __init__(self) -> None:
        self.replies: List[Reply] = []
        self.seen: List[Tuple[str, str, Any]] = []
        self.headers: List[Any] = []
        #: The server follows, and no leader could be asked.
        self.without_leader = False
        #: Called before each reply, with the path.
        self.before: Callable[[str], None] = lambda path: None
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.path == "/healthz":
                    fake.before(self.path)
                    self.send_response(200)
                    self.end_headers()
                    return
                fake.seen.append((self.command, self.path, json.loads(body) if body else None))
                fake.headers.append(self.headers)
                fake.before(self.path)
                reply = fake.replies.pop(0)
                if reply is None:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(reply[0])
                if fake.without_leader:
                    self.send_header("Baton-No-Leader", "1")
                self.end_headers()
                self.wfile.write(reply[1])

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


class Clock:
    """A clock that only `sleep` advances."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


def transport(url: str, **more: Any) -> Tuple[Transport, Clock]:
    clock = Clock()
    return Transport(url, sleep=clock.sleep, now=clock.now, **more), clock


def silent_port() -> Tuple[socket.socket, str]:
    """An address without a listener while the socket lives."""
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    return held, f"http://127.0.0.1:{held.getsockname()[1]}"

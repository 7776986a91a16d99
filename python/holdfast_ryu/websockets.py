"""WebSockets of applications (RFC 6455). Holdfast speaks with the clients.

What a client sends is an input, and what it gets is the answer to a request, like everything else: so messages are
neither lost nor repeated while the leader lives. When it dies, its clients lose their connections, and connect again.
These requests have a header that no client can send: `open`, `message`, `next` and `close`, each with the name of the
connection.
"""

import errno
import struct
from collections import deque
from collections.abc import Callable
from typing import Any

from . import hub, wire
from .outcome import Answer, outcome
from .scheduler import scheduler

HEADER = "Holdfast-Websocket"
# CONNECTIONS bounds those that are open; further ones are answered 503.
CONNECTIONS = 256
# MESSAGES and MESSAGE_BYTES bound what waits for a client, and for the application; beyond, the connection is closed.
MESSAGES, MESSAGE_BYTES = 4_096, 4 << 20
# SILENCE_SECONDS without a request about a connection: its client, or the leader that had it, is gone.
SILENCE_SECONDS = 90
TEXT, BINARY = 1, 2
OPENED, GONE, UNKNOWN = 101, 410, 404


class WebSocket:
    """A connection, as applications know it from eventlet.websocket."""

    def __init__(self, name: str, request: wire.Request) -> None:
        self.name = name
        self.path = request.path
        self.environ: dict[str, Any] = {}
        self.opened = False
        self.taken: Callable[[], Any] = lambda: None  # what else is done when it is opened
        self._request: int | None = request.request_id  # to answer, so that the client is connected
        self._in: Any = hub.Queue()
        self._in_bytes = 0
        self._out: deque[tuple[int, bytes]] = deque()
        self._out_bytes = 0
        self._acknowledged = 0
        self._next: int | None = None  # a request for what is sent next
        self._closed = False
        self._heard_ns = scheduler.clock.now_ns

    def open(self) -> None:
        """Takes the connection: before that the application may refuse it by another answer."""
        if self.opened:
            return
        self.opened = True
        self.taken()
        assert self._request is not None
        outcome.answers.append(Answer(self._request, OPENED, [], b""))
        self._watch(SILENCE_SECONDS)

    def wait(self) -> str | bytes | None:
        """Waits for a message of the client; None when the connection has ended."""
        if self._closed and self._in.empty():
            return None
        message: str | bytes | None = self._in.get()
        self._in_bytes -= len(message or "")
        return message

    def send(self, message: str | bytes) -> None:
        """Sends a message, without waiting until the client has it. A connection that has ended is an OSError."""
        if self._closed:
            raise BrokenPipeError(errno.EPIPE, "the WebSocket is closed")
        data = message.encode() if isinstance(message, str) else bytes(message)
        if len(self._out) >= MESSAGES or self._out_bytes + len(data) > MESSAGE_BYTES:
            self.close()
            raise BrokenPipeError(errno.EPIPE, "the client of a WebSocket takes no messages: it is closed")
        self._out.append((TEXT if isinstance(message, str) else BINARY, data))
        self._out_bytes += len(data)
        self._answer_next()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if not self.opened:  # no request comes about it
            connections.pop(self.name, None)
        self._in.put(None)
        self._answer_next()

    def take(self, kind: int, data: bytes) -> int:
        """Gives the application a message of the client, and returns the status for it."""
        if self._closed or self._in.qsize() >= MESSAGES or self._in_bytes + len(data) > MESSAGE_BYTES:
            self.close()
            return GONE
        self._in_bytes += len(data)
        self._in.put(data.decode("utf-8", "replace") if kind == TEXT else data)
        return 200

    def ask_next(self, request_id: int, acknowledged: int) -> None:
        """Has a request answered with what is sent after so many messages. One that waited before gets nothing."""
        if self._next is not None:
            outcome.answers.append(Answer(self._next, 204, [], b""))
        self._next = request_id
        while self._out and self._acknowledged < acknowledged:
            self._acknowledged += 1
            self._out_bytes -= len(self._out.popleft()[1])
        self._answer_next()

    def _answer_next(self) -> None:
        if self._next is None or not (self._out or self._closed):
            return
        body = b"".join(struct.pack(">BI", kind, len(data)) + data for kind, data in self._out)
        outcome.answers.append(Answer(self._next, 200 if self._out else GONE, [], body))
        self._next = None
        if self._closed and not self._out:
            connections.pop(self.name, None)

    def heard(self) -> None:
        self._heard_ns = scheduler.clock.now_ns

    def _watch(self, seconds: float) -> None:
        scheduler.after(seconds, self._check)

    def _check(self) -> None:
        if self._closed:
            connections.pop(self.name, None)
            return
        left = SILENCE_SECONDS - (scheduler.clock.now_ns - self._heard_ns) / 1e9
        if left <= 0:
            self.close()
            left = SILENCE_SECONDS
        self._watch(left)


# connections are those that are open, by name.
connections: dict[str, WebSocket] = {}


def of(request: wire.Request) -> list[str]:
    """The words of the header: what is asked, the name of the connection, and a number. None in any other request."""
    return next((value.split() for name, value in request.headers if name.lower() == HEADER.lower()), [])


def begin(request: wire.Request) -> WebSocket | None:
    """Makes the connection of a request that opens one; None if there are too many."""
    if len(connections) >= CONNECTIONS:
        return None
    name = of(request)[1]
    connections[name] = WebSocket(name, request)
    return connections[name]


def serve(request: wire.Request) -> None:
    """Does what a request about an open connection asks for."""
    what, name, *number = of(request)
    connection = connections.get(name)
    status = UNKNOWN
    if connection is not None:
        connection.heard()
        if what == "next":
            connection.ask_next(request.request_id, int(number[0]))
            return
        status = 200
        if what == "message":
            status = connection.take(int(number[0]), request.body)
        else:
            connection.close()
            connections.pop(name, None)
    outcome.answers.append(Answer(request.request_id, status, [], b""))

"""Web servers that applications make of http.server. On a cluster, requests come as inputs of the log.

A server of `holdfast run` listens, as sockets work there.
"""

import http.client
import http.server
import io
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from . import hub
from .scheduler import scheduler

# _HOP are the headers of an answer that say how it is sent, which is not the application's business.
_HOP = {"connection", "keep-alive", "transfer-encoding"}


class _Line:
    """What a server's handler takes for the socket of a client: one request, and what is sent because of it."""

    def __init__(self, received: bytes) -> None:
        self._received = received
        self.sent = bytearray()

    def makefile(self, mode: str = "r", *_: Any, **__: Any) -> io.BufferedIOBase:
        return io.BytesIO(self._received) if "r" in mode else _Sender(self)

    def sendall(self, data: bytes) -> None:
        self.sent += data

    send = sendall

    def ignore(self, *_: Any) -> None:
        """Options and ends of the socket make no difference."""

    settimeout = setsockopt = shutdown = close = ignore

    def getpeername(self) -> tuple[str, int]:
        return ("127.0.0.1", 0)


class _Sender(io.BytesIO):
    """The file to which a handler writes that wants a buffer."""

    def __init__(self, line: _Line) -> None:
        super().__init__()
        self._line = line

    def write(self, data: Any) -> int:
        self._line.sendall(bytes(data))
        return len(data)


def _request(environ: dict[str, Any]) -> bytes:
    """The bytes of a request."""
    body: bytes = environ["wsgi.input"].read()
    path, query = quote(environ["PATH_INFO"].encode("latin-1")), environ["QUERY_STRING"]
    lines = [f"{environ['REQUEST_METHOD']} {path}{'?' * bool(query)}{query} HTTP/1.1"]
    named = {key[5:].replace("_", "-").title(): value for key, value in environ.items() if key.startswith("HTTP_")}
    named |= {"Content-Length": str(len(body)), "Connection": "close"}
    if "CONTENT_TYPE" in environ:
        named["Content-Type"] = environ["CONTENT_TYPE"]
    lines += [f"{name}: {value}" for name, value in named.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _answering(server: Any) -> Callable[..., Iterable[bytes]]:
    """A WSGI application that has a server's handler answer."""

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        line = _Line(_request(environ))
        server.finish_request(line, line.getpeername())
        sent: Any = _Line(bytes(line.sent))
        answer = http.client.HTTPResponse(sent, method=environ["REQUEST_METHOD"])
        answer.begin()
        body = answer.read()
        start_response(
            f"{answer.status} {answer.reason}",
            [(name, value) for name, value in answer.getheaders() if name.lower() not in _HOP],
        )
        return [body]

    return application


def _bind(self: Any) -> None:
    host, port = self.server_address[:2]
    self.server_name, self.server_port = host, port


def _serve_forever(self: Any, poll_interval: float = 0.5) -> None:
    self.serving = scheduler.current()
    hub.WSGIServer((self.server_name, self.server_port), _answering(self)).serve_forever()


def _shutdown(self: Any) -> None:
    self.serving.kill()


def install() -> None:
    server = http.server.HTTPServer
    server.server_bind = _bind  # type: ignore[method-assign]
    server.server_activate = lambda self: None  # type: ignore[method-assign]
    server.serve_forever = _serve_forever  # type: ignore[method-assign]
    server.shutdown = _shutdown  # type: ignore[method-assign]

"""A controller as clients of the store see it: what it answers is what a test says."""

import json
import socket
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LAST = "the request is answered, and then the connection is closed"
LOST = "the request is executed, and the connection is closed before the answer"


class Controller:
    """Answers a request as the next step of the script says, and without one as the store would. A step may be LAST,
    LOST, a status, the body of an answer or, of a watch, a list of responses. `lost` is called after LOST."""

    def __init__(self, *script: Any, context: ssl.SSLContext | None = None) -> None:
        self.script = list(script)
        self.context = context
        self.lost: Callable[[], object] = lambda: None
        self.requests: list[dict[str, Any]] = []
        self.tokens: list[str] = []
        self.connections = 0
        self.sessions: dict[str, dict[str, Any]] = {}  # with the answers
        self._opened = self._sum = 0
        self._open: set[socket.socket] = set()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.controller = self
        self.address = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}).start()

    def __enter__(self) -> "Controller":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self.hang_up()
        self._server.server_close()  # waits for the threads

    def hang_up(self) -> None:
        """Closes all connections."""
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the client was first

    def ops(self) -> list[str]:
        """The operations of all requests so far."""
        return [op["op"] for request in self.requests for op in request["transactions"][0]["ops"]]

    def execute(self, request: dict[str, Any]) -> dict[str, Any]:
        """Opens and closes sessions, and counts all other requests with a session."""
        session, transactions = request.get("session", ""), request.get("transactions")
        op = transactions[0]["ops"][0]["op"] if transactions else ""
        if op == "open_session":
            self._opened += 1
            self.sessions[str(self._opened)] = {}
            return _result({"session": str(self._opened)})
        if not session:
            return _result({"row": {}})
        if session not in self.sessions:
            return {"error": {"code": "expired", "message": f"there is no session {session}"}}
        if op == "close_session":
            del self.sessions[session]
            return _result({})
        if request["seq"] not in self.sessions[session]:
            self._sum += 1
            self.sessions[session][request["seq"]] = _result({"value": str(self._sum)})
        answer: dict[str, Any] = self.sessions[session][request["seq"]]
        return answer


def _result(result: dict[str, Any]) -> dict[str, Any]:
    return {"outcomes": [{"results": [result]}]}


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    controller: Controller

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        if self.controller.context:
            connection = self.controller.context.wrap_socket(connection, True, do_handshake_on_connect=False)
        self.controller.connections += 1
        self.controller._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self.controller._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, *_: object) -> None:
        pass  # a client does not like the certificate, or is gone


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is sent at once, and no part of it waits for an acknowledgement
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        controller = self.server.controller
        body = self.rfile.read(int(self.headers["Content-Length"]))
        stream = self.headers["Content-Type"] == "application/connect+json"
        request = json.loads(body[5:] if stream else body)
        controller.requests.append(request)
        controller.tokens.append(self.headers.get("Authorization", ""))
        step = controller.script.pop(0) if controller.script else None
        self.close_connection = step in (LAST, LOST) or stream
        if step == LOST:
            controller.execute(request)
            controller.lost()
        elif isinstance(step, int):
            self.answer(step, b"refused")
        elif isinstance(step, bytes):
            self.answer(200, step)
        elif isinstance(step, list):
            self.answer(200, b"".join(_frame(response) for response in step))
        else:
            self.answer(200, json.dumps(controller.execute(request)).encode())

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


def _frame(response: dict[str, Any]) -> bytes:
    body = json.dumps(response).encode()
    return b"\0" + len(body).to_bytes(4, "big") + body

"""The part of ryu.app.wsgi about WebSockets and JSON-RPC over them, with tinyrpc."""

from collections.abc import Callable
from typing import Any

import webob
import webob.exc

from . import hub

try:
    from tinyrpc.client import RPCClient
    from tinyrpc.dispatch import RPCDispatcher
    from tinyrpc.dispatch import public as rpc_public
    from tinyrpc.protocols.jsonrpc import JSONRPCProtocol
    from tinyrpc.server import RPCServer
    from tinyrpc.transports import ClientTransport, ServerTransport
except ImportError as error:
    import sys

    raise ImportError(
        f"ryu.app.wsgi needs tinyrpc for WebSockets: run {sys.executable} -m pip install tinyrpc"
    ) from error

__all__ = ["WebSocketDisconnectedError", "WebSocketManager", "WebSocketRPCClient", "WebSocketRPCServer", "rpc_public",
           "websocket"]


def websocket(name: str, path: str) -> Any:
    """Marks a method of a controller as the one that has the WebSockets of path."""

    def mark(method: Any) -> Any:
        def handle(self: Any, req: Any, **_: Any) -> Any:
            connection = req.environ.get("holdfast.websocket")
            if connection is None:
                return webob.exc.HTTPBadRequest("this is the path of a WebSocket")
            connection.open()
            manager = self.parent.websocketmanager
            manager.add_connection(connection)
            try:
                method(self, connection)
            finally:
                manager.delete_connection(connection)
                connection.close()
            return webob.Response()

        handle.routing_info = {"name": name, "path": path, "methods": None, "requirements": None}  # type: ignore
        return handle

    return mark


class WebSocketDisconnectedError(Exception):
    """The client is gone."""


def _text(message: Any) -> str:
    return message.decode() if isinstance(message, bytes) else str(message)


class _Server(ServerTransport):  # type: ignore[misc]
    def __init__(self, connection: Any) -> None:
        self.ws = connection

    def receive_message(self) -> tuple[Any, Any]:
        message = self.ws.wait()
        if message is None:
            raise WebSocketDisconnectedError
        return None, message

    def send_reply(self, context: Any, reply: Any) -> None:
        self.ws.send(_text(reply))


class WebSocketRPCServer(RPCServer):  # type: ignore[misc]
    """Has the public methods of an object called by the client."""

    def __init__(self, ws: Any, rpc_callback: Any) -> None:
        dispatcher = RPCDispatcher()
        dispatcher.register_instance(rpc_callback)
        super().__init__(_Server(ws), JSONRPCProtocol(), dispatcher)

    def serve_forever(self) -> None:
        try:
            super().serve_forever()
        except WebSocketDisconnectedError:
            return

    def _spawn(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        hub.spawn(function, *args, **kwargs)


class _Client(ClientTransport):  # type: ignore[misc]
    def __init__(self, connection: Any, replies: Any) -> None:
        self.ws, self.queue = connection, replies

    def send_message(self, message: Any, expect_reply: bool = True) -> Any:
        self.ws.send(_text(message))
        if not expect_reply:
            return None
        reply = self.queue.get()
        if reply is None:
            raise ConnectionResetError("the client of a WebSocket has left without an answer")
        return reply


class WebSocketRPCClient(RPCClient):  # type: ignore[misc]
    """Calls methods of the client."""

    def __init__(self, ws: Any) -> None:
        self.ws, self.queue = ws, hub.Queue()
        super().__init__(JSONRPCProtocol(), _Client(ws, self.queue))

    def serve_forever(self) -> None:
        while (message := self.ws.wait()) is not None:
            self.queue.put(message)
        self.queue.put(None)  # for a call that waits for an answer


class WebSocketManager:
    """The connections of an application."""

    def __init__(self) -> None:
        self._connections: list[Any] = []

    def add_connection(self, ws: Any) -> None:
        self._connections.append(ws)

    def delete_connection(self, ws: Any) -> None:
        self._connections.remove(ws)

    def broadcast(self, message: Any) -> None:
        for connection in list(self._connections):
            try:
                connection.send(message)
            except OSError:
                pass  # it is about to leave

"""What applications know as ryu.app.wsgi: REST interfaces, whose requests are inputs of the log.

The interface is that of Ryu; os-ken 4 has none. Its part about WebSockets is in holdfast_ryu.rpc, which needs tinyrpc.
"""

import dataclasses
import inspect
import io
import itertools
import logging
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

import routes
import routes.util
import webob.dec
import webob.exc
from greenlet import GreenletExit
from os_ken import cfg
from os_ken.base import app_manager
from webob.request import Request as _Request
from webob.response import Response as _Response

from . import websockets, wire
from .outcome import Answer, TooMuch, outcome, refusal
from .scheduler import GreenThread, scheduler

HEX_PATTERN = r"0x[0-9a-z]+"
DIGIT_PATTERN = r"[1-9][0-9]*"
DEFAULT_WSGI_HOST = "0.0.0.0"
DEFAULT_WSGI_PORT = 8080
# WAITING bounds the requests that are not answered yet; beyond, a request is answered 503 at once.
WAITING = 1_024
# PATIENCE_SECONDS of virtual time may a handler take. Holdfast's client has given up by then.
PATIENCE_SECONDS = 120
# BODY_BYTES bounds the body of an answer; an application that answers more fails.
BODY_BYTES = 16 << 20

CONF = cfg.CONF
CONF.register_cli_opts(
    [
        cfg.StrOpt("wsapi-host", default=DEFAULT_WSGI_HOST, help="not used: Holdfast listens"),
        cfg.IntOpt("wsapi-port", default=DEFAULT_WSGI_PORT, help="not used: Holdfast listens"),
    ]
)


def __getattr__(name: str) -> Any:
    if name == "rpc_public" or name.lower().startswith("websocket"):
        from . import rpc

        if name in rpc.__all__:
            return getattr(rpc, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Request(_Request):  # type: ignore[misc]
    DEFAULT_CHARSET = "UTF-8"

    def __init__(self, environ: dict[str, Any], charset: str = DEFAULT_CHARSET, *args: Any, **kwargs: Any) -> None:
        super().__init__(environ, *args, charset=charset, **kwargs)


class Response(_Response):  # type: ignore[misc]
    DEFAULT_CHARSET = "UTF-8"

    def __init__(self, charset: str = DEFAULT_CHARSET, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, charset=charset, **kwargs)


def route(name: str, path: str, methods: list[str] | None = None, requirements: dict[str, str] | None = None) -> Any:
    """Marks a method of a controller as the one that answers requests for path."""

    def mark(method: Any) -> Any:
        method.routing_info = {"name": name, "path": path, "methods": methods, "requirements": requirements}
        return method

    return mark


class ControllerBase:
    """Made for each request; the route's action names the method that answers."""

    special_vars = ["action", "controller"]

    def __init__(self, req: Any, link: Any, data: Any, **config: Any) -> None:
        self.req = req
        self.link = link
        self.data = data
        self.parent: Any = None
        self.__dict__.update(config)

    def __call__(self, req: Any) -> Any:
        variables = {key: value for key, value in self.req.urlvars.items() if key not in self.special_vars}
        before = getattr(self, "__before__", None)
        if before is not None:
            before()
        return getattr(self, self.req.urlvars.get("action", "index"))(req, **variables)


class WSGIApplication:
    """The context "wsgi" of applications: finds the controller of a request."""

    def __init__(self, **config: Any) -> None:
        self.config = config
        self.mapper = routes.Mapper()
        self.registory: dict[str, Any] = {}  # as Ryu spells it: applications reach into it
        self.owners: dict[Any, str] = {}
        self._websocketmanager: Any = None
        self._waiting: dict[GreenThread, int] = {}  # since when

    def register(self, controller: Any, data: Any = None) -> None:
        """Takes the routes of a controller's marked methods."""
        self.owners[controller] = scheduler.owner()
        methods = inspect.getmembers(
            controller, lambda member: inspect.isroutine(member) and hasattr(member, "routing_info")
        )
        for name, method in methods:
            info = method.routing_info
            self.mapper.connect(
                info["name"],
                info["path"],
                controller=controller,
                action=name,
                requirements=info.get("requirements") or {},
                conditions={"method": info["methods"]} if info.get("methods") else {},
            )
        if data:
            self.registory[controller.__name__] = data

    @webob.dec.wsgify  # type: ignore[untyped-decorator]
    def __call__(self, req: Any) -> Any:
        match = self.mapper.match(environ=req.environ)
        if not match:
            return webob.exc.HTTPNotFound()
        req.urlvars = match
        which = match["controller"]
        scheduler.current().owner = self.owners.get(which) or self._owner(which)
        link = routes.util.URLGenerator(self.mapper, req.environ)
        controller = which(req, link, self.registory.get(which.__name__), **self.config)
        controller.parent = self
        return controller(req)

    @property
    def websocketmanager(self) -> Any:
        if self._websocketmanager is None:
            from . import rpc

            self._websocketmanager = rpc.WebSocketManager()
        return self._websocketmanager

    def _owner(self, controller: Any) -> str:
        """Of a controller that was not registered but connected to the mapper: the application of its module."""
        for app in app_manager.SERVICE_BRICKS.values():
            if type(app).__module__ == controller.__module__:
                return type(app).__name__
        return str(controller.__module__)

    def serve(self, request: wire.Request) -> None:
        """Answers a request in a green thread of its own, by this input or a later one."""
        self._give_up()
        if len(self._waiting) >= WAITING:
            outcome.answers.append(refusal(request.request_id, 503, f"{WAITING} requests wait for an answer\n"))
            return
        self._waiting[scheduler.spawn(self._answer, request)] = scheduler.clock.now_ns

    def _give_up(self) -> None:
        """Ends handlers that nobody waits for: else each kept a place, and checkpoints away, for ever."""
        before_ns = scheduler.clock.now_ns - PATIENCE_SECONDS * 10**9
        late = list(itertools.takewhile(lambda thread: self._waiting[thread] <= before_ns, self._waiting))
        for thread in late:
            del self._waiting[thread]
            thread.kill()
        if late:
            outcome.log(
                logging.WARNING,
                "holdfast",
                f"{len(late)} handlers of requests have not answered for {PATIENCE_SECONDS} s: they are ended",
            )

    def _answer(self, request: wire.Request) -> None:
        connection = None
        if websockets.of(request):
            connection = websockets.begin(request)
            if connection is None:
                text = f"{websockets.CONNECTIONS} WebSockets are open\n"
                outcome.answers.append(refusal(request.request_id, 503, text))
                return
            thread = scheduler.current()
            connection.taken = lambda: self._waiting.pop(thread, None)
        try:
            answer = _call(self, request, connection)
        except BaseException as error:
            if isinstance(error, GreenletExit) and scheduler.current() not in self._waiting:
                if connection is not None:
                    connection.close()
                return
            outcome.fail(scheduler.owner(), error)
            answer = refusal(request.request_id, 500, "the application failed: see the controller's log\n")
        self._waiting.pop(scheduler.current(), None)
        if connection is None or not connection.opened:
            outcome.answers.append(answer)
        if connection is not None:
            connection.close()


class Server(WSGIApplication):
    """A WSGI application that an application serves at a port of its own, as Faucet does its metrics."""

    def __init__(self, application: Callable[..., Any], by: str) -> None:
        super().__init__()
        self._application = application
        self.by = by

    def __reduce__(self) -> Any:
        return Server, (self._application, self.by)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        scheduler.current().owner = self.by
        return self._application(environ, start_response)


# servers are those of applications, by port.
servers: dict[int, Server] = {}


def serve_at(port: int, application: Callable[..., Any]) -> None:
    """Has requests answered by a WSGI application; one that was at the port before gives way."""
    servers[port] = Server(application, scheduler.owner())


# PORT begins the paths of a server of several: /port/9303/metrics are the metrics at port 9303.
PORT = re.compile(r"/port/(\d{1,5})(?=/)", re.ASCII)
HOST_PORT = re.compile(r"\d{1,5}", re.ASCII)


def choose(contexts: Iterable[Any], request: wire.Request) -> tuple[WSGIApplication | None, wire.Request]:
    """Finds what answers a request, and returns the request as that sees it.

    That is the server of the port that the path begins with, or that the client has connected to, or else the REST
    interface, or else the first server.
    """
    named = PORT.match(request.path)
    if named and int(named[1]) in servers:
        return servers[int(named[1])], dataclasses.replace(request, path=request.path[named.end() :])
    host = next((value for name, value in request.headers if name.lower() == "host"), "")
    reached = HOST_PORT.fullmatch(host.rpartition(":")[2])
    if reached and int(reached[0]) in servers:
        return servers[int(reached[0])], request
    for context in contexts:
        if isinstance(context, WSGIApplication):
            return context, request
    return next(iter(servers.values()), None), request


def _call(
    application: Callable[..., Any], request: wire.Request, connection: websockets.WebSocket | None = None
) -> Answer:
    begun: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
        begun.append((status, headers))

    environ = _environment(request.method, request.path, request.headers, request.body)
    if connection is not None:
        connection.environ = environ
        environ["holdfast.websocket"] = connection
    chunks = application(environ, start_response)
    try:
        body = b"".join(chunks)
    finally:
        close = getattr(chunks, "close", None)
        if close is not None:
            close()
    if connection is not None and connection.opened:
        return Answer(request.request_id, websockets.OPENED, [], b"")
    reason, headers = begun[-1]
    status = int(reason.split(" ", 1)[0])
    if not 100 <= status <= 999:
        raise ValueError(f"an answer of status {status}")
    if len(body) > BODY_BYTES:
        raise TooMuch(f"an answer of {len(body)} bytes: at most {BODY_BYTES}")
    return Answer(request.request_id, status, [(str(name), str(value)) for name, value in headers], body)


def _latin(text: str) -> str:
    """A text whose characters are the bytes of this one, as WSGI wants it (PEP 3333)."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def _environment(method: str, path: str, headers: list[tuple[str, str]], body: bytes) -> dict[str, Any]:
    """The WSGI environment of a request whose path may have a query."""
    path, _, query = path.partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": _latin(query),
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": str(DEFAULT_WSGI_PORT),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in headers:
        key = name.upper().replace("-", "_")
        if key == "CONTENT_LENGTH":
            continue
        key = key if key == "CONTENT_TYPE" else "HTTP_" + key
        value = _latin(value)
        environ[key] = f"{environ[key]},{value}" if key in environ else value
    environ.setdefault("HTTP_HOST", "127.0.0.1:8080")
    return environ


def start_service(_app_mgr: Any) -> None:
    """Nothing to start: requests come as inputs."""

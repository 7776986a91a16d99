"""What applications know as ryu.app.wsgi: REST interfaces, whose requests are inputs of the log.

The interface is that of Ryu; os-ken 4 has none. WebSockets are not here: what they push to a client
cannot be answered once by one of several controllers.
"""

import inspect
import io
import itertools
import logging
from collections.abc import Callable
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

from . import wire
from .outcome import Answer, TooMuch, outcome
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
    if name in (
        "websocket",
        "rpc_public",
        "WebSocketRPCClient",
        "WebSocketRPCServer",
        "WebSocketDisconnectedError",
        "WebSocketManager",
    ):
        raise ImportError(f"ryu.app.wsgi.{name}: Holdfast does not host applications that use WebSockets")
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
        try:
            answer = _call(self, request)
        except BaseException as error:
            if isinstance(error, GreenletExit) and scheduler.current() not in self._waiting:
                return
            outcome.fail(scheduler.owner(), error)
            answer = refusal(request.request_id, 500, "the application failed: see the controller's log\n")
        self._waiting.pop(scheduler.current(), None)
        outcome.answers.append(answer)


def refusal(request_id: int, status: int, text: str) -> Answer:
    """An answer that is the host's own."""
    return Answer(request_id, status, [("Content-Type", "text/plain; charset=UTF-8")], text.encode())


def _call(application: Callable[..., Any], request: wire.Request) -> Answer:
    begun: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
        begun.append((status, headers))

    chunks = application(_environment(request.method, request.path, request.headers, request.body), start_response)
    try:
        body = b"".join(chunks)
    finally:
        close = getattr(chunks, "close", None)
        if close is not None:
            close()
    reason, headers = begun[-1]
    status = int(reason.split(" ", 1)[0])
    if not 100 <= status <= 999:
        raise ValueError(f"an answer of status {status}")
    if len(body) > BODY_BYTES:
        raise TooMuch(f"an answer of {len(body)} bytes: at most {BODY_BYTES}")
    return Answer(request.request_id, status, [(str(name), str(value)) for name, value in headers], body)


def _environment(method: str, path: str, headers: list[tuple[str, str]], body: bytes) -> dict[str, Any]:
    """The WSGI environment of a request whose path may have a query."""
    path, _, query = path.partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
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
        environ[key] = f"{environ[key]},{value}" if key in environ else value
    environ.setdefault("HTTP_HOST", "127.0.0.1:8080")
    return environ


def start_service(_app_mgr: Any) -> None:
    """Nothing to start: requests come as inputs."""

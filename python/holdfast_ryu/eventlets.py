"""What applications know as eventlet: the green threads of hub, under the names of that library.

The library itself would bring an event loop and real time of its own. Sockets are those of hub: see sockets.
"""

import importlib
import importlib.abc
import importlib.machinery
import socket
import socketserver
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn
from wsgiref import simple_server

from . import hub
from .scheduler import GreenThread, scheduler


class StopServe(Exception):
    """Known to servers, which do not exist here."""


class _WebServer(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    """A green thread for each connection."""

    daemon_threads = True


class _Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


def _serve_wsgi(sock: socket.socket, site: Callable[..., Any], *_: Any, **__: Any) -> None:
    """wsgi.server: serves the WSGI application site at a socket that listens, for ever."""
    server = _WebServer(sock.getsockname()[:2], _Quiet, bind_and_activate=False)
    server.socket.close()
    server.socket = sock
    server.server_name, server.server_port = sock.getsockname()[:2]
    server.setup_environ()
    server.set_app(site)
    server.serve_forever()


class GreenPool:
    """Runs functions in at most size green threads; what is beyond waits in spawn."""

    def __init__(self, size: int = 1_000) -> None:
        self.size = size
        self._places = hub.Semaphore(size)
        self._running: dict[GreenThread, None] = {}

    def free(self) -> int:
        return self._places.counter

    def running(self) -> int:
        return len(self._running)

    def spawn(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> GreenThread:
        self._places.acquire()
        thread = scheduler.spawn(function, *args, **kwargs)
        self._running[thread] = None
        thread.link(self._ended)
        return thread

    def spawn_n(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.spawn(function, *args, **kwargs)

    def _ended(self, thread: GreenThread) -> None:
        del self._running[thread]
        self._places.release()

    def waitall(self) -> None:
        for thread in list(self._running):
            thread.wait()

    def imap(self, function: Callable[..., Any], *iterables: Iterable[Any]) -> Iterator[Any]:
        threads = [self.spawn(function, *args) for args in zip(*iterables, strict=False)]
        return (thread.wait() for thread in threads)


def _refused(name: str) -> Callable[..., NoReturn]:
    def call(*_: Any, **__: Any) -> NoReturn:
        hub.refuse_socket(f"eventlet.{name}")

    return call


def _nothing(*_: Any, **__: Any) -> None:
    """Time, threads and queues are virtual already."""


_SPAWN = {
    "sleep": hub.sleep,
    "spawn": hub.spawn,
    "spawn_n": hub.spawn,
    "spawn_after": hub.spawn_after,
    "spawn_after_local": hub.spawn_after,
    "kill": hub.kill,
    "getcurrent": hub.getcurrent,
    "GreenThread": GreenThread,
}
_QUEUE = {"Queue": hub.Queue, "LightQueue": hub.Queue, "Empty": hub.QueueEmpty, "Full": hub.QueueFull}
_SEMAPHORE = {"Semaphore": hub.Semaphore, "BoundedSemaphore": hub.BoundedSemaphore}
_POOL = {"GreenPool": GreenPool}
_SERVERS = {
    "listen": lambda *args, **kwargs: hub.listen(*args, **kwargs),
    "connect": lambda *args, **kwargs: hub.connect(*args, **kwargs),
    "serve": _refused("serve"),
    "wrap_ssl": _refused("wrap_ssl"),
    "StopServe": StopServe,
}
_PATCHER = {"monkey_patch": _nothing, "is_monkey_patched": lambda _module: True,
            "import_patched": importlib.import_module, "original": importlib.import_module}

# MODULES are the modules of the library that are here, with what they hold.
MODULES: dict[str, dict[str, Any]] = {
    "eventlet": _SPAWN | _POOL | _SERVERS | _PATCHER
    | {"Queue": hub.Queue, "Semaphore": hub.Semaphore, "Event": hub.HubEvent, "Timeout": hub.Timeout},
    "eventlet.event": {"Event": hub.HubEvent},
    "eventlet.green": {},
    "eventlet.greenpool": _POOL,
    "eventlet.greenthread": _SPAWN,
    "eventlet.hubs": {"use_hub": _nothing, "trampoline": _refused("hubs.trampoline")},
    "eventlet.patcher": _PATCHER,
    "eventlet.queue": _QUEUE,
    "eventlet.semaphore": _SEMAPHORE,
    "eventlet.timeout": {"Timeout": hub.Timeout},
    "eventlet.wsgi": {"server": _serve_wsgi},
}
_GREEN = "eventlet.green."


class _Loader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        # eventlet.green.time is a module of the standard library that yields, and here all of them do.
        return importlib.import_module(spec.name[len(_GREEN) :]) if spec.name.startswith(_GREEN) else None

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module).update(MODULES.get(module.__name__, {}))
        for name in MODULES:
            if module.__name__ == "eventlet" and name != "eventlet":
                importlib.import_module(name)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name in MODULES:
            return importlib.machinery.ModuleSpec(name, _Loader(), is_package=name in ("eventlet", "eventlet.green"))
        if name.startswith(_GREEN):
            return importlib.machinery.ModuleSpec(name, _Loader())
        if name.startswith("eventlet."):
            raise ModuleNotFoundError(
                f"{name} is not in a host of Holdfast: there are {', '.join(MODULES)}, and no sockets", name=name
            )
        return None


def install() -> None:
    """Before anything imports eventlet."""
    sys.meta_path.insert(0, _Finder())

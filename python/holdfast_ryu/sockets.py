"""Sockets of applications.

In `holdfast run` they work: a green thread that waits for one lets the others run, and what it does then belongs to the
next input, which is asked for at once. On a cluster what a socket brings is not in the log, and is refused.
"""

import _thread
import errno
import os
import select
import selectors
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn

from greenlet import getcurrent

from . import hub
from .scheduler import GreenThread, scheduler

READ, WRITE = select.EPOLLIN, select.EPOLLOUT
_ENDED = select.EPOLLERR | select.EPOLLHUP
_epoll, _real_select, _real_start = select.epoll, select.select, _thread.start_new_thread
_real_time, _real_sleep = time.monotonic, time.sleep
_READERS = ("recv", "recv_into", "recvfrom", "recvfrom_into", "recvmsg", "recvmsg_into", "_accept")
_WRITERS = ("send", "sendto", "sendmsg")
# _KERNEL are families whose sockets tell of this machine only, as files of /proc do: libraries such as scapy read its
# interfaces when they are imported.
_KERNEL = {family for family in (getattr(socket, "AF_NETLINK", None),) if family is not None}


class Watch:
    """The descriptors that green threads wait for, watched by one thread of the operating system."""

    def __init__(self, stir: Callable[[], None]) -> None:
        self._stir = stir  # asks for an input; any thread may call it
        self._epoll = _epoll()
        self._waiting: dict[int, dict[GreenThread, int]] = {}
        self._ready: deque[tuple[int, int]] = deque()
        self._begun = False

    def wait(self, wanted: dict[int, int], timeout: float | None) -> bool:
        """Has the current green thread wait for one of the descriptors; False if the time was over before that."""
        thread = scheduler.current()
        for descriptor, mask in wanted.items():
            self._waiting.setdefault(descriptor, {})[thread] = mask
            self._arm(descriptor)
        if not self._begun:
            self._begun = True
            _real_start(self._watch, ())
        try:
            return scheduler.park(timeout)
        finally:
            for descriptor in wanted:
                self._leave(descriptor, thread)

    def _leave(self, descriptor: int, thread: GreenThread) -> None:
        threads = self._waiting.get(descriptor, {})
        threads.pop(thread, None)
        if not threads:
            self._waiting.pop(descriptor, None)

    def _arm(self, descriptor: int) -> None:
        """Watches a descriptor for one event."""
        mask = select.EPOLLONESHOT
        for wanted in self._waiting[descriptor].values():
            mask |= wanted
        try:
            self._epoll.modify(descriptor, mask)
        except FileNotFoundError:
            self._epoll.register(descriptor, mask)

    def _watch(self) -> None:
        while True:
            self._ready.extend(self._epoll.poll())
            self._stir()

    def ring(self) -> None:
        """Wakes the threads whose descriptors are ready."""
        while self._ready:
            descriptor, events = self._ready.popleft()
            for thread, mask in list(self._waiting.get(descriptor, {}).items()):
                if events & (mask | _ENDED):
                    self._leave(descriptor, thread)
                    scheduler.wake(thread)
            if descriptor in self._waiting:
                self._arm(descriptor)

    def await_ready(self, seconds: float) -> bool:
        """Really waits, while no input can come."""
        end = _real_time() + seconds
        while not self._ready and _real_time() < end:
            _real_sleep(0.001)
        return bool(self._ready)

    def closed(self, descriptor: int) -> None:
        """Wakes the threads that wait for a descriptor which is about to be closed: what they call then fails."""
        for thread in self._waiting.pop(descriptor, {}):
            scheduler.wake(thread)


_watch: Watch | None = None


def ready() -> bool:
    """Whether a socket is ready that a green thread waits for."""
    return _watch is not None and bool(_watch._ready)


def await_ready(seconds: float) -> bool:
    """Waits, in real time and while applications are loaded, until a socket is ready; False if none is in time."""
    return _watch is not None and bool(_watch._waiting) and _watch.await_ready(seconds)


def ring() -> None:
    """Wakes the threads whose sockets are ready; an input is about to be executed."""
    if _watch is not None:
        _watch.ring()


def _green() -> bool:
    return type(getcurrent()) is GreenThread


def _yielding(name: str, mask: int) -> Callable[..., Any]:
    """A method of socket.socket that lets other green threads run while it waits."""
    real = getattr(socket.socket, name)

    def method(self: socket.socket, *args: Any, **kwargs: Any) -> Any:
        timeout = self.gettimeout()
        if timeout == 0 or not _green():
            return real(self, *args, **kwargs)
        while True:
            try:
                return _at_once(self, real, *args, **kwargs)
            except BlockingIOError:
                _wait(self, mask, timeout)

    return method


def _at_once(self: socket.socket, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    timeout = self.gettimeout()
    self.settimeout(0)
    try:
        return real(self, *args, **kwargs)
    finally:
        self.settimeout(timeout)


def _wait(self: socket.socket, mask: int, timeout: float | None) -> None:
    assert _watch is not None
    if not _watch.wait({self.fileno(): mask}, timeout):
        raise TimeoutError("timed out")


def _sendall(self: socket.socket, data: Any, flags: int = 0) -> None:
    left = memoryview(data).cast("B")
    while left:
        left = left[self.send(left, flags) :]


_real_connect_ex = socket.socket.connect_ex
_real_connect = socket.socket.connect
_real_close = socket.socket.close


def _connect(self: socket.socket, address: Any) -> None:
    timeout = self.gettimeout()
    if timeout == 0 or not _green():
        _real_connect(self, address)
        return
    error = _at_once(self, _real_connect_ex, address)
    if error == errno.EINPROGRESS:
        _wait(self, WRITE, timeout)
        error = self.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, os.strerror(error))


def _close(self: socket.socket) -> None:
    if _watch is not None and self.fileno() >= 0:
        _watch.closed(self.fileno())
    _real_close(self)


def _number(thing: Any) -> int:
    return thing if isinstance(thing, int) else int(thing.fileno())


def _select(readers: Any, writers: Any, errors: Any, timeout: float | None = None) -> Any:
    readers, writers, errors = list(readers), list(writers), list(errors)
    found = _real_select(readers, writers, errors, 0 if _green() else timeout)
    if any(found) or timeout == 0 or not _green():
        return found
    wanted: dict[int, int] = {}
    for things, mask in ((readers, READ), (writers, WRITE), (errors, select.EPOLLPRI)):
        for thing in things:
            wanted[_number(thing)] = wanted.get(_number(thing), 0) | mask
    assert _watch is not None
    _watch.wait(wanted, timeout)
    return _real_select(readers, writers, errors, 0)


class StreamServer:
    """hub.StreamServer: a green thread for each connection."""

    def __init__(
        self, listen_info: Any, handle: Any = None, backlog: int | None = None, spawn: Any = "default", **ssl_args: Any
    ) -> None:
        if ssl_args:
            raise hub.NoSocket("hub.StreamServer: TLS is not supported here: put a proxy with TLS in front of it")
        self.handle = handle
        self.server = listen(listen_info, backlog=backlog or 128)

    def serve_forever(self) -> None:
        while True:
            connection, address = self.server.accept()
            hub.spawn(self.handle, connection, address)


class StreamClient:
    """hub.StreamClient."""

    def __init__(self, addr: Any, timeout: float | None = None, **_: Any) -> None:
        self.addr, self.timeout, self._is_active = addr, timeout, True

    def connect(self) -> socket.socket | None:
        try:
            return connect(self.addr, self.timeout)
        except OSError:
            return None

    def connect_loop(self, handle: Callable[..., Any], interval: float) -> None:
        while self._is_active:
            connection = self.connect()
            if connection is not None:
                handle(connection, self.addr)
            hub.sleep(interval)

    def stop(self) -> None:
        self._is_active = False


def _family(address: Any) -> socket.AddressFamily:
    if isinstance(address, str):
        return socket.AF_UNIX
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


def listen(address: Any, family: Any = None, backlog: int = 50, **_: Any) -> socket.socket:
    """hub.listen, eventlet.listen."""
    server = socket.socket(family or _family(address), socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(address)
    server.listen(backlog)
    return server


def connect(address: Any, timeout: float | None = None, **_: Any) -> socket.socket:
    """hub.connect, eventlet.connect."""
    client = socket.socket(_family(address), socket.SOCK_STREAM)
    client.settimeout(timeout)
    client.connect(address)
    return client


def _refuser(name: str, streams: bool = False) -> Callable[..., Any]:
    """Refuses a method, or lets only sockets without connections have it."""
    real = getattr(socket.socket, name)

    def method(self: socket.socket, *args: Any, **kwargs: Any) -> Any:
        if _green() and self.family not in _KERNEL and (not streams or self.type == socket.SOCK_STREAM):
            _refuse(f"socket.{name.strip('_')}")
        return real(self, *args, **kwargs)

    return method


def _refuse(call: str) -> NoReturn:
    hub.refuse_socket(f"{scheduler.owner()} called {call}")


def _refuse_select(readers: Any, writers: Any, errors: Any, timeout: float | None = None) -> Any:
    if _green() and (readers or writers or errors):
        _refuse("select.select")
    return _real_select(readers, writers, errors, timeout)


def install(stir: Callable[[], None] | None) -> None:
    """Makes sockets work, if there is a function that asks for an input, or else refuses what they bring."""
    global _watch
    if stir is None:
        for name in _READERS:
            setattr(socket.socket, name, _refuser(name))
        for name in ("connect", "connect_ex"):  # what it brings is whether there is somebody, and when
            setattr(socket.socket, name, _refuser(name, streams=True))
    else:
        _watch = Watch(stir)
        for names, mask in ((_READERS, READ), (_WRITERS, WRITE)):
            for name in names:
                setattr(socket.socket, name, _yielding(name, mask))
        for name, function in (("sendall", _sendall), ("connect", _connect), ("close", _close)):
            setattr(socket.socket, name, function)
        for name, thing in (("StreamServer", StreamServer), ("StreamClient", StreamClient), ("listen", listen),
                            ("connect", connect)):
            setattr(hub, name, thing)
    select.select = _select if stir is not None else _refuse_select
    # Everything that waits for several goes through select.
    for name in ("poll", "epoll", "devpoll", "kqueue"):
        if hasattr(select, name):
            delattr(select, name)
    chosen = selectors.SelectSelector
    chosen._select = staticmethod(select.select)  # type: ignore[attr-defined]
    for name in ("PollSelector", "EpollSelector", "DefaultSelector"):
        setattr(selectors, name, chosen)
    server = sys.modules.get("socketserver")
    if server is not None:
        server._ServerSelector = chosen  # type: ignore[attr-defined]

"""What applications and the framework know as os_ken.lib.hub, on green threads in virtual time.

What would listen or connect raises NoSocket, unless holdfast_ryu.sockets has put something in its place.
"""

import logging
import queue
import socket as socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from greenlet import GreenletExit
from greenlet import getcurrent as getcurrent

from .scheduler import GreenThread, scheduler

HUB_TYPE = "holdfast"
LOG = logging.getLogger("os_ken.lib.hub")

TaskExit = GreenletExit
QueueEmpty = queue.Empty
QueueFull = queue.Full

_sleep_really = time.sleep
_thread_now = threading.get_ident
_host_thread = _thread_now()


class NoSocket(OSError):
    """On a cluster an application gets nothing from sockets: a replay would get something else."""


def patch(thread: bool = True) -> None:
    """Nothing is left to patch: the host did that before it loaded the framework."""


def sleep(seconds: float = 0) -> None:
    if _thread_now() != _host_thread:
        _sleep_really(seconds)  # a thread of the operating system: not ours to schedule
        return
    scheduler.park(seconds)


def spawn(function: Callable[..., Any], *args: Any, raise_error: bool = False, **kwargs: Any) -> GreenThread:
    """Starts a green thread. Nobody above it could take an error, so raise_error changes nothing."""
    return scheduler.spawn(function, *args, **kwargs)


def spawn_after(
    seconds: float, function: Callable[..., Any], *args: Any, raise_error: bool = False, **kwargs: Any
) -> GreenThread:
    return scheduler.spawn_after(seconds, function, *args, **kwargs)


def kill(thread: GreenThread) -> None:
    thread.kill()


def joinall(threads: Iterable[GreenThread]) -> None:
    for thread in threads:
        thread.wait()


class _Waiters:
    """Threads that wait for one thing, the oldest first."""

    __slots__ = ("_threads",)

    def __init__(self) -> None:
        self._threads: deque[GreenThread] = deque()

    def park(self, timeout: float | None) -> bool:
        """Waits to be woken; False if timeout seconds passed before that."""
        thread = scheduler.current()
        self._threads.append(thread)
        try:
            return scheduler.park(timeout)
        finally:
            if thread in self._threads:
                self._threads.remove(thread)

    def wake_one(self) -> None:
        while self._threads:
            thread = self._threads.popleft()
            if thread.parked:
                scheduler.wake(thread)
                return

    def wake_all(self) -> None:
        while self._threads:
            scheduler.wake(self._threads.popleft())


class _Deadline:
    """What is left of a timeout, in virtual time."""

    __slots__ = ("_at_ns",)

    def __init__(self, timeout: float | None) -> None:
        self._at_ns = None if timeout is None else scheduler.clock.now_ns + round(timeout * 1e9)

    def left(self) -> float | None:
        return None if self._at_ns is None else (self._at_ns - scheduler.clock.now_ns) / 1e9


class Event:
    """A flag that threads wait for."""

    def __init__(self) -> None:
        self._set = False
        self._waiters = _Waiters()

    def is_set(self) -> bool:
        return self._set

    isSet = is_set

    def set(self) -> None:
        self._set = True
        self._waiters.wake_all()

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for set().

        As in the framework, a set() that clear() has undone before the waiting thread ran does not count.
        """
        deadline = _Deadline(timeout)
        while not self._set:
            if not self._waiters.park(deadline.left()):
                break
        return self._set


class HubEvent:
    """A value that is sent once and waited for by any number of threads."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._sent = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._waiters = _Waiters()

    def ready(self) -> bool:
        return self._sent

    def send(self, result: Any = None, exc: BaseException | None = None) -> None:
        self._sent, self._value, self._error = True, result, exc
        self._waiters.wake_all()

    def send_exception(self, exc: BaseException) -> None:
        self.send(exc=exc)

    def wait(self, timeout: float | None = None) -> Any:
        if not self._sent:
            self._waiters.park(timeout)
        if self._error is not None:
            raise self._error
        return self._value


class Semaphore:
    def __init__(self, value: int = 1) -> None:
        if value < 0:
            raise ValueError("semaphore initial value must be >= 0")
        self.counter = value
        self._waiters = _Waiters()

    def locked(self) -> bool:
        return self.counter <= 0

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        deadline = None
        while self.counter <= 0:
            if not blocking:
                return False
            deadline = deadline or _Deadline(timeout)
            if not self._waiters.park(deadline.left()) and self.counter <= 0:
                return False
        self.counter -= 1
        return True

    def release(self) -> None:
        self.counter += 1
        if self._waiters._threads:
            self._waiters.wake_one()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class BoundedSemaphore(Semaphore):
    def __init__(self, value: int = 1) -> None:
        super().__init__(value)
        self._bound = value

    def release(self) -> None:
        if self.counter >= self._bound:
            raise ValueError("Semaphore released too many times")
        self.counter += 1
        if self._waiters._threads:
            self._waiters.wake_one()


class Queue:
    """First in, first out; without a maxsize it takes everything."""

    def __init__(self, maxsize: int | None = None) -> None:
        self.maxsize = maxsize
        self.queue: deque[Any] = deque()
        self.unfinished_tasks = 0
        self._getters = _Waiters()
        self._putters = _Waiters()
        self._joiners = _Waiters()

    def qsize(self) -> int:
        return len(self.queue)

    def __len__(self) -> int:
        return len(self.queue)

    def __bool__(self) -> bool:
        return True

    def empty(self) -> bool:
        return not self.queue

    def full(self) -> bool:
        return self.maxsize is not None and 0 < self.maxsize <= len(self.queue)

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        deadline = None
        while self.full():
            if not block:
                raise QueueFull
            deadline = deadline or _Deadline(timeout)
            if not self._putters.park(deadline.left()) and self.full():
                raise QueueFull
        self.queue.append(item)
        self.unfinished_tasks += 1
        if self._getters._threads:
            self._getters.wake_one()

    def put_nowait(self, item: Any) -> None:
        self.put(item, block=False)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        deadline = None if timeout is None else _Deadline(timeout)
        while not self.queue:
            if not block:
                raise QueueEmpty
            if not self._getters.park(deadline.left() if deadline else None) and not self.queue:
                raise QueueEmpty
        item = self.queue.popleft()
        if self._putters._threads:
            self._putters.wake_one()
        return item

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def task_done(self) -> None:
        if self.unfinished_tasks <= 0:
            raise ValueError("task_done() called too many times")
        self.unfinished_tasks -= 1
        if not self.unfinished_tasks:
            self._joiners.wake_all()

    def join(self) -> None:
        while self.unfinished_tasks:
            self._joiners.park(None)


class Timeout(BaseException):
    """Raises itself, or exception, in the thread that made it, unless it is cancelled within seconds.

    With exception=False its block ends without an error.
    """

    def __init__(self, seconds: float | None = None, exception: Any = None) -> None:
        super().__init__(seconds, exception)
        self.seconds = seconds
        self.exception = exception
        self._timer: Any = None
        self._thread: GreenThread | None = None
        self._error: BaseException = self
        self.start()

    def start(self) -> "Timeout":
        if self.seconds is None or self.pending:
            return self
        thread = self._thread = scheduler.current()
        error = self if self.exception is None or isinstance(self.exception, bool) else self.exception
        self._error = error() if isinstance(error, type) else error
        self._timer = scheduler.after(self.seconds, lambda: scheduler.throw(thread, self._error))
        return self

    @property
    def pending(self) -> bool:
        return self._timer is not None

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._thread is not None and self._thread.pending is self._error:
            self._thread.pending = None

    def __enter__(self) -> "Timeout":
        return self.start()

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        self.cancel()
        return error is self and self.exception is False

    def __str__(self) -> str:
        return "" if self.seconds is None else f"{self.seconds} seconds"


class LoggingWrapper:
    def write(self, message: str) -> None:
        LOG.info(message.rstrip("\n"))


def refuse_socket(what: str) -> NoReturn:
    raise NoSocket(
        f"{what}: what a socket brings is not in the log, so that each controller would get something else: let a"
        " program of its own have the connection, and speak with the application over REST, or use `holdfast run`,"
        " where sockets work"
    )


class StreamServer:
    def __init__(self, *_: Any, **__: Any) -> None:
        refuse_socket("hub.StreamServer")


class StreamClient:
    def __init__(self, *_: Any, **__: Any) -> None:
        refuse_socket("hub.StreamClient")


class WSGIServer:
    """A web server of an application's own. It opens no socket: requests come as inputs, see holdfast_ryu.wsgi."""

    def __init__(self, listen_info: tuple[str, int], handle: Any = None, *_: Any, **__: Any) -> None:
        from . import wsgi  # which imports this module

        self.server_address = listen_info
        wsgi.serve_at(int(listen_info[1]), handle)

    def serve_forever(self) -> None:
        """Waits until its thread is killed."""
        scheduler.park()


class WebSocketWSGI:
    """A WSGI application that has a function take the WebSockets of clients."""

    def __init__(self, handler: Callable[[Any], Any], *_: Any, **__: Any) -> None:
        self.handler = handler

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        connection = environ.get("holdfast.websocket")
        if connection is None:
            start_response("400 Bad Request", [])
            return [b"this is the path of a WebSocket\n"]
        connection.open()
        self.handler(connection)
        return []


def listen(*_: Any, **__: Any) -> NoReturn:
    refuse_socket("hub.listen")


def connect(*_: Any, **__: Any) -> NoReturn:
    refuse_socket("hub.connect")

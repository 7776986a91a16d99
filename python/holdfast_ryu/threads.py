"""Makes the threads and locks of the standard library green: inputs alone decide their order.

What a thread sends belongs to an input like anything else, and its sleep is one in virtual time. Threads that
extensions in C start are those of the operating system.
"""

import _thread
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent

from . import hub
from .scheduler import GreenThread, scheduler

# REAL_LOCKS are the types of locks that were made before these were green.
REAL_LOCKS = (type(threading.Lock()), type(threading.RLock()))

_real_ident = threading.get_ident
_real_current = threading.current_thread
_host_thread = _real_ident()
_threads: dict[GreenThread, threading.Thread] = {}
_green: dict[threading.Thread, GreenThread] = {}


class Lock(hub.Semaphore):
    """threading.Lock."""

    def __init__(self) -> None:
        super().__init__(1)

    def acquire(self, blocking: bool = True, timeout: float | None = -1) -> bool:
        if timeout is None or timeout < 0 and timeout != -1:
            raise ValueError("timeout value must be a non-negative number")
        if not blocking and timeout != -1:
            raise ValueError("can't specify a timeout for a non-blocking call")
        return super().acquire(blocking, None if timeout == -1 else timeout)

    def release(self) -> None:
        if self.counter:
            raise RuntimeError("release unlocked lock")
        super().release()

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]


def _ident() -> int:
    """The same number in every process, for a green thread."""
    current = getcurrent()
    return hash(current) if type(current) is GreenThread else _real_ident()


def _current() -> threading.Thread:
    current = getcurrent()
    if type(current) is GreenThread:
        return _threads.get(current) or threading.main_thread()
    return threading.main_thread() if _real_ident() == _host_thread else _real_current()


def _run(thread: threading.Thread) -> None:
    try:
        thread.run()
    except SystemExit:
        pass  # ends a thread, and nothing else


def _ended(green: GreenThread) -> None:
    thread = _threads.pop(green)
    del _green[thread]
    del threading._active[thread.ident]  # type: ignore[attr-defined]


def _start(self: threading.Thread) -> None:
    if self._started.is_set():  # type: ignore[attr-defined]
        raise RuntimeError("threads can only be started once")
    green = scheduler.spawn(_run, self)
    _threads[green], _green[self] = self, green
    self._ident = hash(green)  # type: ignore[attr-defined]
    threading._active[self._ident] = self  # type: ignore[attr-defined]
    self._started.set()  # type: ignore[attr-defined]
    green.link(_ended)


def _is_alive(self: threading.Thread) -> bool:
    return self is threading.main_thread() or self in _green


def _join(self: threading.Thread, timeout: float | None = None) -> None:
    if not self._started.is_set():  # type: ignore[attr-defined]
        raise RuntimeError("cannot join thread before it is started")
    if self is _current():
        raise RuntimeError("cannot join current thread")
    if self in _green and type(getcurrent()) is GreenThread:  # not the process, which ends
        _green[self].wait(timeout if timeout is None else max(timeout, 0))


def _start_new_thread(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> int:
    return hash(scheduler.spawn(function, *args, **(kwargs or {})))


def install() -> None:
    """After time is virtual, and before an application or the framework is imported."""
    for module in (threading, _thread):
        module.get_ident = _ident  # type: ignore[attr-defined]
    threading.current_thread = _current
    threading.Lock = threading._allocate_lock = Lock  # type: ignore[attr-defined,assignment]
    threading._CRLock = None  # type: ignore[attr-defined]  # then it takes the one in Python, on top of Lock
    threading._time = queue.time = time.monotonic  # type: ignore[attr-defined]
    queue.SimpleQueue = queue._PySimpleQueue  # type: ignore[attr-defined,misc]
    _thread.start_new_thread = _thread.start_new = threading._start_new_thread = _start_new_thread  # type: ignore
    for name, function in (("start", _start), ("is_alive", _is_alive), ("join", _join)):
        setattr(threading.Thread, name, function)

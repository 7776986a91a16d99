"""Makes time and datetime of the standard library tell virtual time, in UTC."""

import ctypes
import datetime
import gc
import os
import threading  # noqa: F401  keeps the real clock, which its locks need
import time
import types
from typing import Any

from . import hub
from .clock import clock

_REAL = {name: getattr(time, name) for name in ("gmtime", "localtime", "ctime", "asctime", "strftime")}


def _seconds() -> float:
    return clock.read() / 1e9


def _monotonic() -> float:
    return clock.read_monotonic() / 1e9


def _clock_gettime_ns(clock_id: int) -> int:
    return clock.read() if clock_id == time.CLOCK_REALTIME else clock.read_monotonic()


def _default(name: str) -> Any:
    """time.<name> with virtual time for the argument that means now."""
    real = _REAL[name]

    def function(seconds: float | None = None) -> Any:
        return real(_seconds() if seconds is None else seconds)

    return function


def _asctime(when: Any = None) -> str:
    return str(_REAL["asctime"](time.localtime() if when is None else when))


def _strftime(form: str, when: Any = None) -> str:
    return str(_REAL["strftime"](form, time.localtime() if when is None else when))


def _now(cls: Any, tz: Any = None) -> Any:
    return cls.fromtimestamp(_seconds(), tz)


def _utcnow(cls: Any) -> Any:
    return cls.fromtimestamp(_seconds(), datetime.timezone.utc).replace(tzinfo=None)


def _patch_datetime() -> None:
    """Puts virtual time into the type itself.

    C extensions such as those of pandas are compiled for this very type: a subclass in its place makes them crash. Its
    namespace is read only to Python, so it is reached as the garbage collector reaches it. datetime.today() and
    date.today() ask time.time().
    """
    (namespace,) = gc.get_referents(vars(datetime.datetime))
    namespace["now"], namespace["utcnow"] = classmethod(_now), classmethod(_utcnow)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime.datetime))  # the interpreter keeps what it has looked up


def logging_time() -> types.SimpleNamespace:
    """A time module for logging.

    A log record must not advance the clock: the log level would change what applications see.
    """
    return types.SimpleNamespace(
        time=lambda: clock.now_ns / 1e9,
        time_ns=lambda: clock.now_ns,
        monotonic=lambda: (clock.now_ns - clock.start_ns) / 1e9,
        localtime=_REAL["localtime"],
        gmtime=_REAL["gmtime"],
        strftime=_REAL["strftime"],
    )


def install() -> None:
    """Before anything else is imported that could keep the real functions."""
    import logging

    logging.time = logging_time()  # type: ignore[attr-defined]
    logging._startTime = 0  # type: ignore[attr-defined]
    os.environ["TZ"] = "UTC"
    time.tzset()
    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        setattr(time, name, _monotonic)
        setattr(time, name + "_ns", clock.read_monotonic)
    for name in ("localtime", "gmtime", "ctime"):
        setattr(time, name, _default(name))
    time.time = _seconds
    time.time_ns = clock.read
    time.clock_gettime = lambda clock_id: _clock_gettime_ns(clock_id) / 1e9
    time.clock_gettime_ns = _clock_gettime_ns
    time.asctime = _asctime
    time.strftime = _strftime
    time.sleep = hub.sleep  # type: ignore[assignment]
    _patch_datetime()

"""Makes time and datetime of the standard library tell virtual time, in UTC."""

import datetime
import os
import threading  # noqa: F401  keeps the real clock, which its locks need
import time
import types
from typing import Any

from . import hub
from .clock import clock

_REAL = {name: getattr(time, name) for name in ("gmtime", "localtime", "ctime", "asctime", "strftime")}
_real_datetime = datetime.datetime
_real_date = datetime.date


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


class _Instance(type):
    """What the real class made is an instance of the virtual one too."""

    real: type

    def __instancecheck__(cls, thing: object) -> bool:
        return isinstance(thing, cls.real)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.real)


class _Date(_real_date, metaclass=_Instance):
    real = _real_date

    @classmethod
    def today(cls) -> Any:
        return cls.fromtimestamp(_seconds())


class _Datetime(_real_datetime, metaclass=_Instance):
    real = _real_datetime

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return cls.fromtimestamp(_seconds(), tz)

    @classmethod
    def utcnow(cls) -> Any:
        return cls.fromtimestamp(_seconds(), datetime.timezone.utc).replace(tzinfo=None)

    @classmethod
    def today(cls) -> Any:
        return cls.fromtimestamp(_seconds())


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
    for virtual, real in ((_Date, "date"), (_Datetime, "datetime")):
        # Pickle finds a class by these names.
        virtual.__module__, virtual.__name__, virtual.__qualname__ = "datetime", real, real
        setattr(datetime, real, virtual)

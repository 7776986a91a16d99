"""Configuration files that come from the log, so that all hosts read the same at the same input.

They are those that the cluster file names. An application that asks for one before the first Files input waits for
that; but to a constructor it is missing, since no input can come before all are made. Then a file has the contents of
the last Files input. Other files are those of the machine.
"""

import builtins
import errno
import io
import os
import pathlib
import stat
from collections.abc import Callable, Iterable
from typing import Any

from greenlet import getcurrent

from . import hub
from .clock import clock
from .scheduler import GreenThread, scheduler
from .wire import Files

_real_open = io.open
_real_stat = os.stat
_real_access = os.access

# WRITES are the modes of open() that change a file.
WRITES = set("wax+")


class _Logged:
    """The files, by their real path: contents, and since when in virtual time."""

    def __init__(self) -> None:
        self.known = False
        self.given = hub.Event()
        self.loader: GreenThread | None = None
        self.starting: dict[GreenThread, hub.Event] = {}
        self.names: set[str] = set()
        self.all: dict[str, tuple[bytes, int]] = {}

    def name(self, path: Any) -> str | None:
        """The name of a file that comes from the log; None for any other."""
        if not isinstance(path, (str, bytes, os.PathLike)):
            return None  # a descriptor
        name = os.path.realpath(os.fsdecode(path))
        return name if name in self.names else None

    def content(self, name: str) -> tuple[bytes, int]:
        self.wait()
        if name not in self.all:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return self.all[name]

    def wait(self) -> None:
        """Waits for the first Files input."""
        current = getcurrent()
        if self.known or type(current) is not GreenThread or current is self.loader:
            return
        if current in self.starting:
            self.starting.pop(current).set()
        self.given.wait()


_logged = _Logged()


def _open(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
    name = _logged.name(file)
    if name is None:
        return _real_open(file, mode, *args, **kwargs)
    if WRITES & set(mode):
        raise PermissionError(errno.EACCES, "a file of `ryu: files` is read only: its contents come from the log", name)
    content = io.BytesIO(_logged.content(name)[0])
    if "b" in mode:
        return content
    values = dict(zip(("buffering", "encoding", "errors", "newline"), args, strict=False)) | kwargs
    return io.TextIOWrapper(
        content, values.get("encoding") or "utf-8", values.get("errors"), values.get("newline")
    )


def _stat(path: Any, *args: Any, **kwargs: Any) -> os.stat_result:
    name = _logged.name(path)
    if name is None:
        return _real_stat(path, *args, **kwargs)
    content, since_ns = _logged.content(name)
    seconds = since_ns // 10**9
    return os.stat_result(
        (stat.S_IFREG | 0o444, 1, 0, 1, 0, 0, len(content), seconds, seconds, seconds,
         *[since_ns / 1e9] * 3, *[since_ns] * 3)
    )


def _access(path: Any, mode: int, **kwargs: Any) -> bool:
    name = _logged.name(path)
    if name is None:
        return _real_access(path, mode, **kwargs)
    _logged.wait()
    return name in _logged.all and not mode & (os.W_OK | os.X_OK)


def install(names: Iterable[str]) -> None:
    """Before an application is imported. Without names nothing changes."""
    _logged.names = {os.path.realpath(name) for name in names}
    if not _logged.names:
        return
    builtins.open = io.open = _open
    os.stat = _stat
    os.access = _access
    accessor = getattr(pathlib, "_normal_accessor", None)  # until Python 3.10
    if accessor is not None:
        accessor.open, accessor.stat = _open, _stat


def loading(thread: GreenThread) -> None:
    """Names the thread that calls the constructors."""
    _logged.loader = thread


def start(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function that starts an application, and returns what it does.

    If it waits for the first Files input, start returns None at once, and the function goes on by itself.
    """
    if not _logged.names or _logged.known:
        return function(*args)
    apart = hub.Event()
    results: list[tuple[Any, BaseException | None]] = []

    def run() -> None:
        try:
            results.append((function(*args), None))
        except BaseException as error:
            if apart.is_set():
                raise
            results.append((None, error))
        apart.set()

    _logged.starting[scheduler.spawn(run)] = apart
    apart.wait()
    value, error = results[0] if results else (None, None)
    if error is not None:
        raise error
    return value


def take(files: Files) -> bool:
    """Gives the files other contents, and reports whether it did: those of a new leader are only for a beginning."""
    if files.first and _logged.known:
        return False
    _logged.known = True
    _logged.given.set()
    for path, content in files.contents.items():
        name = os.path.realpath(path)
        if content is None:
            _logged.all.pop(name, None)
        elif name not in _logged.all or _logged.all[name][0] != content:
            _logged.all[name] = (content, clock.now_ns)
    return True


def state() -> Any:
    """What the files hold."""
    return _logged.known, _logged.all


def set_state(state: Any) -> None:
    """Makes the files hold what state() has returned."""
    _logged.known, _logged.all = state

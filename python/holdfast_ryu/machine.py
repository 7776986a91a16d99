"""Refuses what reaches out of the process of a host: signals to others, other programs, an end of its own.

An input is executed on every controller. What it did to the machine it would do to all of them at once. Refusals rest
on Python's audit events where there is one, which also see functions that a module has kept under a name of its own.
Extensions written in C are not seen: what the kernel holds the process to (limits, capabilities, and a process
namespace that Holdfast gives it) is left then. Sockets are not refused here, nor are files, which have an owner, but
for those of the kernel. In `holdfast run`, where nothing is executed elsewhere, programs may be started.
"""

import _posixsubprocess
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from .scheduler import scheduler

_END = "the host goes on, and what failed is undone: raise an exception instead"
_RIGHTS = "the cluster file says as whom a host runs, and with how much memory: `ryu: user`, `ryu: memory_mb`"
_SYSTEM = "set up the machine outside of Holdfast"
_PROGRAM = "run the program beside Holdfast, and let it ask the application over REST"
# REMEDIES are the audit events that are refused, with what to do instead.
REMEDIES = {
    "os.exec": _PROGRAM,
    "os.fork": _PROGRAM,
    "os.forkpty": _PROGRAM,
    "os.kill": _END,
    "os.killpg": _END,
    "os.posix_spawn": _PROGRAM,
    "os.system": _PROGRAM,
    "pty.spawn": _PROGRAM,
    "resource.prlimit": _RIGHTS,
    "resource.setrlimit": _RIGHTS,
    "signal.pthread_kill": _END,
    "subprocess.Popen": _PROGRAM,
}
# PROGRAMS are those of them that `holdfast run` allows: a program beside this process, which ends with it.
PROGRAMS = ("os.posix_spawn", "os.system", "subprocess.Popen")
# PATHS are the audit events about files, with where their arguments have a path and the descriptor of its folder.
PATHS = {
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.link": ((0, 2), (1, 3)),
    "os.mkdir": ((0, 2),),
    "os.remove": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.rmdir": ((0, 1),),
    "os.symlink": ((1, 2),),
}
# SILENT are functions of os and signal without an audit event, with the same.
SILENT = {
    os: dict.fromkeys(("_exit", "abort"), _END)
    | dict.fromkeys(
        "setuid setgid seteuid setegid setreuid setregid setresuid setresgid setgroups initgroups setsid setpgid "
        "setpgrp nice setpriority sched_setaffinity sched_setparam sched_setscheduler unshare setns chroot".split(),
        _RIGHTS,
    )
    | {"mknod": _SYSTEM},
    signal: dict.fromkeys(("alarm", "setitimer", "raise_signal", "pidfd_send_signal"), _END),
}
# KERNEL are folders whose files are switches of the machine. FREE are files in them that are none.
KERNEL = ("/proc/", "/sys/", "/dev/")
SHARED = ("/dev/shm/",)
FREE = ("/dev/null", "/dev/tty", "/dev/pts/", *SHARED)
# _OPENED is what a link of /proc to a pipe or socket that this process has open leads to.
_OPENED = re.compile(r"fd/(pipe|socket):\[\d+\]")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_real_open = os.open


class Refused(PermissionError):
    """A call that would reach out of the process of this host."""


def _refuse(call: str, remedy: str) -> NoReturn:
    who = scheduler.owner() or "an application"
    raise Refused(
        f"{who if who != '?' else 'a thread of the operating system'} called {call}: an application of Holdfast does"
        f" nothing to the machine, since its inputs are executed on every controller: {remedy}"
    )


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        path, _, flags = arguments
        if flags & _WRITES:
            _check_path(path, "open", "write")
        return
    if event in PATHS:
        for path, folder in PATHS[event]:
            followed = event in ("os.chmod", "os.chown")
            _check_path(_below(arguments[path], arguments[folder]), event, "change", followed, free=SHARED)
        return
    remedy = REMEDIES.get(event)
    if remedy is None or event == "os.kill" and arguments[1] == 0:  # only asks whether a process exists
        return
    _refuse(event, remedy)


def _below(path: Any, folder: int | None) -> Any:
    """The path that a call means which names it relative to an open folder."""
    if folder is None or folder < 0 or not isinstance(path, (str, bytes, os.PathLike)):
        return path
    return os.path.join(f"/proc/self/fd/{folder}", os.fsdecode(path))


def _check_path(path: Any, call: str, purpose: str, followed: bool = True, free: tuple[str, ...] = FREE) -> None:
    """Refuses a call that changes a file of the kernel, or, if links are not followed, an entry of such a folder."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return
    name = os.fsdecode(path)
    if followed:
        where = os.path.realpath(name)
    else:
        folder, entry = os.path.split(os.path.abspath(name))
        where = os.path.join(os.path.realpath(folder), entry)
    if not where.startswith(KERNEL) or where.startswith(free):
        return
    mine = os.path.realpath("/proc/self") + "/"
    if not (followed and where.startswith(mine) and _OPENED.fullmatch(where[len(mine) :])):
        _refuse(f"{call} of {name} to {purpose}", _SYSTEM)


def _open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    """os.open, whose audit event does not tell which folder a path is relative to."""
    if dir_fd is not None and flags & _WRITES:
        _check_path(_below(path, dir_fd), "open", "write")
    return _real_open(path, flags, mode, dir_fd=dir_fd)


def _refuser(call: str, remedy: str) -> Callable[..., NoReturn]:
    def function(*_: Any, **__: Any) -> NoReturn:
        _refuse(call, remedy)

    return function


# handlers are those of each application for signals. Signals of the system are not theirs: an operator's reload comes
# as an input.
handlers: dict[tuple[int, str], Any] = {}


def _signal(number: int, handler: Any) -> Any:
    before = _getsignal(number)
    handlers[number, scheduler.owner()] = handler
    return before


def _getsignal(number: int) -> Any:
    return handlers.get((number, scheduler.owner()), signal.SIG_DFL)


def reload() -> None:
    """Tells applications what SIGHUP tells a daemon: to read its configuration again."""
    for (number, owner), handler in handlers.items():
        if number == signal.SIGHUP and callable(handler):
            scheduler.spawn(handler, number, None).owner = owner


def install(alone: bool) -> None:
    """After the framework is imported, and before an application is."""
    signal.signal = _signal  # type: ignore[assignment]
    signal.getsignal = _getsignal  # type: ignore[assignment]
    for module, remedies in SILENT.items():
        for name, remedy in remedies.items():
            if hasattr(module, name):  # not each Python has all
                setattr(module, name, _refuser(f"{module.__name__}.{name}", remedy))
    os.open = _open
    os.supports_dir_fd.add(_open)
    if alone:
        for event in PROGRAMS:
            del REMEDIES[event]
    else:
        fork_exec = _refuser("subprocess.Popen", _PROGRAM)
        _posixsubprocess.fork_exec = fork_exec
        subprocess._fork_exec = fork_exec  # type: ignore[attr-defined]
    sys.addaudithook(_audit)

"""Whether everything stands still between two inputs, and if not, who waits where."""

import threading
from pathlib import Path
from typing import Any

import os_ken
from os_ken.base import app_manager

from . import wsgi
from .scheduler import GreenThread, scheduler

_HOST = __package__.partition(".")[0]
_FRAMEWORK = Path(os_ken.__file__).parent


def busy(loops: dict[GreenThread, Any], receivers: set[GreenThread]) -> str | None:
    """Describes a thread or request that is active; None if there is none.

    The event loops of applications and the receivers of switches do not count.
    """
    for loop, app in loops.items():
        if loop.ended:
            return f"{short(app)}: its event loop has ended"
    for thread in scheduler.threads:
        where = _place(thread)
        if (thread in loops or thread in receivers) and not where and thread.pending is None:
            continue
        return f"{_whose(thread)}: {_what(thread, loops, receivers)} {where or _target(thread)}"
    if scheduler.next_ns() is not None:
        return "a timer runs that no green thread waits for"
    for app in loops.values():
        if not app.events.empty():
            return f"{short(app)}: events wait for it"
    if threading.active_count() > 1:
        return "a thread of the operating system runs"
    return None


def short(app: Any) -> str:
    """The name of an application's module, without packages."""
    return str(type(app).__module__.rpartition(".")[2])


def _whose(thread: GreenThread) -> str:
    for app in app_manager.SERVICE_BRICKS.values():
        if type(app).__name__ == thread.owner:
            return short(app)
    return thread.owner or "the framework"


def _what(thread: GreenThread, loops: dict[GreenThread, Any], receivers: set[GreenThread]) -> str:
    if thread in loops:
        return "a handler waits in"
    if thread in receivers:
        return "messages of a switch wait in"
    if getattr(thread.target, "__func__", None) is wsgi.WSGIApplication._answer:
        return "a request waits in"
    return "a green thread waits in" if thread else "a green thread is to start"


def _target(thread: GreenThread) -> str:
    return str(getattr(thread.target, "__qualname__", type(thread.target).__name__))


def _place(thread: GreenThread) -> str:
    """The innermost function on a thread's stack that is not the host's, nor, if there is another, the framework's."""
    if not thread:
        return _target(thread)
    found = ""
    frame = thread.gr_frame
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] != _HOST:
            path = Path(frame.f_code.co_filename)
            here = f"{frame.f_code.co_name} ({path.name}:{frame.f_lineno})"
            if not path.is_relative_to(_FRAMEWORK):
                return here
            found = found or here
        frame = frame.f_back
    return found

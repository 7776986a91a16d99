"""Whether everything stands still between two inputs, and if not, who waits where."""

import queue
import threading
from pathlib import Path
from typing import Any

import os_ken
from os_ken.base import app_manager

from . import asleep, wsgi
from .scheduler import GreenThread, scheduler

_HOST = __package__.partition(".")[0]
_FRAMEWORK = Path(os_ken.__file__).parent
_LIBRARIES = {threading.__file__, queue.__file__}  # where threads wait for each other


class Busy(Exception):
    """A thread or request that is active, described."""


def sleepers(loops: dict[GreenThread, Any], receivers: set[GreenThread]) -> list[asleep.Sleeper]:
    """Returns the threads that sleep, in their order, or raises Busy.

    The event loops of applications and the receivers of switches do not count.
    """
    found = []
    for loop, app in loops.items():
        if loop.ended:
            raise Busy(f"{short(app)}: its event loop has ended")
    for thread in scheduler.threads:
        where = _place(thread)
        if (thread in loops or thread in receivers) and not where and thread.pending is None:
            continue
        try:
            if thread in loops or thread in receivers or _answers(thread):
                raise asleep.Awake
            found.append(asleep.keep(thread))
        except asleep.Awake as why:
            what = _what(thread, loops, receivers)
            raise Busy(f"{whose(thread.owner)}: {what} {where or _target(thread)}{why}") from None
    if scheduler.running_timers() > sum(sleeper.due is not None for sleeper in found):
        raise Busy("a timer runs that no green thread waits for")
    for app in loops.values():
        if not app.events.empty():
            raise Busy(f"{short(app)}: events wait for it")
    if threading.active_count() > 1:
        raise Busy("a thread of the operating system runs")
    return found


def short(app: Any) -> str:
    """The name of an application's module, without packages."""
    return str(type(app).__module__.rpartition(".")[2])


def whose(owner: str) -> str:
    """The name of the module of the application that owns something."""
    for app in app_manager.SERVICE_BRICKS.values():
        if type(app).__name__ == owner:
            return short(app)
    return owner or "the framework"


def _what(thread: GreenThread, loops: dict[GreenThread, Any], receivers: set[GreenThread]) -> str:
    if thread in loops:
        return "a handler waits in"
    if thread in receivers:
        return "messages of a switch wait in"
    if _answers(thread):
        return "a request waits in"
    return "a green thread waits in" if thread else "a green thread is to start"


def _answers(thread: GreenThread) -> bool:
    """Whether it executes a request, whose client waits."""
    return getattr(thread.target, "__func__", None) is wsgi.WSGIApplication._answer


def _target(thread: GreenThread) -> str:
    return str(getattr(thread.target, "__qualname__", type(thread.target).__name__))


def _place(thread: GreenThread) -> str:
    """The innermost function on a thread's stack that is not the host's, nor, if there is another, a library's."""
    if not thread:
        return _target(thread)
    found = ""
    frame = thread.gr_frame
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] != _HOST:
            path = Path(frame.f_code.co_filename)
            here = f"{frame.f_code.co_name} ({path.name}:{frame.f_lineno})"
            if not path.is_relative_to(_FRAMEWORK) and str(path) not in _LIBRARIES:
                return here
            found = found or here
        frame = frame.f_back
    return found

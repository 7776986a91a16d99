"""Loads applications with the framework's own manager, and executes inputs one after the other.

Importing it imports os_ken: framework.install() comes first.
"""

import gc
import os
import platform
from importlib.metadata import version
from typing import Any

from . import blame, checkpoint, datapath, files, machine, metrics, names, pickling, sockets, websockets, wire, wsgi
from .blame import LoadError
from .clock import clock
from .outcome import Answer, outcome, refusal
from .scheduler import scheduler

# LOAD_SECONDS is how much virtual time applications may wait for in their constructors.
LOAD_SECONDS = 60
# SOCKET_SECONDS of real time may a socket need meanwhile; then timers are next.
SOCKET_SECONDS = 5
# LINES is how many of the last log lines are part of the error if loading fails. A wrong option is reported in one of
# these lines.
LINES = 20
# GARBAGE is when the garbage collector looks: an event makes a hundred objects, and few of them in cycles.
GARBAGE = (20_000, 20, 20)


def load_classes(manager: Any, apps: list[str]) -> None:
    """Imports applications, and what they require, without making one."""
    manager.load_apps([names.real(name) for app in apps for name in app.split(",")])
    if not manager.applications_cls:
        raise LoadError(
            f"{', '.join(apps)}: no application in there: a class derived from app_manager.RyuApp is one"
        )


class Host:
    """Executes inputs. load() comes first."""

    def __init__(self, apps: list[str], options: list[str]) -> None:
        self._apps = apps
        self._options = options
        self._switches = datapath.Switches()
        self._manager: Any = None
        self._error: BaseException | None = None
        self._checkpoints: checkpoint.Checkpoints | None = None

    def load(self, number: int = 0, state: bytes = b"") -> wire.Ready:
        """Makes the applications.

        Their constructors may wait: time passes for that. With a state they continue after input `number`.
        """
        scheduler.failed = outcome.fail
        if state:
            checkpoint.prepare(state)
        loader = scheduler.spawn(self._load)
        # It owns the threads that modules and plain classes of _CONTEXTS start; an application owns its own.
        loader.owner = ", ".join(os.path.basename(app).removesuffix(".py") for app in self._apps)
        files.loading(loader)
        scheduler.run()
        while not loader.ended:
            if sockets.await_ready(SOCKET_SECONDS):
                sockets.ring()
                scheduler.run()
                continue
            next_ns = scheduler.next_ns()
            if next_ns is None or next_ns > clock.start_ns + LOAD_SECONDS * 10**9:
                raise LoadError(
                    f"{', '.join(self._apps)}: a constructor waits for something that only an input can bring"
                )
            clock.advance(next_ns)
            scheduler.ring()
            scheduler.run()
        if self._error is not None:
            said = "\n".join(line.text for line in outcome.take().lines[-LINES:])
            raise LoadError(f"{blame.reason(self._error)}\n{said}") from self._error
        self._checkpoints = checkpoint.Checkpoints(self._manager, self._switches)
        gc.collect()
        gc.freeze()  # what is there now stays: it need not be looked at again
        gc.set_threshold(*GARBAGE)
        taken = outcome.take()
        if taken.failures:
            first = taken.failures[0]
            raise LoadError(f"{first.owner}: {first.trace.strip().splitlines()[-1]}\n{first.trace}")
        if state:
            self._checkpoints.restore(state, number)
        apps = [type(app).__name__ for app in self._manager.applications.values()]
        return wire.Ready(platform.python_version(), version("os-ken"), apps, self._wake_ns(), taken.lines)

    def _load(self) -> None:
        try:
            self._load_apps()
        except BaseException as error:
            self._error = error

    def _load_apps(self) -> None:
        # As in ryu-manager: log and switches register options, which is too late once cfg.CONF has been called.
        from os_ken import cfg, log  # noqa: F401
        from os_ken.base import app_manager
        from os_ken.topology import switches  # noqa: F401

        try:
            cfg.CONF(args=self._options, project="ryu", default_config_files=[], default_config_dirs=[])
        except SystemExit as error:  # it has said which option is wrong
            raise LoadError("\n".join(line.text for line in outcome.lines[-1:])) from error
        self._manager = manager = app_manager.AppManager.get_instance()
        load_classes(manager, self._apps)
        metrics.install()
        manager.instantiate_apps(**manager.create_contexts())

    def checkpoint(self) -> wire.Checkpointed:
        """Returns the state that all inputs so far have brought about, if it can be kept."""
        assert self._checkpoints is not None, "load() comes first"
        try:
            return wire.Checkpointed(scheduler.input, self._checkpoints.take(), "")
        except pickling.Refused as error:
            return wire.Checkpointed(scheduler.input, b"", str(error))

    def execute(self, entry: wire.Input) -> wire.Result:
        """Executes one input until everything waits."""
        if entry.number != scheduler.input + 1:
            raise wire.Malformed(f"input {entry.number} after {scheduler.input}")
        scheduler.input = entry.number
        clock.advance(entry.time_ns)
        scheduler.ring()
        sockets.ring()
        scheduler.run()
        outcome.settle()
        try:
            self._switches.connect_again()
            if type(entry.event) is wire.Message:  # as most are
                self._switches.message(entry.event.datapath_id, entry.event.message)
            else:
                self._dispatch(entry.event)
        except (datapath.Overflow, ValueError) as error:
            outcome.fail("", error)
        scheduler.run()
        return wire.Result(entry.number, self._wake_ns(), *outcome.take())

    def _wake_ns(self) -> int | None:
        """When something is due that needs an input."""
        due = scheduler.next_ns(), self._switches.next_ns()
        return min((at_ns for at_ns in due if at_ns is not None), default=None)

    def _dispatch(self, event: wire.Event) -> None:
        match event:
            case wire.Up():
                self._switches.up(event.datapath_id, event.features, event.ports)
            case wire.Down():
                self._switches.down(event.datapath_id)
            case wire.Request():
                self._request(event)
            case wire.Files():
                if files.take(event):
                    machine.reload()
                outcome.answers.append(Answer(event.request_id, 200, [], b""))

    def _request(self, event: wire.Request) -> None:
        if websockets.of(event)[:1] not in ([], ["open"]):
            websockets.serve(event)
            return
        server, event = wsgi.choose(self._manager.contexts.values(), event)
        if server is not None:
            server.serve(event)
            return
        outcome.answers.append(refusal(event.request_id, 404, "no application here has a REST interface\n"))

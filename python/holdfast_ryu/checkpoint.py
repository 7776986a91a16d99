"""Checkpoints: the state of applications and framework as bytes, from which another process goes on.

Only what stands still can be kept, between inputs: no green thread but those of the framework, and those that sleep
(see asleep). Whatever a
loaded host has anyway is referred to by its place; the rest is pickled, all of it in one go, so that what
is shared stays shared.
"""

import importlib
import io
import pickle
import sys
from importlib.metadata import version
from typing import Any

from os_ken import cfg

from . import asleep, entropy, files, framework, logs, metrics, sets, wire, wsgi
from .clock import clock
from .idle import Busy, short, sleepers, whose
from .outcome import outcome
from .pickling import Pickler, Refused, Unpickler, said
from .places import Places, contents, refill
from .scheduler import GreenThread, scheduler

# STATE_BYTES leaves room for the rest of a HELLO.
STATE_BYTES = wire.FRAME_BYTES - (1 << 20)

Pieces = dict[str, dict[Any, Any]]


class Unfit(RuntimeError):
    """A checkpoint that this host cannot go on from."""


class Checkpoints:
    """Takes and restores the state of all that the manager has loaded. Made when that is done."""

    def __init__(self, manager: Any, switches: Any) -> None:
        self._manager = manager
        self._switches = switches
        self._apps = dict(manager.applications)
        self._loops: dict[GreenThread, Any] = framework.event_loops()
        self._web = {
            key: context for key, context in manager.contexts.items() if isinstance(context, wsgi.WSGIApplication)
        }
        self._routes = {key: len(context.mapper.matchlist) for key, context in self._web.items()}
        self._modules = set(sys.modules)
        self._places = Places({cls.__module__.partition(".")[0] for cls in manager.applications_cls.values()})
        self._name_things()

    def _name_things(self) -> None:
        add = self._places.add
        add(("<manager>",), self._manager)
        add(("<options>",), cfg.CONF)
        for name, app in self._apps.items():
            add(("<app>", name), app, own=True)
            for attribute in ("events", "_events_sem", "_event_stop"):
                add(("<app>", name, attribute), getattr(app, attribute))
            for number, handler in enumerate(
                handler for handlers in app.event_handlers.values() for handler in handlers
            ):
                add(("<app>", name, "handler", number), handler)
        for loop, app in self._loops.items():
            add(("<app>", app.name, "loop"), loop)
        for key, context in self._web.items():
            add(("<context>", key), context, own=True)
            add(("<context>", key, "mapper"), context.mapper)
        self._places.survey()

    def take(self) -> bytes:
        """Returns the state after the last input, or raises Refused. The host goes on as if nobody had asked."""
        sleeping = self._check()
        generators = _generators()
        try:
            state = self._dump(generators, sleeping)
            if len(state) > STATE_BYTES:
                raise Refused(f"the state has {len(state)} bytes: at most {STATE_BYTES}")
            return state
        finally:
            _set_generators(generators)
            outcome.take()

    def _check(self) -> list[asleep.Sleeper]:
        if self._manager.applications != self._apps:
            raise Refused("applications were started or ended after those of the command line")
        for app in self._apps.values():
            if app not in self._loops.values():
                raise Refused(f"{short(app)}: its events come to no loop")
        if any(len(context.mapper.matchlist) != self._routes[key] for key, context in self._web.items()):
            raise Refused("routes were added to the REST interface after the applications were loaded")
        try:
            return sleepers(self._loops, {datapath.receiver for datapath in self._switches.all.values()})
        except Busy as busy:
            raise Refused(str(busy)) from None

    def _dump(self, generators: dict[str, Any], sleeping: list[asleep.Sleeper]) -> bytes:
        out = io.BytesIO()
        numbers = [sleeper.serial for sleeper in sleeping]
        pickler = Pickler(out, self._places, numbers)
        serials = {name: vars(app).get("_serial") for name, app in self._apps.items()}
        imported = [name for name in sys.modules if name not in self._modules]
        pieces = self._pieces(sleeping)
        try:
            pickler.dump((_versions(), scheduler.input, serials, imported, generators))
            pickler.dump_all(pieces)
            # What cannot be read back here cannot be read anywhere else.
            read = Unpickler(io.BytesIO(out.getvalue()), self._places)
            read.load()
            read.load_all()
        except Exception as error:
            raise Refused(self._culprit(pieces, numbers) or said(error)) from error
        return out.getvalue()

    def _pieces(self, sleeping: list[asleep.Sleeper]) -> Pieces:
        return {
            "own": {key: contents(thing) for key, thing in self._places.own.items()},
            "bound": self._places.bindings(),
            "contexts": dict(self._manager.contexts),
            "switches": self._switches.all,
            "metrics": metrics.state(),
            "servers": dict(wsgi.servers),
            "threads": {sleeper.serial: sleeper for sleeper in sleeping},
        }

    def _culprit(self, pieces: Pieces, numbers: list[int]) -> str | None:
        """Keeps one thing after the other, to name the first that fails."""
        for kind, things in pieces.items():
            for key, held in things.items():
                names = held if isinstance(held, dict) and kind in ("own", "bound") else {"": held}
                for name, value in names.items():
                    out = io.BytesIO()
                    try:
                        Pickler(out, self._places, numbers).dump_all(value)
                        Unpickler(io.BytesIO(out.getvalue()), self._places).load_all()
                    except Exception as error:
                        if isinstance(held, asleep.Sleeper):
                            return f"{whose(held.owner)}: what a green thread knows in {held.where}: {said(error)}"
                        return f"{self._whose(kind, key, name)}: {said(error)}"
        return None

    def _whose(self, kind: str, key: Any, name: Any) -> str:
        if not isinstance(key, tuple):
            names = {"contexts": "context", "metrics": "metrics of", "servers": "the server at port"}
            return f"{names[kind]} {key}" if kind in names else f"switch {key:016x}"
        if key[0] == "<app>":
            return f"{short(self._apps[key[1]])}: self.{name}"
        return f"{key[0].rpartition('.')[2]}: {'.'.join(str(part) for part in (*key[1:], name) if part != '')}"

    def restore(self, state: bytes, number: int) -> None:
        """Makes this host, which has executed nothing, one that has executed all inputs up to number."""
        unpickler = Unpickler(io.BytesIO(state), self._places)
        versions, count, serials, imported, generators = unpickler.load()
        if versions != _versions():
            raise Unfit(
                f"a checkpoint of Python {versions[0]} with os-ken {versions[1]}: this host has {_versions()[0]} with"
                f" {_versions()[1]}"
            )
        if count != number or serials.keys() != self._apps.keys():
            raise Unfit(
                f"a checkpoint after input {count} of {', '.join(serials)}: wanted is {number} of"
                f" {', '.join(self._apps)}"
            )
        scheduler.abandon(keep=self._loops)  # the threads of constructors have ended, in the state
        try:
            sleepers(self._loops, set())
        except Busy as busy:
            raise Unfit(f"going on from a checkpoint: {busy}") from None
        for name in imported:
            importlib.import_module(name)
        for name, serial in serials.items():
            self._apps[name]._serial = serial or 0
        pieces, layouts = unpickler.load_all()
        self._apply(pieces)
        for elements, layout in layouts:
            sets.fill(elements, layout)
        self._switches.resume(pieces["switches"])
        asleep.resume(list(pieces["threads"].values()), unpickler.thread)
        scheduler.input = number
        _set_generators(generators)
        outcome.take()

    def _apply(self, pieces: Pieces) -> None:
        self._manager.contexts.update(pieces["contexts"])
        self._places.bind(pieces["bound"])
        metrics.set_state(pieces["metrics"])
        wsgi.servers.clear()
        wsgi.servers.update(pieces["servers"])
        for key, held in pieces["own"].items():
            refill(self._places.own[key], held)


def prepare(state: bytes) -> None:
    """Comes before applications are loaded that are to go on from a state: they find the files that it knows."""
    *_, generators = pickle.loads(state)
    files.set_state(generators["files"])


def _versions() -> tuple[str, str]:
    return f"{sys.version_info.major}.{sys.version_info.minor}", version("os-ken")


def _generators() -> dict[str, Any]:
    """What goes on counting: time, numbers of things, what is random, lines."""
    return {
        "now_ns": clock.now_ns,
        "serial": scheduler.last_serial,
        "entropy": entropy.state(),
        "logs": logs.state(),
        "files": files.state(),
    }


def _set_generators(state: dict[str, Any]) -> None:
    clock.now_ns, scheduler.last_serial = state["now_ns"], state["serial"]
    entropy.set_state(state["entropy"])
    logs.set_state(state["logs"])
    files.set_state(state["files"])

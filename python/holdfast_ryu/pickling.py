"""Pickles with places: what has one is a reference, and sets keep their order."""

import importlib
import marshal
import pickle
import random
import re
import sys
import threading
import types
from collections.abc import Iterable
from typing import Any, BinaryIO

from . import sets, threads
from .places import Key, Places
from .scheduler import GreenThread, scheduler

_LOCKS = {
    **dict(zip(threads.REAL_LOCKS, (threading.Lock, threading.RLock), strict=True)),
    type(threading.Lock()): threading.Lock,
    type(threading.RLock()): threading.RLock,
}
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_SET, _FROZEN, _THREAD = "<set>", "<frozenset>", "<thread>"


class Refused(Exception):
    """What cannot be kept, and why."""


class Pickler(pickle.Pickler):
    """Sets are written after the rest, when all that is in them is there: so a set may hold what holds it."""

    def __init__(self, file: BinaryIO, places: Places, sleeping: Iterable[int] = ()) -> None:
        """sleeping are the numbers of the green threads that are kept."""
        super().__init__(file, protocol=5)
        self._key = places.key
        self._is_fixed = places.is_fixed
        self._sleeping = set(sleeping)
        self._sets: dict[int, tuple[Key, set[Any]]] = {}
        self._unwritten: list[int] = []

    def dump_all(self, thing: Any) -> None:
        """Writes a thing, and then what is in its sets."""
        self.dump(thing)
        while self._unwritten:
            some, self._unwritten = self._unwritten, []
            self.dump([(self._sets[number][0], sets.layout(self._sets[number][1])) for number in some])
        self.dump([])

    def persistent_id(self, thing: Any) -> Key | None:
        key = self._key(id(thing))
        kind = type(thing)
        if kind is set:
            return self._set(thing, key)
        if kind is GreenThread and key is None and hash(thing) in self._sleeping and not thing.ended:
            return _THREAD, hash(thing)
        if key is None and isinstance(thing, (set, frozenset)) and thing:
            if kind is frozenset:
                return _FROZEN, sets.layout(thing)
            if sets.layout(thing) != sets.layout(set(list(thing))):
                raise Refused(f"the order of a {kind.__name__} cannot be kept: only that of a set")
        return key

    def _set(self, elements: set[Any], key: Key | None) -> Key:
        if id(elements) not in self._sets:
            self._sets[id(elements)] = (key or (_SET, len(self._sets)), elements)
            self._unwritten.append(id(elements))
        return self._sets[id(elements)][0]

    def reducer_override(self, thing: Any) -> Any:
        kind = type(thing)
        if isinstance(thing, types.ModuleType) and sys.modules.get(thing.__name__) is thing:
            return importlib.import_module, (thing.__name__,)
        if kind is GreenThread:
            return _thread(thing)
        if kind in _LOCKS:
            if getattr(thing, "_is_owned", lambda: False)() or not thing.acquire(blocking=False):
                raise Refused("a lock is held")
            thing.release()
            return _LOCKS[kind], ()
        if kind is random.SystemRandom:
            return random.SystemRandom, ()
        if kind is types.FunctionType and "<locals>" in thing.__qualname__ and thing.__closure__:
            return self._closure(thing)
        tries = sys.modules.get("pytricia")
        if tries is not None and isinstance(thing, tries.PyTricia):
            return _trie(thing)
        return NotImplemented


    def _closure(self, function: types.FunctionType) -> Any:
        """Keeps a function that was made in another one, if what it encloses has names: else it may change unseen."""
        module = function.__module__
        if not self._is_fixed(function) or vars(sys.modules.get(module, object)) is not function.__globals__:
            return NotImplemented
        enclosed = tuple(cell.cell_contents for cell in function.__closure__ or ())
        values = function.__defaults__, function.__kwdefaults__
        return _closure, (module, marshal.dumps(function.__code__), function.__qualname__, enclosed, values)


class Unpickler(pickle.Unpickler):
    """Reads what a Pickler has written, in a process that has the same places."""

    def __init__(self, file: BinaryIO, places: Places) -> None:
        super().__init__(file)
        self._things = places.things
        self._sets: dict[Key, set[Any]] = {}
        self.threads: dict[int, GreenThread] = {}  # that sleep, by number; they have not begun

    def load_all(self) -> tuple[Any, list[tuple[set[Any], sets.Layout]]]:
        """Returns what dump_all() has written: a thing, and its sets, which are empty, with what they are to hold."""
        thing = self.load()
        found = []
        while layouts := self.load():
            found += [(self.persistent_load(key), layout) for key, layout in layouts]
        return thing, found

    def persistent_load(self, key: Key) -> Any:
        if key[0] == _SET:
            return self._sets.setdefault(key, set())
        if key[0] == _FROZEN:
            return sets.frozen(key[1])
        if key[0] == _THREAD:
            return self.thread(key[1])
        try:
            return self._things[key]
        except KeyError:
            raise pickle.UnpicklingError(
                f"no {'.'.join(map(str, key))} here: the applications are not the same"
            ) from None

    def thread(self, serial: int) -> GreenThread:
        """Returns the thread of that number."""
        if serial not in self.threads:
            # What it executes follows.
            thread = self.threads[serial] = GreenThread(scheduler, lambda: None, (), {})
            thread._serial = serial
        return self.threads[serial]


def said(error: BaseException) -> str:
    """An error in one line, without addresses."""
    text = _ADDRESS.sub("", " ".join(str(error).split()))
    return text if isinstance(error, Refused) else f"{type(error).__name__}: {text}"


def _closure(module: str, code: bytes, name: str, enclosed: tuple[Any, ...], values: Any) -> types.FunctionType:
    cells = tuple(types.CellType(value) for value in enclosed)
    function = types.FunctionType(marshal.loads(code), vars(importlib.import_module(module)), None, None, cells)
    function.__qualname__ = name
    function.__defaults__, function.__kwdefaults__ = values
    return function


def _trie(trie: Any) -> Any:
    """Keeps a trie of pytricia, which pickles only while it is frozen."""
    trie.freeze()
    try:
        return *trie.__reduce__(), None, None, _set_trie
    finally:
        trie.thaw()


def _set_trie(trie: Any, state: Any) -> None:
    trie.__setstate__(state)
    trie.thaw()


def _thread(thread: GreenThread) -> Any:
    if thread.ended:
        return _ended, (hash(thread), thread.owner), {"value": thread.value}
    if not thread.owner:
        return type(None), ()  # a switch's receiver: another begins
    raise Refused("a green thread that runs")


def _ended(serial: int, owner: str) -> GreenThread:
    thread = GreenThread(scheduler, _ended, (), {})
    thread._serial, thread.owner = serial, owner
    thread.throw()
    return thread

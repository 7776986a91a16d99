"""Sets whose order goes on as it was.

The order of a set follows from what was added to it and removed from it, ever: a set made of the same
elements may have another, now or later. So a checkpoint keeps which element is where in the table of a
set, as CPython has it in memory (Objects/setobject.c, the same in 3.10 to 3.13).
"""

import ctypes
from typing import Any, NamedTuple

SMALL = 8


class Layout(NamedTuple):
    """A set's table: how large it is, where pop() goes on, what is where, and where something was removed."""

    size: int
    finger: int
    elements: list[tuple[int, Any]]
    removed: list[int]


class _Entry(ctypes.Structure):
    _fields_ = [("key", ctypes.c_void_p), ("hash", ctypes.c_ssize_t)]


class _Set(ctypes.Structure):
    _fields_ = [
        ("head", ctypes.c_byte * object.__basicsize__),
        ("fill", ctypes.c_ssize_t),
        ("used", ctypes.c_ssize_t),
        ("mask", ctypes.c_ssize_t),
        ("table", ctypes.c_void_p),
        ("hash", ctypes.c_ssize_t),
        ("finger", ctypes.c_ssize_t),
        ("small", _Entry * SMALL),
    ]


_malloc = ctypes.pythonapi.PyMem_Calloc
_malloc.restype, _malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_size_t]
_own = ctypes.pythonapi.Py_IncRef
_own.restype, _own.argtypes = None, [ctypes.py_object]


def _raw(elements: Any) -> _Set:
    return _Set.from_address(id(elements))


def _table(raw: _Set) -> Any:
    return (_Entry * (raw.mask + 1)).from_address(raw.table)


def layout(elements: Any) -> Layout:
    """Reads the table of a set or frozenset."""
    raw = _raw(elements)
    at = {id(element): element for element in elements}
    held, removed = [], []
    for slot, entry in enumerate(_table(raw)):
        if entry.key in at:
            held.append((slot, at[entry.key]))
        elif entry.key:
            removed.append(slot)
    if len(held) != len(elements) or len(held) != raw.used or len(held) + len(removed) != raw.fill:
        raise RuntimeError("this Python has sets of another layout: 3.10 to 3.13 are known")
    return Layout(raw.mask + 1, raw.finger, held, removed)


def fill(elements: set[Any], wanted: Layout) -> None:
    """Makes a set what layout() has read."""
    elements.clear()
    _write(elements, wanted)


def frozen(wanted: Layout) -> frozenset[Any]:
    """Makes a frozenset of what layout() has read. It is not empty."""
    elements = frozenset((None,))  # empty ones are all the same
    ctypes.memset(_raw(elements).table, 0, SMALL * ctypes.sizeof(_Entry))
    _write(elements, wanted)
    return elements


def _write(elements: Any, wanted: Layout) -> None:
    """Fills the empty small table of a set, or gives it one that is large enough."""
    hashes = [hash(element) for _, element in wanted.elements]  # may raise: so before anything is written
    slots = [*wanted.removed, *(slot for slot, _ in wanted.elements)]
    if wanted.size < SMALL or wanted.size & (wanted.size - 1) or not all(0 <= slot < wanted.size for slot in slots):
        raise ValueError(f"a set with a table of {wanted.size}")
    raw = _raw(elements)
    if wanted.size > SMALL:
        table = _malloc(wanted.size, ctypes.sizeof(_Entry))
        if not table:
            raise MemoryError(f"a set with a table of {wanted.size}")
        raw.table, raw.mask = table, wanted.size - 1
    entries = _table(raw)
    for (slot, element), number in zip(wanted.elements, hashes, strict=True):
        _own(element)
        entries[slot].key, entries[slot].hash = id(element), number
    for slot in wanted.removed:
        entries[slot].key, entries[slot].hash = _REMOVED, -1
    raw.fill, raw.used, raw.finger = len(wanted.elements) + len(wanted.removed), len(wanted.elements), wanted.finger


def _removed() -> int:
    """What stands in a table where an element was removed."""
    elements = {1}
    elements.remove(1)
    return int(next(entry.key for entry in _table(_raw(elements)) if entry.key))


_REMOVED = _removed()

"""What every host of the same applications has once it has loaded them, by name: a checkpoint refers to it.

Of libraries, os-ken among them, that is all: what they keep in their modules is not kept. What the
modules and classes of applications hold is, and it stays the same thing, with new contents.
"""

import enum
import os
import sys
import sysconfig
import types
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import os_ken

Key = tuple[Any, ...]

# ATOMS have no identity, and pickle as what they are.
ATOMS = (
    int,
    float,
    complex,
    str,
    bytes,
    tuple,
    frozenset,
    type,
    types.ModuleType,
    type(None),
    type(NotImplemented),
    type(...),
)
CODE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)

STANDARD = tuple(sysconfig.get_path(which) + os.sep for which in ("stdlib", "platstdlib"))
HOST = os.path.dirname(__file__) + os.sep
FRAMEWORK = os.path.dirname(os_ken.__file__) + os.sep


class Places:
    """Names objects.

    Own objects have contents, which change. The packages are those of the applications, wherever their files are.
    """

    def __init__(self, packages: set[str]) -> None:
        self._packages = packages - {"os_ken"}
        self.things: dict[Key, Any] = {}
        self.own: dict[Key, Any] = {}
        self._keys: dict[int, Key] = {}
        self._bound: dict[Key, dict[str, Any]] = {}
        self.key = self._keys.get  # by id(thing): all things are in self.things, so none is another's

    def add(self, key: Key, thing: Any, own: bool = False) -> None:
        """Names a thing, unless it has a name."""
        if issubclass(type(thing), ATOMS) or id(thing) in self._keys:
            return
        self.things[key] = thing
        self._keys[id(thing)] = key
        if own:
            self.own[key] = thing

    def survey(self) -> None:
        """Names what modules hold, those of libraries first, and then functions that only own things hold."""
        ours, libraries = self._modules()
        for module in libraries:
            for name, value in list(vars(module).items()):
                self.add((module.__name__, name), value)
        for key, owner in _namespaces(ours):
            self._bound[key] = dict(vars(owner))
            for name, value in self._bound[key].items():
                if _is_data(name, value) and refillable(value):
                    self.add((*key, name), value, own=type(value) not in (set, object))
        for key, thing in list(self.own.items()):
            held = contents(thing)
            for at, value in held.items() if isinstance(held, dict) else enumerate(held):
                if isinstance(value, types.FunctionType) and self.is_fixed(value):
                    self.add((*key, "holds", at), value)

    def _modules(self) -> tuple[list[types.ModuleType], list[types.ModuleType]]:
        """The modules of applications, and all others."""
        modules = [
            module
            for name, module in list(sys.modules.items())
            if isinstance(module, types.ModuleType) and module.__name__ == name
        ]
        ours = [module for module in modules if self._is_ours(module.__name__, getattr(module, "__file__", None))]
        return ours, [module for module in modules if module not in ours]

    def _is_ours(self, name: str, file: str | None) -> bool:
        """Whether a module is neither of a library that is installed nor of this host."""
        if not file or name == "__main__":
            return False
        if name.partition(".")[0] in self._packages:
            return True
        if name.startswith("os_ken."):
            return not file.startswith(FRAMEWORK)  # in a folder ryu/app: see names
        return not (file.startswith((*STANDARD, HOST)) or "/site-packages/" in file or "/dist-packages/" in file)

    def is_fixed(self, function: types.FunctionType) -> bool:
        """Whether all that a function encloses has a name: else it may change unseen."""
        try:
            return all(id(cell.cell_contents) in self._keys for cell in function.__closure__ or ())
        except ValueError:  # an empty cell
            return False

    def bindings(self) -> dict[Key, dict[str, Any]]:
        """What the names of applications' modules and classes are bound to, but for their code."""
        found = {}
        for key, owner in _namespaces(self._modules()[0]):
            loaded = self._bound.get(key, {})
            found[key] = {
                name: value
                for name, value in vars(owner).items()
                if _is_data(name, value) or value is not loaded.get(name, value)
            }
        return found

    def bind(self, bindings: dict[Key, dict[str, Any]]) -> None:
        """Does in this process what bindings() has found in another."""
        for (module, *path), names in bindings.items():
            owner: Any = sys.modules[module]
            for part in path:
                owner = getattr(owner, part)
            for name in [name for name, value in vars(owner).items() if _is_data(name, value) and name not in names]:
                delattr(owner, name)
            for name, value in names.items():
                if vars(owner).get(name, names) is not value:
                    setattr(owner, name, value)


def refillable(thing: Any) -> bool:
    """Whether contents() and refill() have all that there is in a thing."""
    kind = type(thing)
    if issubclass(kind, (*ATOMS, *CODE)):
        return False
    if kind in (dict, list, set, OrderedDict, object):
        return True  # a plain object, which has nothing but its identity, too
    if (
        issubclass(kind, (dict, list))
        or not hasattr(thing, "__dict__")
        or any("__slots__" in vars(base) for base in kind.__mro__)
    ):
        return False
    return all(
        getattr(kind, name, None) is getattr(object, name, None)
        for name in ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__")
    )


def contents(thing: Any) -> Any:
    """A copy of what a thing holds: a dict or a list."""
    if isinstance(thing, dict):
        return dict(thing)
    return list(thing) if isinstance(thing, list) else dict(vars(thing))


def refill(thing: Any, held: Any) -> None:
    """Makes a thing hold what contents() has returned."""
    target = thing if isinstance(thing, (dict, list)) else vars(thing)
    target.clear()
    target.extend(held) if isinstance(target, list) else target.update(held)


def _namespaces(modules: list[types.ModuleType]) -> Iterator[tuple[Key, Any]]:
    """Modules, and the classes that they define."""
    for module in modules:
        open_: list[tuple[Key, Any]] = [((module.__name__,), module)]
        while open_:
            key, owner = open_.pop()
            yield key, owner
            for name, value in vars(owner).items():
                own = (
                    isinstance(value, type)
                    and value.__module__ == module.__name__
                    and value.__qualname__ == ".".join((*key[1:], name))
                )
                if own and not issubclass(value, enum.Enum):
                    open_.append(((*key, name), value))


def _is_data(name: str, value: Any) -> bool:
    """Whether what a name is bound to can be state: no function, class, property or the like."""
    return not name.startswith(("__", "_abc_")) and not isinstance(value, CODE) and not hasattr(type(value), "__get__")

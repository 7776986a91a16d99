"""Metrics of applications, as in prometheus_client: those of an application are its own, and equal at all hosts.

Several applications share the process of a host, and the registry of the library: they may use the same names.
"""

import sys
from typing import Any

from .scheduler import scheduler


def install() -> None:
    """After applications were imported, and before one is made."""
    library = sys.modules.get("prometheus_client")
    if library is None:
        return
    registry = library.REGISTRY
    for name in ("PROCESS_COLLECTOR", "PLATFORM_COLLECTOR", "GC_COLLECTOR"):  # each process has another one
        collector = getattr(library, name, None)
        if collector in registry._collector_to_names:
            registry.unregister(collector)
    registry.__class__ = _shared(type(registry))


def state() -> dict[str, dict[str, Any]]:
    """What the registry of each application holds."""
    return {
        owner: {name: value for name, value in vars(registry).items() if name != "_lock"}
        for owner, registry in _registries.items()
    }


def set_state(state: dict[str, dict[str, Any]]) -> None:
    """Makes the registries hold what state() has returned."""
    for owner, held in state.items():
        vars(_registry(owner)).update(held)


# _registries are those of the applications, by name.
_registries: dict[str, Any] = {}


def _registry(owner: str) -> Any:
    if owner not in _registries:
        library = sys.modules["prometheus_client"]
        _registries[owner] = library.CollectorRegistry(auto_describe=True)
        for collector in library.REGISTRY._collector_to_names:  # of modules, which the host has imported
            _registries[owner].register(collector)
    return _registries[owner]


def _shared(base: Any) -> Any:
    """A class for the library's registry that is one registry for each application."""

    class Shared(base):  # type: ignore[misc]
        def _own(self) -> Any:
            return _registry(scheduler.owner())

        def register(self, collector: Any) -> None:
            self._own().register(collector)

        def unregister(self, collector: Any) -> None:
            self._own().unregister(collector)

        def collect(self) -> Any:
            return self._own().collect()

        def restricted_registry(self, names: Any) -> Any:
            return self._own().restricted_registry(names)

    return Shared

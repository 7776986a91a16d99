"""Lets applications import ryu.*: each such module is the one of os_ken, under a second name.

os-ken no longer ships the applications of Ryu, and they build on each other: whatever ryu/app
folder lies on the path is searched after os_ken/app. Its files then use os_ken like everything else.
"""

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import types
from collections.abc import Sequence


class _Alias(importlib.abc.Loader):
    def __init__(self, real: str) -> None:
        self._real = real
        self._spec: importlib.machinery.ModuleSpec | None = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = importlib.import_module(self._real)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has put that of the alias there


def _complete(module: types.ModuleType) -> None:
    """Adds what os-ken asks of the module ovs.db.idl, and only ovs before version 3 had."""
    if not hasattr(module, "_uuid_to_row"):
        module._uuid_to_row = lambda atom, _base: atom  # type: ignore[attr-defined]


class _Ovs(importlib.abc.MetaPathFinder):
    """Has ovs.db.idl completed when it is imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "ovs.db.idl":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        loader = spec.loader if spec else None
        if loader is not None:
            execute = loader.exec_module

            def complete(module: types.ModuleType) -> None:
                execute(module)
                _complete(module)

            loader.exec_module = complete  # type: ignore[method-assign]
        return spec


class _Finder(importlib.abc.MetaPathFinder):

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "ryu" and not name.startswith("ryu."):
            return None
        real = "os_ken" + name[len("ryu") :]
        try:
            importlib.import_module(real)
        except ModuleNotFoundError as error:
            if error.name == real:
                return None  # so the name in the error is the one that the application wrote
            raise
        return importlib.machinery.ModuleSpec(name, _Alias(real), is_package=True)


def install() -> None:
    """After the path is final, and before an application is imported."""
    sys.meta_path.insert(0, _Finder())
    sys.meta_path.insert(0, _Ovs())
    import os_ken.app
    import os_ken.base.app_manager
    import os_ken.exception

    os_ken.base.app_manager.RyuApp = os_ken.base.app_manager.OSKenApp
    os_ken.exception.RyuException = os_ken.exception.OSKenException
    os_ken.version = os_ken.__version__  # which its BGP speaker imports
    for folder in sys.path:
        apps = os.path.join(folder, "ryu", "app")
        if os.path.isdir(apps):
            os_ken.app.__path__.append(apps)


def real(app: str) -> str:
    """The name by which the framework knows an application: it would load one with two names twice."""
    return "os_ken" + app[len("ryu") :] if app.startswith("ryu.") and not os.path.exists(app) else app


def require_app(name: str, api_style: bool = False) -> None:
    """app_manager.require_app, which counts stack frames.

    This one leaves out the frames of the import system and of this package.
    """
    skipped = {"importlib", "importlib._bootstrap", "importlib._bootstrap_external", __name__}
    importers = []
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module not in skipped:
            importers.append(module)
        frame = frame.f_back  # type: ignore[assignment]
    module = sys.modules[importers[1 if api_style else 0]]
    module.__dict__.setdefault("_REQUIRED_APP", []).append(real(name))

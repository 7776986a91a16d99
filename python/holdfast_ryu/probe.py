"""Tells what a host of some applications would run, and imports them to see that it could: python -m holdfast_ryu
probe APP...

It makes no application. Until all packages and files are found it imports nothing but the standard library, so that it
can say what is missing.
"""

import hashlib
import importlib.util
import json
import os
import sys
import time
from importlib.metadata import PackageNotFoundError, version

from . import VERSION

# NEEDED are the distributions that a host imports, as pip wants them: pyproject.toml says the same.
NEEDED = {"os-ken": "os-ken>=3.1,<5", "greenlet": "greenlet>=3", "Routes": "Routes", "WebOb": "WebOb"}


class Missing(Exception):
    """What a host would not find, where it looked, and what to do."""


def report(apps: list[str]) -> str:
    """Returns one line of JSON, or raises Missing."""
    versions = _versions()
    named = [name for app in apps for name in app.split(",")]  # as the framework does
    described = [_describe(name) for name in named]
    _load(apps)
    return json.dumps(
        {
            "python": f"{sys.version_info.major}.{sys.version_info.minor}",
            "os_ken": versions["os-ken"],
            "host": VERSION,
            "applications": described,
        }
    )


def _load(apps: list[str]) -> None:
    """Imports applications as a host does. What they print and log meanwhile is dropped."""
    from . import blame, loading, session, wire

    printed = sys.stdout, sys.stderr
    watched = loading.Watched()
    try:
        session.prepare(wire.Hello(0, time.time_ns(), 50, "holdfast", apps, []), fast_paths=False, names=[])
        from os_ken.base import app_manager

        from . import host

        host.load_classes(app_manager.AppManager.get_instance(), apps)
    except (Exception, SystemExit) as error:
        print(blame.trace(error), file=printed[1])
        raise Missing(blame.reason(error)) from error
    finally:
        watched.done()
        sys.stdout, sys.stderr = printed


def _versions() -> dict[str, str]:
    found = {}
    for name in NEEDED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    absent = [name for name in NEEDED if name not in found]
    if absent:
        wanted = " ".join(f"'{NEEDED[name]}'" for name in absent)
        raise Missing(
            f"{', '.join(absent)} not installed for {sys.executable}: run {sys.executable} -m pip install {wanted}"
        )
    return found


def _describe(name: str) -> dict[str, str]:
    path = _find(name)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise Missing(
            f"application {name}: cannot read {path}: {error.strerror}: give the path of a Python file, or the name of"
            " a module"
        ) from error
    return {"name": name, "file": path, "sha256": hashlib.sha256(content).hexdigest()}


def _find(name: str) -> str:
    """Returns the file of an application, which is named by its path or its module."""
    if os.path.exists(name):
        return os.path.abspath(name)
    if os.sep in name or name.endswith(".py"):
        raise Missing(f"application {name}: no such file, looked in {os.getcwd()}: check the path")
    parts = name.split(".")
    if parts[0] == "ryu":
        parts[0] = "os_ken"
    top = importlib.util.find_spec(parts[0]) if parts[0] else None
    if top is not None:
        file = _module(top.origin, list(top.submodule_search_locations or ()), parts)
        if file is not None:
            return file
    remedy = "give its file, or put the folder that its name begins in on PYTHONPATH"
    if parts[:2] == ["os_ken", "app"]:
        remedy = (
            "os-ken has no applications: put the folder that holds ryu/app, as in the sources of Ryu, on PYTHONPATH"
        )
    raise Missing(
        f"application {name}: no such module, looked in {os.pathsep.join(map(os.path.abspath, sys.path))}: {remedy}"
    )


def _module(file: str | None, folders: list[str], parts: list[str]) -> str | None:
    """Follows the parts of a module's name below its first, which is file and folders; importing would run them."""
    for depth, part in enumerate(parts[1:], 2):
        file, folders = _below(folders, part)
        if parts[:depth] == ["os_ken", "app"]:
            folders += [os.path.join(folder, "ryu", "app") for folder in sys.path]  # see names
    return file if file and os.path.isfile(file) else None


def _below(folders: list[str], part: str) -> tuple[str | None, list[str]]:
    """Returns the file of a module in the first of folders that has it, and the folders of what is below it."""
    bases = [os.path.join(folder, part) for folder in folders]
    for base in bases:
        package = os.path.join(base, "__init__.py")
        if os.path.isfile(package):
            return package, [base]
        if os.path.isfile(base + ".py"):
            return base + ".py", []
    return None, [base for base in bases if os.path.isdir(base)]

"""Seeded bugs: each is put into a copy of the package, and a test must find it. `make test-all` runs them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

PYTHON = Path(__file__).parent.parent
EACH = pytest.mark.skipif(os.environ.get("HOLDFAST_MATRIX") != "all", reason="HOLDFAST_MATRIX=all runs each")


class Bug(NamedTuple):
    """A bug: what it replaces in a file of the package, and the tests that find it, as pytest selects them."""

    name: str
    file: str
    before: str
    after: str
    tests: str
    selected: str


BUGS = [
    Bug("jumps into a for loop", "asleep.py", 'if instruction.opname == "FOR_ITER" and', "if False and",
        "test_asleep.py", "is_named and in_for"),
    Bug("does a line twice", "asleep.py", "if line == frame.f_lineno and", "if False and",
        "test_asleep.py", "is_named and in_a_line"),
    Bug("does a call in a line twice", "asleep.py", "if called and", "if False and",
        "test_asleep.py", "is_named and after_a_call"),
    Bug("jumps into a statement", "asleep.py", "if frame.f_lineno in _inner_lines(code.co_filename):", "if False:",
        "test_asleep.py", "is_named and reason7"),
    Bug("keeps a thread that another waits for", "asleep.py", "if thread.awaited:", "if False:",
        "test_asleep.py", "is_named and 6"),
    Bug("forgets when threads wake", "asleep.py", "    scheduler.set_due(due)\n", "",
        "test_asleep.py", "threads_go_on"),
    Bug("keeps variables of functions around", "asleep.py", "if name in own}", "}",
        "test_asleep.py", "threads_go_on"),
    Bug("misses a path below a descriptor", "machine.py", '_check_path(_below(path, dir_fd), "open", "write")', "pass",
        "test_machine.py", "calls_are_refused"),
    Bug("takes a link for its target", "machine.py", "where = os.path.realpath(name)", "where = os.path.abspath(name)",
        "test_machine.py", "calls_are_refused"),
    Bug("lets all processes have their pipes opened", "machine.py",
        "if not (followed and where.startswith(mine) and _OPENED.fullmatch(where[len(mine) :])):",
        'if "/fd/" not in name:', "test_machine.py", "calls_are_refused"),
    Bug("allows changes of folders of the kernel", "machine.py", "if event in PATHS:", "if False:",
        "test_machine.py", "calls_are_refused"),
    Bug("keeps the capabilities of root", "limits.py", "        system.capset(header, sets)\n", "        pass\n",
        "test_machine.py", "limits"),
    Bug("refuses programs where nothing is replayed", "machine.py", "            del REMEDIES[event]\n",
        "            pass\n", "test_sockets.py", "yield"),
    Bug("does not wait for files", "files.py", "        self.given.wait()\n", "",
        "test_files.py", "reload"),
    Bug("begins with a checkpoint without its files", "host.py", "            checkpoint.prepare(state)\n",
        "            pass\n", "test_files.py", "reload"),
    Bug("hands over to a queue that is full", "fast/delivery.py",
        " or app._events_sem.counter <= 0 or app.events.full()", "", "test_host.py", "sleeps_in_a_handler"),
    Bug("hands over what the receiver reports", "fast/delivery.py",
        "        len(message) >= messages.HEADER.size\n        and ", "        ", "test_host.py", "garbage"),
    Bug("reads a message for ever", "progress.py", "if _left <= 0:", "if False:", "test_progress.py", "fast"),
    Bug("drops what timers have sent", "host.py", "        outcome.settle()\n", "", "test_host.py", "timers_have_sent"),
    Bug("keeps results of a slow batch", "session.py", "or _real_time() - since >= RESULTS_SECONDS", "",
        "test_session.py", "slow"),
    Bug("keeps WebSockets that are refused", "websockets.py", "        if not self.opened:  # no request",
        "        if False:  # no request", "test_websockets.py", "forgotten and refused"),
    Bug("keeps WebSockets that are late", "wsgi.py", "                if connection is not None:\n",
        "                if False:\n", "test_websockets.py", "forgotten and late"),
    Bug("receives from any socket on a cluster", "sockets.py", "if _green() and self.family not in _KERNEL and",
        "if False and", "test_sockets.py", "cluster_refuses and recv"),
    Bug("connects on a cluster", "sockets.py", "(not streams or self.type == socket.SOCK_STREAM)", "not streams",
        "test_sockets.py", "cluster_refuses and connect"),
]


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_applies(bug: Bug) -> None:
    assert (PYTHON / "holdfast_ryu" / bug.file).read_text().count(bug.before) == 1
    assert (PYTHON / "tests" / bug.tests).exists()


@EACH
@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_is_found(bug: Bug, tmp_path: Path) -> None:
    for name in ("holdfast_ryu", "tests"):
        shutil.copytree(PYTHON / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PYTHON / "pyproject.toml", tmp_path)
    file = tmp_path / "holdfast_ryu" / bug.file
    file.write_text(file.read_text().replace(bug.before, bug.after))
    command = [sys.executable, "-m", "pytest", "-x", f"tests/{bug.tests}", "-k", bug.selected]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    if "skipped" in ran.stdout and ran.returncode == 0:
        pytest.skip(f"{bug.tests} needs what is not here")
    assert ran.returncode == 1, f"no test finds it: {ran.stdout}{ran.stderr}"

"""Runs hosts for tests, as Holdfast does: a process at the other end of a socket."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from holdfast_ryu import wire
from holdfast_ryu.session import Session

SECOND = 10**9
BEGIN = 1_700_000_000 * SECOND


class Died(Exception):
    """The host said FATAL."""


class Hosted:
    """A host process with applications loaded; inputs are numbered and timed here."""

    def __init__(
        self,
        *apps: str,
        path: Iterable[str | Path] = (),
        seed: int = 7,
        slow: bool = False,
        options: Iterable[str] = (),
        level: int = 20,
        under: Iterable[str] = (),
        files: Iterable[str] = (),
        after: wire.Checkpointed | None = None,
        now_ns: int = BEGIN,
        alone: bool = False,
        patience: float = 120,  # seconds that it may take for an answer
    ) -> None:
        ours, theirs = socket.socketpair()
        here = Path(__file__).parent
        paths = [str(here.parent), *map(str, path)]
        environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        command = [
            *under,
            sys.executable,
            "-m",
            "holdfast_ryu",
            "host",
            "--socket",
            str(theirs.fileno()),
            *(["--slow"] if slow else []),
            *(["--alone"] if alone else []),
            *(word for name in files for word in ("--file", name)),
            *apps,
        ]
        self.process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            env=environ | {"PYTHONPATH": os.pathsep.join(paths)},
            stderr=subprocess.PIPE,
            cwd=here,
        )
        theirs.close()
        ours.settimeout(patience)
        self._patience = patience
        self._sock = ours
        self.session = Session(ours)
        self.asked = False  # for an input
        self._number = after.number if after else 0
        self.now_ns = now_ns
        state = after.state if after else b""
        self.session.write(
            wire.encode_hello(wire.Hello(seed, BEGIN, level, "cluster", list(apps), list(options), self._number, state))
        )
        try:
            self.ready = wire.decode_ready(self.frame(wire.READY))
        except Died:
            self.close()
            raise
        self.wake_ns = self.ready.wake_ns

    def frame(self, kind: int) -> bytes:
        frame = self.session.read()
        if frame is None:
            raise Died("the host is gone")
        if frame[0] == wire.STIRRED and kind != wire.STIRRED:
            self.asked = True
            return self.frame(kind)
        if frame[0] == wire.FATAL:
            raise Died(wire.Reader(frame[1]).string())
        assert frame[0] == kind, frame
        return frame[1]

    def batch(self, events: Iterable[wire.Event], step_ns: int = 1_000_000) -> list[wire.Result]:
        """Executes events, step_ns apart, in one batch."""
        inputs = []
        for event in events:
            self._number += 1
            self.now_ns += step_ns
            inputs.append(wire.Input(self._number, self.now_ns, event))
        if not inputs:
            return []
        self.session.write(wire.encode_inputs(inputs))
        results: list[wire.Result] = []
        while len(results) < len(inputs):
            results += wire.decode_results(self.frame(wire.RESULTS))
        assert [result.number for result in results] == [entry.number for entry in inputs]
        self.wake_ns = results[-1].wake_ns
        return results

    def one(self, event: wire.Event) -> wire.Result:
        return self.batch([event])[0]

    def checkpoint(self) -> wire.Checkpointed:
        self.session.write(wire.frame(wire.CHECKPOINT, b""))
        return wire.decode_checkpointed(self.frame(wire.CHECKPOINTED))

    def passes(self, seconds: float) -> list[wire.Result]:
        """Lets time pass, with a timer input whenever the host wants to be woken."""
        until = self.now_ns + round(seconds * SECOND)
        results = []
        while self.wake_ns is not None and self.wake_ns <= until:
            results += self.batch([wire.Tick()], max(0, self.wake_ns - self.now_ns))
        self.now_ns = max(self.now_ns, until)
        return results

    def close(self) -> str:
        """Ends the host, and returns what it wrote to stderr."""
        with contextlib.suppress(OSError):  # the host was first
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        try:
            _, errors = self.process.communicate(timeout=min(30, self._patience))
        except subprocess.TimeoutExpired:
            self.process.kill()
            _, errors = self.process.communicate()
            raise
        return errors.decode()

    def __enter__(self) -> "Hosted":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""One conversation with Holdfast over a stream socket: frames in, frames out, until it closes."""

import _thread
import gc
import socket
import time
from collections.abc import Callable, Iterator

from . import daytime, entropy, eventlets, files, framework, loading, logs, machine, sockets, threads, webservers, wire
from .clock import clock
from .outcome import outcome

# RESULTS_BYTES, and RESULTS_SECONDS of real time, are when results are written even though their batch is not done. A
# batch has 64 inputs, and an application that takes a fifth of a second for each would seem to hang.
RESULTS_BYTES, RESULTS_SECONDS = 1 << 20, 0.5
_real_time = time.monotonic


class Session:
    """Reads and writes frames, one at a time: what is not read yet holds Holdfast back."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._in = sock.makefile("rb", buffering=1 << 18)
        self._writing = _thread.allocate_lock()  # stir() is called by threads of the operating system
        self._send = sock.sendall
        self._stirred = True  # before READY, nothing is asked for

    def read(self) -> tuple[int, bytes] | None:
        """Returns the next frame, or None when Holdfast has closed."""
        header = self._in.read(4)
        if not header:
            return None
        size = int.from_bytes(header, "big")
        if len(header) < 4 or not 1 <= size <= wire.FRAME_BYTES:
            raise wire.Malformed(f"a frame of {size} bytes: at most {wire.FRAME_BYTES}")
        frame = self._in.read(size)
        if len(frame) < size:
            raise wire.Malformed("the connection ends within a frame")
        return frame[0], frame[1:]

    def write(self, frame: bytes) -> None:
        with self._writing:
            self._send(frame)

    def ready(self, frame: bytes) -> None:
        """Says that the applications are loaded; from then on they may stir."""
        self.write(frame)
        self._stirred = False
        if sockets.ready():
            self.stir()

    def stir(self) -> None:
        """Asks for an input, unless one was asked for since the last. Any thread may call it."""
        if not self._stirred:
            self._stirred = True
            self.write(wire.frame(wire.STIRRED, b""))

    def hello(self) -> wire.Hello | None:
        first = self.read()
        if first is None:
            return None
        if first[0] != wire.HELLO:
            raise wire.Malformed(f"a frame of type {first[0]} where HELLO comes first")
        return wire.decode_hello(first[1])

    def batches(self) -> Iterator[list[wire.Input] | None]:
        """Yields inputs, and None where a checkpoint is wanted."""
        while (frame := self.read()) is not None:
            kind, body = frame
            if kind == wire.CHECKPOINT and not body:
                yield None
            elif kind == wire.INPUTS:
                self._stirred = False
                yield wire.decode_inputs(body)
            else:
                raise wire.Malformed(f"a frame of type {kind} with {len(body)} bytes where INPUTS are expected")


def prepare(hello: wire.Hello, fast_paths: bool, names: list[str], stir: Callable[[], None] | None = None) -> None:
    """Makes time, randomness and the framework those of a host. It comes before anything imports os_ken."""
    clock.begin(hello.time_ns)
    entropy.install(hello.seed, hello.cluster)
    daytime.install()
    threads.install()
    eventlets.install()
    logs.install(hello.log_level)
    framework.install(fast_paths)
    sockets.install(stir)
    if stir is None:
        webservers.install()
    machine.install(alone=stir is not None)
    files.install(names)


def serve(sock: socket.socket, apps: list[str], fast_paths: bool, names: list[str], alone: bool = False) -> None:
    """Hosts apps until Holdfast closes the connection. names are the files that come from the log.

    Alone, nothing is replayed elsewhere: sockets of applications work, and they may start programs.
    """
    session = Session(sock)
    watched = loading.Watched()
    hello = session.hello()
    if hello is None:
        return
    if hello.apps != apps:
        raise wire.Malformed(f"the log was begun with the applications {hello.apps}, this host was started with {apps}")
    prepare(hello, fast_paths, names, session.stir if alone else None)
    from . import host  # imports os_ken, so it comes after all that

    gc.freeze()
    gc.enable()
    outcome.stir = session.stir
    running = host.Host(hello.apps, hello.options)
    ready = running.load(hello.number, hello.state)
    watched.done()
    session.ready(wire.encode_ready(ready))
    for batch in session.batches():
        if batch is None:
            session.write(wire.encode_checkpointed(running.checkpoint()))
            continue
        answer(session, batch, running.execute)


def answer(session: Session, batch: list[wire.Input], execute: Callable[[wire.Input], wire.Result]) -> None:
    """Executes a batch, and writes its results."""
    done: list[bytes] = []
    size, since = 0, _real_time()
    for entry in batch:
        done.append(wire.encode_result(execute(entry)))
        size += len(done[-1])
        if size >= RESULTS_BYTES or _real_time() - since >= RESULTS_SECONDS:
            session.write(wire.encode_results(done))
            done, size, since = [], 0, _real_time()
    if done:
        session.write(wire.encode_results(done))

"""Makes whatever is random, or belongs to this machine, the same in every process of one log."""

import hashlib
import os
import platform
import random
import socket
import tempfile
import uuid
from typing import Any


class _Stream:
    """Bytes that follow from a seed."""

    def __init__(self) -> None:
        self.begin(b"")

    def begin(self, seed: bytes) -> None:
        self._seed = seed
        self.blocks = 0

    def read(self, size: int) -> bytes:
        if size < 0:
            raise ValueError("negative argument not allowed")
        out = b""
        if size <= 32:
            return self._block()[:size]
        while len(out) < size:
            out += self._block()
        return out[:size]

    def _block(self) -> bytes:
        self.blocks += 1
        return hashlib.sha256(self._seed + self.blocks.to_bytes(8, "big")).digest()


_stream = _Stream()


def install(seed: int, cluster: str) -> None:
    """cluster is the name of the cluster, which applications see as the host name."""
    stream = _stream
    stream.begin(seed.to_bytes(8, "big") + cluster.encode())
    os.urandom = stream.read
    if hasattr(os, "getrandom"):
        os.getrandom = lambda size, flags=0: stream.read(size)
    random._urandom = stream.read  # type: ignore[attr-defined]  # SystemRandom's, and so that of secrets
    _seed_generators(stream)
    node = int.from_bytes(stream.read(6), "big") | 1 << 40  # multicast, so no card's address
    uuid._node = node  # type: ignore[attr-defined]
    uuid.getnode = lambda: node
    uuid._generate_time_safe = None  # type: ignore[attr-defined]
    uuid._UuidCreate = None  # type: ignore[attr-defined]
    os.getpid = lambda: 1
    for name in ("cpu_count", "process_cpu_count"):  # by which pools have more or fewer threads
        setattr(os, name, lambda: 1)
    tempfile.gettempdir()  # the first call takes from the stream
    socket.gethostname = lambda: cluster
    socket.getfqdn = lambda name="": name or cluster
    platform.node = lambda: cluster


def _seed_generators(stream: _Stream) -> None:
    """random.Random() without a seed takes one from the stream, as does that of the module."""
    real_seed = random.Random.seed

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        real_seed(self, int.from_bytes(stream.read(32), "big") if a is None else a, version)

    random.Random.seed = seed  # type: ignore[method-assign]
    random.seed = random._inst.seed
    random.seed()


def state() -> Any:
    """How far the generators of this process have come."""
    last = uuid._last_timestamp  # type: ignore[attr-defined]
    return _stream.blocks, random.getstate(), last, tempfile._name_sequence  # type: ignore[attr-defined]


def set_state(state: Any) -> None:
    """Makes the generators go on from what state() has returned."""
    _stream.blocks, chance, uuid._last_timestamp, tempfile._name_sequence = state  # type: ignore[attr-defined]
    random.setstate(chance)

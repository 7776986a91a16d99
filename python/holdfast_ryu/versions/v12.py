"""OpenFlow 1.2: like 1.3 but for ports, which FEATURES_REPLY has, PACKET_IN without a cookie, and table misses."""

import struct
from collections.abc import Callable

from . import common
from .common import make, relabel

# MISS_COOKIE is that of the entry that makes table 0 send to the controller what no other entry matches.
MISS_COOKIE = int.from_bytes(b"holdfast", "big")
_SAME = {common.PACKET_OUT, common.FLOW_MOD, common.PORT_MOD, 15, common.BARRIER_REQUEST}
_STATS = {common.DESC, common.FLOW, common.AGGREGATE, common.PORT_STATS, common.QUEUE}


def table_miss() -> bytes:
    """The FLOW_MOD that adds that entry: before 1.3 it is what a switch does by itself."""
    output = struct.pack(">HHIH6x", 0, 16, common.CONTROLLER, 0xFFFF)
    body = struct.pack(
        ">QQBBHHHIIIHxx", MISS_COOKIE, 0, 0, common.ADD, 0, 0, 0, common.NO_BUFFER, common.ANY, common.ANY, 0
    )
    instruction = struct.pack(">HH4x", common.APPLY_ACTIONS, 8 + len(output)) + output
    return make(common.VERSION, common.FLOW_MOD, bytes(4), body + common.match(b"") + instruction)


def is_miss(entry: bytes) -> bool:
    """Whether an entry of flow statistics is that one."""
    return int.from_bytes(entry[24:32], "big") == MISS_COOKIE


def with_miss(message: bytes) -> list[bytes]:
    """A FLOW_MOD of 1.3. If it deletes all entries of table 0, that one is added again."""
    deletes_all = message[25] == common.DELETE and message[24] in (0, 0xFF) and message[48:52] == b"\0\1\0\4"
    return [message, table_miss()] if deletes_all else [message]


def events(version: int, message: bytes, ports: list[bytes]) -> list[bytes]:
    kind, xid, body = message[1], message[4:8], message[8:]
    if kind == common.FEATURES_REPLY:
        return [make(version, kind, xid, body[:13] + bytes(3) + body[16:24] + b"".join(ports))]
    if kind == common.PACKET_IN:
        return [make(version, kind, xid, body[:8] + body[16:])]
    if kind == common.STATS_REPLY:
        return _stats(version, message)
    return [relabel(message, version)]


def _stats(version: int, message: bytes) -> list[bytes]:
    part = int.from_bytes(message[8:10], "big")
    cut: Callable[[bytes], bytes] = bytes
    size = {common.PORT_STATS: 112, common.QUEUE: 40}.get(part, 0)
    if size:
        cut = lambda entry: entry[:-8]  # noqa: E731  without the duration
    elif part != common.FLOW:
        return [relabel(message, version)] if part in _STATS else []
    entries = (cut(entry) for entry in common.elements(message[16:], size) if size or not is_miss(entry))
    return common.replies(message, lambda flags: struct.pack(">HH4x", part, flags), message[1], version, entries)


def commands(version: int, message: bytes) -> list[bytes]:
    kind = message[1]
    if kind == common.STATS_REQUEST and int.from_bytes(message[8:10], "big") not in _STATS:
        raise common.untranslatable(version, f"a request for statistics of type {int.from_bytes(message[8:10], 'big')}")
    if kind not in common.PLAIN | _SAME | {common.STATS_REQUEST}:
        raise common.untranslatable(version, f"a message of type {kind}")
    translated = relabel(message, common.VERSION)
    return with_miss(translated) if kind == common.FLOW_MOD else [translated]

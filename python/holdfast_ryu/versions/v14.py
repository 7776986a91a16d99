"""OpenFlow 1.4 and 1.5: what 1.3 has, with properties where 1.3 has fixed fields. Bundles are Holdfast's own."""

import struct
from collections.abc import Iterator

from . import common
from .common import make, relabel

TABLE_MOD, SET_ASYNC = 17, 28
_SAME = common.PLAIN | {common.BARRIER_REQUEST, 24, 26, SET_ASYNC, 29}  # roles, what is sent asynchronously, meters
_METER_STATS = {9, 10, 11}
_STATS = {common.DESC, common.FLOW, common.AGGREGATE, common.TABLE, common.PORT_STATS, common.QUEUE, 6, 7, 8, 12,
          common.PORT_DESC} | _METER_STATS
_ETHERNET = 0
# Statistics of an entry in 1.5: numbers of fields.
_DURATION, _PACKETS, _BYTES = 0, 4, 5


def port(desc: bytes) -> bytes:
    """The description of a port: 1.3 has 64 bytes, of which the last 24 become a property."""
    ethernet = struct.pack(">HH4x", _ETHERNET, 32) + desc[40:64]
    return desc[:4] + struct.pack(">HH", 40 + len(ethernet), 0) + desc[8:40] + ethernet


def events(version: int, message: bytes, ports: list[bytes]) -> list[bytes]:
    kind, xid, body = message[1], message[4:8], message[8:]
    if kind == common.PORT_STATUS:
        return [make(version, kind, xid, body[:8] + port(body[8:]))]
    if kind == common.STATS_REPLY:
        return _stats(version, message)
    if kind == common.FLOW_REMOVED and version == 6:
        return [make(version, kind, xid, _flow_removed(body))]
    return [relabel(message, version)]


def _flow_removed(body: bytes) -> bytes:
    cookie, priority, reason, table, *times = struct.unpack_from(">QHBBIIHHQQ", body)
    seconds, nanoseconds, idle, hard, packets, count = times
    _, end = common.match_of(body[40:])
    head = struct.pack(">BBHHHQ", table, reason, priority, idle, hard, cookie)
    return head + body[40 : 40 + end] + _statistics(seconds, nanoseconds, packets, count)


def _statistics(seconds: int, nanoseconds: int, packets: int, count: int) -> bytes:
    values = {_DURATION: struct.pack(">II", seconds, nanoseconds), _PACKETS: struct.pack(">Q", packets),
              _BYTES: struct.pack(">Q", count)}
    content = b"".join(struct.pack(">HBB", 0x8002, number << 1, 8) + value for number, value in values.items())
    return common.padded(struct.pack(">HH", 0, 4 + len(content)) + content)


def _stats(version: int, message: bytes) -> list[bytes]:
    part, body = int.from_bytes(message[8:10], "big"), message[16:]
    parts: Iterator[bytes]
    if part == common.PORT_DESC:
        parts = map(port, common.elements(body, 64))
    elif part == common.PORT_STATS:
        parts = map(_port_stats, common.elements(body, 112))
    elif part == common.QUEUE:
        parts = (struct.pack(">H6x", 48) + entry for entry in common.elements(body, 40))
    elif part == common.FLOW and version == 6:
        parts = map(_flow, common.elements(body, 0))
    elif part == common.AGGREGATE and version == 6:
        packets, count, flows = struct.unpack_from(">QQI", body)
        values = struct.pack(">HBBI", 0x8002, 3 << 1, 4, flows)
        content = struct.pack(">HBBQHBBQ", 0x8002, _PACKETS << 1, 8, packets, 0x8002, _BYTES << 1, 8, count) + values
        parts = iter([common.padded(struct.pack(">HH", 0, 4 + len(content)) + content)])
    else:
        return [relabel(message, version)]
    return common.replies(message, lambda flags: struct.pack(">HH4x", part, flags), message[1], version, parts)


def _port_stats(entry: bytes) -> bytes:
    errors = struct.pack(">HH4x", _ETHERNET, 40) + entry[72:104]
    return struct.pack(">H2x", 80 + len(errors)) + entry[:4] + entry[104:112] + entry[8:72] + errors


def _flow(entry: bytes) -> bytes:
    """An entry of flow statistics in 1.5."""
    table, seconds, nanoseconds, priority, idle, hard, flags, cookie, packets, count = struct.unpack_from(
        ">2xBxIIHHHH4xQQQ", entry
    )
    _, end = common.match_of(entry[48:])
    head = struct.pack(">2xBxHHHHHQ", table, priority, idle, hard, flags, 0, cookie)
    rest = entry[48 : 48 + end] + _statistics(seconds, nanoseconds, packets, count) + entry[48 + end :]
    return struct.pack(">H", 2 + len(head) + len(rest)) + head + rest


def commands(version: int, message: bytes) -> list[bytes]:
    kind, xid, body = message[1], message[4:8], message[8:]
    if kind == common.FLOW_MOD:  # the importance of an entry is only a hint
        return [make(common.VERSION, kind, xid, body[:38] + bytes(2) + body[40:])]
    if kind == common.PACKET_OUT and version == 6:
        buffer_id, size = struct.unpack_from(">IH", body)
        fields, end = common.match_of(body[8:])
        number = common.in_port(fields) or common.CONTROLLER
        return [make(common.VERSION, kind, xid, struct.pack(">IIH6x", buffer_id, number, size) + body[8 + end :])]
    if kind == common.PORT_MOD:
        advertise = bytes(4)
        if len(body) >= 32 and body[24:26] == b"\0\0":
            advertise = body[28:32]
        return [make(common.VERSION, kind, xid, body[:24] + advertise + bytes(4))]
    if kind == common.STATS_REQUEST:
        return [_stats_request(version, message)]
    if kind in _SAME or kind == common.PACKET_OUT or kind == 15 and version == 5:  # 15: groups
        return [relabel(message, common.VERSION)]
    raise common.untranslatable(version, f"a message of type {kind}")


def _stats_request(version: int, message: bytes) -> bytes:
    part = int.from_bytes(message[8:10], "big")
    if part not in _STATS or version == 6 and part == 7:  # 7: descriptions of groups
        raise common.untranslatable(version, f"a request for statistics of type {part}")
    if part == common.PORT_DESC:  # in 1.5 it may name a port
        return make(common.VERSION, message[1], message[4:8], message[8:16])
    return relabel(message, common.VERSION)

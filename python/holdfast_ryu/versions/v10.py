"""OpenFlow 1.0 (specification 1.0.0): ports of 16 bits, a match of fixed fields, one table, and other numbers of types.

What 1.0 has and 1.3 has not: an addition without wildcards has the highest priority, a modification of nothing is an
addition, and setting a VLAN adds the tag. Entries of flow statistics that 1.0 cannot say are left out.
"""

import struct
from collections.abc import Iterator

from . import common, v12
from .common import make, relabel
from .v10match import Match, actions_from, actions_to, match_from, port_from, port_to

# The numbers of types that differ from those of 1.3.
STATS_REQUEST, STATS_REPLY, BARRIER_REQUEST, BARRIER_REPLY = 16, 17, 18, 19
PORT_MOD = 15
PORT_BYTES = 48
ACTIONS = 0xFFF
_KEPT_CAPABILITIES = 0x67
_ERRORS = {5: 3, 7: 4, 9: 5}
_NO_TABLE = bytes(32)


def _features_from(bits: int) -> int:
    """Features of a port: 1.0 has no speed above 10 Gbit/s."""
    return bits & 0x7F | (bits >> 11 & 0x1F) << 7


def _features_to(bits: int) -> int:
    return bits & 0x7F | (bits >> 7 & 0x1F) << 11


def port(desc: bytes) -> bytes:
    """The description of a port."""
    number, address, name, config, state, *features = struct.unpack_from(">I4x6s2x16s6I", desc)
    bits = (_features_from(feature) for feature in features)
    return struct.pack(">H6s16s6I", port_from(number), address, name, config, state & 1, *bits)


def events(version: int, message: bytes, ports: list[bytes]) -> list[bytes]:
    kind, xid, body = message[1], message[4:8], message[8:]
    if kind == common.FEATURES_REPLY:
        datapath_id, buffers, capabilities = struct.unpack_from(">QI4xI", body)
        head = struct.pack(">QIB3xII", datapath_id, buffers, 1, capabilities & _KEPT_CAPABILITIES, ACTIONS)
        return [make(1, kind, xid, head + b"".join(map(port, ports)))]
    if kind == common.PACKET_IN:
        fields, end = common.match_of(body[16:])
        number = port_from(common.in_port(fields))
        return [make(1, kind, xid, body[:6] + struct.pack(">HBx", number, body[6] & 1) + body[18 + end :])]
    if kind == common.FLOW_REMOVED:
        return _flow_removed(xid, body)
    if kind == common.PORT_STATUS:
        return [make(1, kind, xid, body[:8] + port(body[8:]))]
    if kind == common.STATS_REPLY:
        return _stats_reply(message)
    if kind == common.BARRIER_REPLY:
        return [make(1, BARRIER_REPLY, xid, b"")]
    if kind == common.ERROR:
        family = int.from_bytes(body[:2], "big")
        return [make(1, kind, xid, struct.pack(">H", _ERRORS.get(family, min(family, 2))) + body[2:])]
    return [relabel(message, 1)] if kind in common.PLAIN else []


def _flow_removed(xid: bytes, body: bytes) -> list[bytes]:
    cookie, priority, reason, seconds, nanoseconds, idle, packets, count = struct.unpack_from(">QHBxIIH2xQQ", body)
    match = match_from(common.match_of(body[40:])[0])
    if match is None:
        return []
    tail = struct.pack(">QHBxIIHxxQQ", cookie, priority, min(reason, 2), seconds, nanoseconds, idle, packets, count)
    return [make(1, common.FLOW_REMOVED, xid, match + tail)]


def _stats_reply(message: bytes) -> list[bytes]:
    part, body = int.from_bytes(message[8:10], "big"), message[16:]
    if part == common.FLOW:
        parts: Iterator[bytes] = map(_flow, common.elements(body, 0))
    elif part == common.TABLE:
        parts = map(_table, common.elements(body, 24))
    elif part == common.PORT_STATS:
        parts = (struct.pack(">H6x", port_from(int.from_bytes(entry[:4], "big"))) + entry[8:-8]
                 for entry in common.elements(body, 112))
    elif part == common.QUEUE:
        parts = (struct.pack(">H2x", port_from(int.from_bytes(entry[:4], "big"))) + entry[4:-8]
                 for entry in common.elements(body, 40))
    elif part in (common.DESC, common.AGGREGATE):
        parts = iter([body])
    else:
        return []
    return common.replies(message, lambda flags: struct.pack(">HH", part, flags), STATS_REPLY, 1, parts)


def _table(entry: bytes) -> bytes:
    if entry[0]:
        return b""
    return struct.pack(">B3x32sII", 0, b"table0", 0x3FFFFF, 1 << 20) + entry[4:]


def _flow(entry: bytes) -> bytes:
    """An entry of flow statistics, or nothing."""
    fields, end = common.match_of(entry[48:])
    match = match_from(fields)
    if entry[2] or match is None or v12.is_miss(entry):
        return b""
    actions: bytes | None = b""
    for instruction in _instructions(entry[48 + end :]):
        actions = actions_from(instruction[8:]) if instruction[:2] == b"\0\4" else None
        if actions is None:
            return b""
    body = entry[2:4] + match + entry[4:18] + bytes(6) + entry[24:48] + (actions or b"")
    return struct.pack(">H", 2 + len(body)) + body


def _instructions(data: bytes) -> list[bytes]:
    out = []
    while data:
        size = int.from_bytes(data[2:4], "big")
        if size < 8:
            raise ValueError("an instruction of a flow entry has no length")
        out.append(data[:size])
        data = data[size:]
    return out


def commands(version: int, message: bytes) -> list[bytes]:
    kind, xid, body = message[1], message[4:8], message[8:]
    if kind in common.PLAIN:
        return [relabel(message, common.VERSION)]
    if kind == common.FLOW_MOD:
        return _flow_mod(xid, body)
    if kind == common.PACKET_OUT:
        buffer_id, number, size = struct.unpack_from(">IHH", body)
        actions = actions_to(body[8 : 8 + size], None)
        number = common.CONTROLLER if number == 0xFFFF else port_to(number)
        head = struct.pack(">IIH6x", buffer_id, number, len(actions))
        return [make(common.VERSION, kind, xid, head + actions + body[8 + size :])]
    if kind == PORT_MOD:
        number, address, config, mask, advertise = struct.unpack_from(">H6sIII", body)
        head = struct.pack(">I4x6sxxIIII", port_to(number), address, config, mask & 0x65, _features_to(advertise), 0)
        return [make(common.VERSION, common.PORT_MOD, xid, head[:36])]
    if kind == STATS_REQUEST:
        return [_stats_request(xid, body)]
    if kind == BARRIER_REQUEST:
        return [make(common.VERSION, common.BARRIER_REQUEST, xid, b"")]
    raise common.untranslatable(1, f"a message of type {kind}")


def _flow_mod(xid: bytes, body: bytes) -> list[bytes]:
    match = Match(body[:40])
    values = struct.unpack_from(">QHHHHIHH", body, 40)
    cookie, command, idle, hard, priority, buffer_id, out_port, flags = values
    actions = b"" if command >= common.DELETE else actions_to(body[64:], match)
    instruction = struct.pack(">HH4x", common.APPLY_ACTIONS, 8 + len(actions)) + actions if actions else b""
    # One that modifies nothing is an addition, and adding what is there replaces it.
    orders = {common.MODIFY_STRICT: [common.ADD], common.MODIFY: [common.MODIFY, common.ADD]}.get(command, [command])
    out: list[bytes] = []
    for at, order in enumerate(orders):
        head = struct.pack(
            ">QQBBHHHIIIHxx", cookie, 0, 0, order, idle, hard, priority if match.wildcards else 0xFFFF,
            buffer_id if at == len(orders) - 1 else common.NO_BUFFER, port_to(out_port), common.ANY, flags & 3,
        )
        made = make(common.VERSION, common.FLOW_MOD, xid, head + common.match(match.fields()) + instruction)
        out += v12.with_miss(made)
    return out


def _stats_request(xid: bytes, body: bytes) -> bytes:
    part, flags = struct.unpack_from(">HH", body)
    body = body[4:]
    if part in (common.FLOW, common.AGGREGATE):
        table, out_port = struct.unpack_from(">BxH", body, 40)
        head = struct.pack(">B3xII4xQQ", table, port_to(out_port), common.ANY, 0, 0)
        body = head + common.match(Match(body[:40]).fields())
    elif part == common.PORT_STATS:
        body = struct.pack(">I4x", port_to(int.from_bytes(body[:2], "big")))
    elif part == common.QUEUE:
        number, queue = struct.unpack_from(">HxxI", body)
        body = struct.pack(">II", common.ANY if number == 0xFFFC else port_to(number), queue)
    elif part not in (common.DESC, common.TABLE):
        raise common.untranslatable(1, f"a request for statistics of type {part}")
    return make(common.VERSION, common.STATS_REQUEST, xid, struct.pack(">HH4x", part, flags) + body)

"""Messages of OpenFlow 1.3, as far as all translations need them (ONF TS-006, section 7)."""

import struct
from collections.abc import Callable, Iterator

VERSION = 4
ERROR, VENDOR, FEATURES_REPLY, PACKET_IN, FLOW_REMOVED, PORT_STATUS = 1, 4, 6, 10, 11, 12
PACKET_OUT, FLOW_MOD, PORT_MOD, STATS_REQUEST, STATS_REPLY, BARRIER_REQUEST, BARRIER_REPLY = 13, 14, 16, 18, 19, 20, 21
# PLAIN are the types that every version has with the same number and body.
PLAIN = {2, 3, 5, 7, 8, 9}
DESC, FLOW, AGGREGATE, TABLE, PORT_STATS, QUEUE, PORT_DESC = 0, 1, 2, 3, 4, 5, 13
MORE = 1
ADD, MODIFY, MODIFY_STRICT, DELETE, DELETE_STRICT = range(5)
CONTROLLER, ANY = 0xFFFFFFFD, 0xFFFFFFFF
NO_BUFFER = 0xFFFFFFFF
APPLY_ACTIONS = 4
IN_PORT = 0  # the field
MESSAGE_BYTES = 0xFFFF


class Untranslatable(ValueError):
    """A message of an application that has no equal in OpenFlow 1.3."""


def said(version: int) -> str:
    return f"1.{version - 1}"


def untranslatable(version: int, what: str) -> Untranslatable:
    return Untranslatable(
        f"{what} of OpenFlow {said(version)} has no equal in 1.3, which Holdfast speaks with switches: use 1.3 in the"
        " application, with ofproto_v1_3.OFP_VERSION in OFP_VERSIONS"
    )


def make(version: int, kind: int, xid: bytes, body: bytes) -> bytes:
    return struct.pack(">BBH", version, kind, 8 + len(body)) + xid + body


def relabel(message: bytes, version: int) -> bytes:
    return bytes([version]) + message[1:]


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def fields(match: bytes) -> Iterator[tuple[int, bool, bytes]]:
    """The fields of a match: number, whether it has a mask, value and mask. Those of experimenters have number -1."""
    while len(match) >= 4:
        which, flags, size = struct.unpack_from(">HBB", match)
        yield flags >> 1 if which == 0x8000 else -1, bool(flags & 1), match[4 : 4 + size]
        match = match[4 + size :]


def field(number: int, value: bytes, mask: bytes = b"") -> bytes:
    return struct.pack(">HBB", 0x8000, number << 1 | bool(mask), len(value + mask)) + value + mask


def match_of(data: bytes) -> tuple[bytes, int]:
    """The fields of the match that data begins with, and where it ends."""
    size = int.from_bytes(data[2:4], "big")
    return data[4:size], size + -size % 8


def match(content: bytes) -> bytes:
    return padded(struct.pack(">HH", 1, 4 + len(content)) + content)


def in_port(content: bytes) -> int:
    return next((int.from_bytes(value, "big") for number, _, value in fields(content) if number == IN_PORT), 0)


def elements(data: bytes, size: int) -> Iterator[bytes]:
    """Those of a list: of one size, or, with size 0, of a size that each begins with."""
    while data:
        one = size or int.from_bytes(data[:2], "big")
        if not 0 < one <= len(data):
            raise ValueError(f"a list of {len(data)} bytes whose next element has {one}")
        yield data[:one]
        data = data[one:]


def replies(
    message: bytes, head: Callable[[int], bytes], kind: int, version: int, parts: Iterator[bytes]
) -> list[bytes]:
    """Replies to a request for statistics, as many as the parts need; head makes the first bytes from the flags."""
    flags, xid = int.from_bytes(message[10:12], "big"), message[4:8]
    bodies = [b""]
    for part in parts:
        if len(bodies[-1]) + len(part) > MESSAGE_BYTES - 16:
            bodies.append(b"")
        bodies[-1] += part
    last = len(bodies) - 1
    return [
        make(version, kind, xid, head(flags if at == last else flags | MORE) + body) for at, body in enumerate(bodies)
    ]

"""Messages of an OpenFlow 1.3 switch, written out, so that no code under test makes them."""

import struct

VERSION = 4
ERROR, FEATURES_REPLY, PACKET_IN, PORT_STATUS, PACKET_OUT, FLOW_MOD = 1, 6, 10, 12, 13, 14
PORT_MOD, MULTIPART_REQUEST, MULTIPART_REPLY, BARRIER_REQUEST, BARRIER_REPLY = 16, 18, 19, 20, 21
CONTROLLER = 0xFFFFFFFD
LOCAL = 0xFFFFFFFE
IN_PORT = 0xFFFFFFF8
FLOOD = 0xFFFFFFFB
BROADCAST = "ff:ff:ff:ff:ff:ff"


def message(kind: int, body: bytes = b"", xid: int = 0) -> bytes:
    return struct.pack(">BBHI", VERSION, kind, 8 + len(body), xid) + body


def kind(data: bytes) -> int:
    return data[1]


def xid(data: bytes) -> int:
    return int.from_bytes(data[4:8], "big")


def features(datapath_id: int) -> bytes:
    return message(FEATURES_REPLY, struct.pack(">QIBBxxII", datapath_id, 256, 254, 0, 0x4F, 0))


def port(datapath_id: int, number: int) -> bytes:
    address = bytes([2, 0, 0, 0, datapath_id & 0xFF, number & 0xFF])
    name = (f"s{datapath_id}" if number == LOCAL else f"s{datapath_id}-eth{number}").encode()
    return struct.pack(">I4x6s2x16s8I", number, address, name, 0, 4, 0x840, 0, 0, 0, 10_000_000, 10_000_000)


def ports(datapath_id: int, count: int = 3, xid: int = 0) -> bytes:
    entries = b"".join(port(datapath_id, number) for number in [*range(1, count + 1), LOCAL])
    return message(MULTIPART_REPLY, struct.pack(">HH4x", 13, 0) + entries, xid)


def packet_in(
    in_port: int, frame: bytes, xid: int = 0, reason: int = 0, cookie: int = 0, buffer_id: int = 0xFFFFFFFF
) -> bytes:
    match = struct.pack(">HHHBBI4x", 1, 12, 0x8000, 0, 4, in_port)
    head = struct.pack(">IHBBQ", buffer_id, len(frame), reason, 0, cookie)
    return message(PACKET_IN, head + match + b"\0\0" + frame, xid)


def port_status(datapath_id: int, number: int, reason: int) -> bytes:
    return message(PORT_STATUS, struct.pack(">B7x", reason) + port(datapath_id, number))


def address(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def host(number: int) -> str:
    return f"00:00:00:00:{number >> 8:02x}:{number & 255:02x}"


def arp(
    source: str,
    target: str = BROADCAST,
    source_ip: bytes = b"\x0a\0\0\1",
    target_ip: bytes = b"\x0a\0\0\2",
    operation: int = 1,
) -> bytes:
    body = struct.pack(">HHBBH6s4s6s4s", 1, 0x800, 6, 4, operation, address(source), source_ip, bytes(6), target_ip)
    return address(target) + address(source) + b"\x08\x06" + body

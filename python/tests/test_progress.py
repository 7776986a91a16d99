"""Bytes that the framework's parsers would read for ever end no host."""

import struct
from pathlib import Path

import openflow
import pytest
from hosting import Hosted

from holdfast_ryu import wire

TCP, SCTP = 6, 132
ETHERNET = bytes.fromhex("000000000002 000000000001 0800")
SECONDS = 5.0  # a host that takes longer hangs


def tcp(options: bytes, port: int = 80) -> bytes:
    return struct.pack(">HHIIBBHHH", 1, port, 0, 0, (5 + len(options) // 4) << 4, 2, 1024, 0, 0) + options


def sctp(chunks: bytes) -> bytes:
    return struct.pack(">HHII", 1, 80, 0, 0) + chunks


FRAMES = {
    "option of TCP": (TCP, tcp(bytes([99, 0, 0, 0]))),
    "chunk of SCTP": (SCTP, sctp(bytes(16))),
    "OpenFlow between hosts": (TCP, tcp(b"", 6653) + struct.pack(">BBHI", 4, 0, 0, 1)),
}
MESSAGES = {
    "element of HELLO": openflow.message(0, bytes(8)),
    "table features": openflow.message(openflow.MULTIPART_REPLY, struct.pack(">HH4x", 12, 0) + bytes(64)),
    "meter": openflow.message(openflow.MULTIPART_REPLY, struct.pack(">HH4x", 10, 0) + bytes(64)),
    "group": openflow.message(openflow.MULTIPART_REPLY, struct.pack(">HH4x", 7, 0) + bytes(64)),
}


def packet_in(protocol: int, body: bytes) -> bytes:
    address = bytes([10, 0, 0, 1, 10, 0, 0, 2])
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, protocol, 0) + address
    return openflow.packet_in(1, ETHERNET + ip + body)


@pytest.mark.parametrize("slow", [False, True], ids=["fast", "slow"])
def test_elements_without_length(ryu: Path, slow: bool) -> None:
    with Hosted("ryu.app.simple_switch_13", path=[ryu], slow=slow, patience=SECONDS) as host:
        host.one(wire.Up(1, openflow.features(1), openflow.ports(1)))
        for what, message in MESSAGES.items():
            assert not host.one(wire.Message(1, message)).commands, what
        for what, (protocol, body) in FRAMES.items():
            result = host.one(wire.Message(1, packet_in(protocol, body)))
            assert len(result.commands) == 1 and not result.failures, f"{what}: the frame is forwarded like others"

"""Prints what os_ken makes of random input: python parity.py fast|slow ROUNDS.

What is printed must not depend on which.
"""

import random
import struct
import sys
from collections.abc import Callable
from typing import Any

from holdfast_ryu import framework

framework.install(fast_paths=sys.argv[1] == "fast")

import openflow
from os_ken.lib import addrconv
from os_ken.lib.packet import arp, ethernet, icmp, ipv4, ipv6, packet, tcp, udp, vlan
from os_ken.ofproto import ofproto_parser, ofproto_protocol
from os_ken.ofproto import ofproto_v1_3 as ofproto
from os_ken.ofproto import ofproto_v1_3_parser as parser
from os_ken.ofproto.ofproto_parser import MsgBase

ROUNDS = int(sys.argv[2])
DATAPATH = ofproto_protocol.ProtocolDesc(ofproto.OFP_VERSION)
chance = random.Random(5)


def tell(what: str, make: Callable[[], Any]) -> Any:
    """Prints what make() returns or raises, and returns it."""
    try:
        made = make()
    except Exception as error:
        print(what, "raises", type(error).__name__, error)
        return None
    print(what, made if not isinstance(made, (bytes, bytearray)) else (type(made).__name__, made.hex()))
    return made


def mac() -> str:
    return ":".join(f"{chance.randrange(256):02x}" for _ in range(6))


def ip() -> str:
    return ".".join(str(chance.randrange(256)) for _ in range(4))


def ip6() -> str:
    return ":".join(f"{chance.choice([0, 0, chance.randrange(65536)]):x}" for _ in range(8))


def addresses() -> None:
    texts = [
        mac,
        ip,
        ip6,
        lambda: mac().upper(),
        lambda: mac().replace(":", "-"),
        lambda: mac()[1:],
        lambda: ip() + "/24",
    ]
    texts += [
        lambda: ip() + "/255.255.0.0",
        lambda: "",
        lambda: "localhost",
        lambda: chance.randrange(2**48),
        lambda: None,
        lambda: b"\0" * 6,
    ]
    texts += [
        lambda: mac() + "\n",
        lambda: "0:1:2:3:4:5",
        lambda: mac().replace(":", ""),
        lambda: [1],
        lambda: ip6() + "/64",
    ]
    sizes = [4, 6, 16, 0, 5]
    for number in range(ROUNDS):
        text, binary = chance.choice(texts)(), chance.randbytes(chance.choice(sizes))
        binary = chance.choice([bytes, bytes, bytearray, memoryview])(binary)
        for name in ("mac", "ipv4", "ipv6"):
            converter = getattr(addrconv, name)
            tell(f"{number} {name} text {text!r}", lambda: converter.text_to_bin(text))
            tell(f"{number} {name} binary", lambda: converter.bin_to_text(binary))


def value(field: Any) -> Any:
    size = field.type.size if hasattr(field.type, "size") else 4
    plain = chance.choice(
        [
            lambda: chance.getrandbits(8 * size),
            lambda: chance.getrandbits(8),
            mac,
            ip,
            ip6,
            lambda: True,
            lambda: None,
            str,
        ]
    )()
    fitting = tell("fitting", lambda: field.type.to_user(chance.randbytes(size)))
    first = chance.choice([fitting, fitting, fitting, plain])
    mask = tell("mask", lambda: field.type.to_user(chance.randbytes(size)))
    return chance.choice([first] * 6 + [(first, mask), [first, mask], (first, None), ()])


def fields() -> dict[str, Any]:
    chosen = chance.sample(list(ofproto.oxm_types), chance.choice([0, 1, 2, 3, 5]))
    made = {field.name: value(field) for field in chosen}
    if chance.random() < 0.05:
        made[chance.choice(["nonsense", "field_77", "field_x"])] = chance.choice([1, "AAAA", None])
    return made


def matches() -> None:
    for number in range(ROUNDS):
        made = fields()
        match = tell(f"{number} match {made}", lambda: parser.OFPMatch(**made))
        if match is None:
            continue
        if chance.random() < 0.2:
            match.set_in_port(chance.randrange(99))
        if chance.random() < 0.1:
            match.set_dl_dst(chance.randbytes(6))
        if chance.random() < 0.1:
            match.append_field(ofproto.OXM_OF_ETH_TYPE, 0x800)
        tell("str", lambda: str(match))
        tell("json", match.to_jsondict)
        tell(
            "parts",
            lambda: (
                match.items(),
                list(match.iteritems()),
                match.get("in_port"),
                "eth_dst" in match,
                match["in_port"],
            ),
        )
        tell("odd", lambda: match.nothing)
        out = bytearray(chance.randbytes(chance.choice([0, 0, 8, 64])))
        offset = chance.choice([len(out), 0])
        tell("size", lambda: match.serialize(out, offset))
        tell("bytes", lambda: out)
        tell("again", lambda: match.serialize(bytearray(), 0))
        damaged = bytearray(out[offset:])
        for _ in range(chance.choice([0, 0, 1, 2])):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        cut = bytes(damaged[: chance.choice([len(damaged), len(damaged), chance.randint(0, len(damaged) + 4)])])
        parsed = tell("parsed", lambda: parser.OFPMatch.parser(cut, 0))
        if parsed is not None:
            tell("old fields", lambda: [(type(field).__name__, field.header, field.value) for field in parsed.fields])
            tell("more", lambda: (parsed.type, parsed.length, parsed.to_jsondict(), parsed._composed_with_old_api()))
            tell("once more", lambda: parsed.serialize(bytearray(), 0))


def attributes(message: Any) -> str:
    state = {key: item for key, item in vars(message).items() if key != "datapath"}
    return f"{message} {sorted(state.items(), key=lambda pair: pair[0])}"


def packet_ins() -> None:
    for number in range(ROUNDS):
        frame = frames()
        whole = openflow.packet_in(
            chance.randrange(2**32),
            frame,
            chance.getrandbits(32),
            chance.randrange(3),
            chance.getrandbits(64),
            chance.getrandbits(32),
        )
        if chance.random() < 0.2:  # total_len is larger or smaller than what is there
            whole = whole[:12] + struct.pack(">H", chance.randrange(200)) + whole[14:]
        damaged = bytearray(whole)
        for _ in range(chance.choice([0, 0, 0, 1, 3])):
            damaged[chance.randrange(8, len(damaged))] = chance.randrange(256)
        cut = bytes(damaged[: chance.choice([len(damaged)] * 3 + [chance.randint(8, len(damaged))])])
        cut = chance.choice([bytes, bytearray])(cut)
        message = tell(f"{number} packet in", lambda: ofproto_parser.msg(DATAPATH, 4, 10, len(cut), 7, cut))
        if message is not None:
            tell("attributes", lambda: attributes(message))
            tell("port", lambda: message.match["in_port"])


def actions() -> Any:
    made = [
        lambda: parser.OFPActionOutput(chance.getrandbits(32)),
        lambda: parser.OFPActionOutput(chance.getrandbits(32), chance.getrandbits(16)),
        lambda: parser.OFPActionOutput(chance.choice([-1, 2**40, "1", None, ofproto.OFPP_FLOOD])),
        lambda: parser.OFPActionSetField(eth_dst=mac()),
        lambda: parser.OFPActionGroup(chance.getrandbits(32)),
        lambda: parser.OFPActionPushVlan(),
    ]
    weights = [12, 6, 1, 2, 1, 1]
    return [make() for make in chance.choices(made, weights, k=chance.choice([0, 1, 1, 2, 3]))]


def instructions() -> Any:
    made = [
        lambda: parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, actions()),
        lambda: parser.OFPInstructionActions(ofproto.OFPIT_CLEAR_ACTIONS, []),
        lambda: parser.OFPInstructionGotoTable(chance.randrange(256)),
        lambda: parser.OFPInstructionMeter(chance.randrange(256)),
    ]
    return [make() for make in chance.choices(made, [6, 1, 1, 1], k=chance.choice([0, 1, 1, 2]))]


def flow_mods() -> None:
    for number in range(ROUNDS):
        made = fields()
        match = tell(f"{number} match", lambda: parser.OFPMatch(**made))
        if match is not None and chance.random() < 0.05:
            match.set_in_port(3)
        options = {
            "priority": chance.getrandbits(16),
            "cookie": chance.getrandbits(64),
            "table_id": chance.randrange(300),
        }
        options |= {
            "command": chance.choice([0, 1, 3]),
            "idle_timeout": chance.getrandbits(16),
            "flags": chance.choice([0, 1, None]),
        }
        chosen = dict(chance.sample(sorted(options.items()), chance.randint(0, 5)))
        sent(tell("flow mod", lambda: parser.OFPFlowMod(DATAPATH, match=match, instructions=instructions(), **chosen)))


def packet_outs() -> None:
    for _ in range(ROUNDS):
        data = chance.choice(
            [None, b"", chance.randbytes(60), bytearray(chance.randbytes(60)), packet.Packet(frames()), "text"]
        )
        buffer_id = chance.choice([ofproto.OFP_NO_BUFFER, ofproto.OFP_NO_BUFFER, 5, None])
        sent(
            tell(
                "packet out",
                lambda: parser.OFPPacketOut(
                    DATAPATH, buffer_id, chance.getrandbits(32), chance.choice([actions(), actions(), None]), data
                ),
            )
        )


def sent(message: Any) -> None:
    if message is None:
        return
    if chance.random() < 0.9:
        message.set_xid(chance.getrandbits(32))
    for _ in range(chance.choice([1, 1, 2])):
        tell("serialize", message.serialize)
        tell("bytes", lambda: message.buf)
    tell("attributes", lambda: attributes(message))


def frames() -> bytes:
    made = packet.Packet()
    kind = chance.choice([0x800, 0x806, 0x86DD, 0x8100, 0x88CC, 0x8809, 0x8847, 0x88B5, 60])
    made.add_protocol(ethernet.ethernet(mac(), mac(), kind))
    if kind == 0x8100:
        kind = chance.choice([0x800, 0x806])
        made.add_protocol(vlan.vlan(vid=chance.randrange(4096), ethertype=kind))
    if kind == 0x806:
        made.add_protocol(arp.arp(src_mac=mac(), src_ip=ip(), dst_ip=ip()))
    if kind in (0x800, 0x86DD):
        number, layer = chance.choice(
            [
                (17, udp.udp(chance.choice([53, 68]), chance.choice([53, 67, 4789]))),
                (6, tcp.tcp(80, 99)),
                (1, icmp.icmp()),
                (99, None),
            ]
        )
        made.add_protocol(
            ipv4.ipv4(proto=number, src=ip(), dst=ip())
            if kind == 0x800
            else ipv6.ipv6(nxt=number, src=ip6(), dst=ip6())
        )
        if layer is not None:
            made.add_protocol(layer)
    made.serialize()
    frame = bytearray(made.data) + chance.randbytes(chance.choice([0, 0, 4, 40])) + bytes(chance.choice([0, 0, 20]))
    if chance.random() < 0.2:
        frame[chance.randrange(len(frame))] = chance.randrange(256)
    return bytes(frame[: chance.choice([len(frame), len(frame), chance.randint(0, len(frame))])])


def packets() -> None:
    for number in range(ROUNDS):
        frame = chance.choice(
            [frames, frames, frames, lambda: bytes(chance.randrange(70)), lambda: chance.randbytes(70)]
        )()
        frame = chance.choice([bytes, bytearray])(frame)
        made = tell(f"{number} packet", lambda: packet.Packet(frame))
        if made is not None:
            tell("protocols", lambda: [type(protocol).__name__ for protocol in made])
            tell("serialized", lambda: (made.serialize(), made.data)[1])


assert issubclass(parser.OFPPacketIn, MsgBase)
for part in (addresses, matches, packet_ins, flow_mods, packet_outs, packets):
    part()

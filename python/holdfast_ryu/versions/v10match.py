"""The match and the actions of OpenFlow 1.0 (sections 5.2.3 and 5.2.4), from and to those of 1.3."""

import struct

from . import common
from .common import field

# Numbers of fields of 1.3.
IN_PORT, ETH_DST, ETH_SRC, ETH_TYPE, VLAN_VID, VLAN_PCP, IP_DSCP, IP_PROTO = 0, 3, 4, 5, 6, 7, 8, 10
IPV4_SRC, IPV4_DST, ARP_OP, ARP_SPA, ARP_TPA = 11, 12, 21, 22, 23
# PORTS are the fields of source and destination port, by IP protocol; of ICMP type and code.
PORTS = {6: (13, 14), 17: (15, 16), 1: (19, 20)}
IP, ARP, ICMP = 0x0800, 0x0806, 1
# Wildcards.
W_IN_PORT, W_VLAN, W_SRC, W_DST, W_TYPE, W_PROTO, W_TP_SRC, W_TP_DST, W_PCP, W_TOS = (
    1 << bit for bit in (0, 1, 2, 3, 4, 5, 6, 7, 20, 21)
)
NW_SRC_SHIFT, NW_DST_SHIFT = 8, 14
ALL = W_PCP | W_TOS | 0xFF | 32 << NW_SRC_SHIFT | 32 << NW_DST_SHIFT
UNTAGGED, PRESENT = 0xFFFF, 0x1000
_FORM = struct.Struct(">IH6s6sHBxHBBxxIIHH")


def port_to(number: int) -> int:
    return number | 0xFFFF0000 if number >= 0xFF00 else number


def port_from(number: int) -> int:
    if 0xFF00 <= number < 0xFFFFFF00:
        raise ValueError(f"port {number}: in OpenFlow 1.0, which an application asks for, numbers have 16 bits")
    return number & 0xFFFF


class Match:
    """A match of 1.0."""

    def __init__(self, data: bytes) -> None:
        (self.wildcards, self.port, self.source, self.destination, self.vlan, self.pcp, self.kind, self.tos, self.proto,
         self.nw_source, self.nw_destination, self.tp_source, self.tp_destination) = _FORM.unpack(data)
        self.wildcards &= (1 << 22) - 1

    def _has(self, wildcard: int) -> bool:
        return not self.wildcards & wildcard

    @property
    def tagged(self) -> bool:
        """Whether only frames with a VLAN match."""
        return self._has(W_VLAN) and self.vlan != UNTAGGED

    @property
    def protocol(self) -> int | None:
        """The IP protocol that alone matches."""
        ip = self._has(W_TYPE) and self.kind == IP
        return self.proto if ip and self._has(W_PROTO) else None

    def fields(self) -> bytes:
        """The same in 1.3. Fields that 1.0 has a switch ignore are left out."""
        out = b""
        if self._has(W_IN_PORT):
            out += field(IN_PORT, struct.pack(">I", port_to(self.port)))
        if self._has(W_DST):
            out += field(ETH_DST, self.destination)
        if self._has(W_SRC):
            out += field(ETH_SRC, self.source)
        if self._has(W_TYPE):
            out += field(ETH_TYPE, struct.pack(">H", self.kind))
        if self._has(W_VLAN):
            out += field(VLAN_VID, struct.pack(">H", self.vlan & 0xFFF | PRESENT if self.tagged else 0))
        if self.tagged and self._has(W_PCP):
            out += field(VLAN_PCP, bytes([self.pcp]))
        if self._has(W_TYPE) and self.kind == IP:
            out += self._ip()
        elif self._has(W_TYPE) and self.kind == ARP:
            if self._has(W_PROTO):
                out += field(ARP_OP, struct.pack(">H", self.proto))
            out += self._addresses(ARP_SPA, ARP_TPA)
        return out

    def _ip(self) -> bytes:
        out = field(IP_DSCP, bytes([self.tos >> 2])) if self._has(W_TOS) else b""
        if self._has(W_PROTO):
            out += field(IP_PROTO, bytes([self.proto]))
        out += self._addresses(IPV4_SRC, IPV4_DST)
        form = ">B" if self.proto == ICMP else ">H"
        for which, wildcard, value in zip(
            PORTS.get(self.protocol or 0, ()), (W_TP_SRC, W_TP_DST), (self.tp_source, self.tp_destination), strict=False
        ):
            if self._has(wildcard):
                out += field(which, struct.pack(form, value))
        return out

    def _addresses(self, source: int, destination: int) -> bytes:
        out = b""
        for which, shift, address in (
            (source, NW_SRC_SHIFT, self.nw_source), (destination, NW_DST_SHIFT, self.nw_destination)
        ):
            ignored = min(self.wildcards >> shift & 63, 32)
            if ignored < 32:
                mask = -1 << ignored & 0xFFFFFFFF
                out += field(which, struct.pack(">I", address & mask), struct.pack(">I", mask) if ignored else b"")
        return out


def match_from(content: bytes) -> bytes | None:
    """The match of 1.0 with these fields of 1.3; None if there is none."""
    wildcards = ALL
    values: dict[int, int] = {}
    for number, masked, data in common.fields(content):
        value = data[: len(data) // 2] if masked else data
        values[number] = int.from_bytes(value, "big")
        ignored = 0
        if masked:
            ignored = _ignored(int.from_bytes(data[len(value) :], "big"))
            if ignored < 0 or number not in (IPV4_SRC, IPV4_DST, ARP_SPA, ARP_TPA):
                return None
        wildcard = _WILDCARDS.get(number)
        if wildcard is None:
            return None
        if isinstance(wildcard, range):
            wildcards = wildcards & ~(63 << wildcard.start) | ignored << wildcard.start
        else:
            wildcards &= ~wildcard

    def get(*numbers: int) -> int:
        return next((values[number] for number in numbers if number in values), 0)

    vlan = get(VLAN_VID)
    return _FORM.pack(
        wildcards, port_from(get(IN_PORT)), get(ETH_SRC).to_bytes(6, "big"), get(ETH_DST).to_bytes(6, "big"),
        UNTAGGED if VLAN_VID in values and not vlan else vlan & 0xFFF, get(VLAN_PCP), get(ETH_TYPE), get(IP_DSCP) << 2,
        get(IP_PROTO, ARP_OP) & 0xFF, get(IPV4_SRC, ARP_SPA), get(IPV4_DST, ARP_TPA),
        get(*(pair[0] for pair in PORTS.values())), get(*(pair[1] for pair in PORTS.values())),
    )


# _WILDCARDS are those of each field, for addresses where their bits begin.
_WILDCARDS: dict[int, int | range] = {
    IN_PORT: W_IN_PORT, ETH_DST: W_DST, ETH_SRC: W_SRC, ETH_TYPE: W_TYPE, VLAN_VID: W_VLAN, VLAN_PCP: W_PCP,
    IP_DSCP: W_TOS, IP_PROTO: W_PROTO, ARP_OP: W_PROTO,
    **dict.fromkeys((IPV4_SRC, ARP_SPA), range(NW_SRC_SHIFT, NW_SRC_SHIFT + 6)),
    **dict.fromkeys((IPV4_DST, ARP_TPA), range(NW_DST_SHIFT, NW_DST_SHIFT + 6)),
    **{pair[0]: W_TP_SRC for pair in PORTS.values()}, **{pair[1]: W_TP_DST for pair in PORTS.values()},
}


def _ignored(mask: int) -> int:
    """How many low bits an address mask leaves out; -1 if they are not the low ones."""
    bits = 32 - mask.bit_count()
    return bits if mask == -1 << bits & 0xFFFFFFFF else -1


def _set(number: int, value: bytes) -> bytes:
    content = field(number, value)
    return struct.pack(">HH", 25, (4 + len(content) + 7) & ~7) + content + bytes(-(4 + len(content)) % 8)


def _output(number: int, most: int) -> bytes:
    return struct.pack(">HHIH6x", 0, 16, port_to(number), most or 0xFFFF)


def actions_to(data: bytes, match: Match | None) -> bytes:
    """Actions of 1.3, of an entry with a match or, without one, of a PACKET_OUT."""
    out = b""
    tagged = match is not None and match.tagged
    while data:
        kind, size = struct.unpack_from(">HH", data)
        if not 8 <= size <= len(data):
            raise ValueError(f"an action of {size} bytes")
        body, data = data[4:size], data[size:]
        if kind == 0:
            out += _output(*struct.unpack_from(">HH", body))
        elif kind in (1, 2):  # VLAN id, priority
            if not tagged:
                out += struct.pack(">HHH2x", 17, 8, 0x8100)
                tagged = True
            number = int.from_bytes(body[:2], "big") & 0xFFF | PRESENT
            out += _set(VLAN_VID, struct.pack(">H", number)) if kind == 1 else _set(VLAN_PCP, body[:1])
        elif kind == 3:
            out += struct.pack(">HH4x", 18, 8)
            tagged = False
        elif kind in (4, 5):
            out += _set(ETH_SRC if kind == 4 else ETH_DST, body[:6])
        elif kind in (6, 7):
            out += _set(IPV4_SRC if kind == 6 else IPV4_DST, body[:4])
        elif kind == 8:
            out += _set(IP_DSCP, bytes([body[0] >> 2]))
        elif kind in (9, 10) and match is not None and match.protocol in (6, 17):
            out += _set(PORTS[match.protocol][kind - 9], body[:2])
        elif kind == 11:
            number, queue = struct.unpack(">H6xI", body[:12])
            out += struct.pack(">HHI", 21, 8, queue) + _output(number, 0xFFFF)
        elif kind == 0xFFFF:
            out += struct.pack(">HH", kind, size) + body
        else:
            raise common.untranslatable(1, f"an action of type {kind} without a match on TCP or UDP")
    return out


def actions_from(data: bytes) -> bytes | None:
    """Actions of 1.0; None if it has no equal."""
    out, queue = b"", None
    while data:
        kind, size = struct.unpack_from(">HH", data)
        if not 8 <= size <= len(data):
            raise ValueError(f"an action of {size} bytes in a flow entry")
        body, data = data[4:size], data[size:]
        if kind == 0:
            number, most = struct.unpack_from(">IH", body)
            if queue is None:
                out += struct.pack(">HHHH", 0, 8, port_from(number), most)
            else:
                out += struct.pack(">HHH6xI", 11, 16, port_from(number), queue)
        elif kind == 18:
            out += struct.pack(">HH4x", 3, 8)
        elif kind == 21:
            queue = int.from_bytes(body[:4], "big")
        elif kind == 25:
            ((number, masked, value),) = list(common.fields(body))[:1]
            made = None if masked else _set_from(number, value)
            if made is None:
                return None
            out += made
        elif kind == 0xFFFF:
            out += struct.pack(">HH", kind, size) + body
        elif kind != 17:  # the tag that setting its id adds
            return None
    return out


def _set_from(number: int, value: bytes) -> bytes | None:
    kinds = {VLAN_VID: 1, VLAN_PCP: 2, ETH_SRC: 4, ETH_DST: 5, IPV4_SRC: 6, IPV4_DST: 7, IP_DSCP: 8,
             13: 9, 15: 9, 14: 10, 16: 10}
    kind = kinds.get(number)
    if kind is None:
        return None
    if number == VLAN_VID:
        value = struct.pack(">H", int.from_bytes(value, "big") & 0xFFF)
    elif number == IP_DSCP:
        value = bytes([value[0] << 2])
    size = 16 if len(value) == 6 else 8
    return struct.pack(">HH", kind, size) + value + bytes(size - 4 - len(value))

"""Frames that applications parse."""

import socket
import struct
from typing import Any

from os_ken.lib.packet import ether_types, ethernet, ipv4, packet

_ETHERNET = struct.Struct(ethernet.ethernet._PACK_STR)
_IPV4 = struct.Struct(ipv4.ipv4._PACK_STR)
_original_ethernet = ethernet.ethernet.parser.__func__
_original_ipv4 = ipv4.ipv4.parser.__func__


def _only_zeros(data: Any) -> bool:
    return not data or (not data[0] and not bytes(data).strip(b"\0"))


def _parser(self: Any, cls: Any) -> None:
    """The framework's, which copies the rest of the frame at each layer to see whether it is all zeros."""
    rest = self.data
    protocols = self.protocols
    while cls:
        if _only_zeros(rest):
            break
        try:
            protocol, cls, rest = cls.parser(rest)
        except struct.error:
            break
        if protocol:
            protocols.append(protocol)
    if not _only_zeros(rest):
        protocols.append(rest)


def _ethernet(cls: Any, buf: Any) -> Any:
    if cls is not ethernet.ethernet or type(buf) is not bytes:
        return _original_ethernet(cls, buf)
    dst, src, kind = _ETHERNET.unpack_from(buf)
    header = cls.__new__(cls)
    header.dst, header.src, header.ethertype = dst.hex(":"), src.hex(":"), kind
    return header, cls._TYPES.get(max(kind, ether_types.ETH_TYPE_IEEE802_3)), buf[_ETHERNET.size :]


def _ipv4(cls: Any, buf: Any) -> Any:
    if cls is not ipv4.ipv4 or type(buf) is not bytes:
        return _original_ipv4(cls, buf)
    first, tos, total, identification, fragment, ttl, proto, csum, src, dst = _IPV4.unpack_from(buf)
    header = cls.__new__(cls)
    header.version, header.header_length, header.tos, header.total_length = first >> 4, first & 15, tos, total
    header.identification, header.flags, header.offset = identification, fragment >> 13, fragment & 8191
    header.ttl, header.proto, header.csum = ttl, proto, csum
    header.src, header.dst = socket.inet_ntoa(src), socket.inet_ntoa(dst)
    length = 4 * header.header_length
    header.option = buf[_IPV4.size : length] if length > _IPV4.size else None
    return header, cls._TYPES.get(proto), buf[length:total]


def install() -> None:
    ethernet.ethernet.parser = classmethod(_ethernet)
    ipv4.ipv4.parser = classmethod(_ipv4)
    packet.Packet._parser = _parser

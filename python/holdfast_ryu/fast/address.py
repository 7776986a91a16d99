"""Addresses between text and bytes, without netaddr."""

import re
import socket
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from os_ken.lib import addrconv, type_desc

# CACHED bounds how many addresses of a kind are remembered.
CACHED = 65_536

_is_mac = re.compile(r"[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}").fullmatch


def _remember(exact: type, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """convert, remembering what it gave for things of one immutable type. Errors are not remembered."""
    remembered = lru_cache(CACHED)(convert)

    def converted(thing: Any) -> Any:
        return remembered(thing) if type(thing) is exact else convert(thing)

    return converted


def _mac_to_text(original: Callable[[Any], str]) -> Callable[[Any], str]:
    def bin_to_text(binary: Any) -> str:
        if type(binary) is bytes and len(binary) == 6:
            return binary.hex(":")
        return original(binary)

    return bin_to_text


def _mac_to_bin(original: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    def text_to_bin(text: Any) -> bytes:
        if type(text) is str and _is_mac(text):
            return bytes.fromhex(text.replace(":", ""))
        return original(text)

    return _remember(str, text_to_bin)


def _ipv4_to_text(original: Callable[[Any], str]) -> Callable[[Any], str]:
    def bin_to_text(binary: Any) -> str:
        if type(binary) is bytes and len(binary) == 4:
            return socket.inet_ntoa(binary)
        return original(binary)

    return bin_to_text


def install() -> None:
    mac, ipv4, ipv6 = addrconv.mac, addrconv.ipv4, addrconv.ipv6
    mac.bin_to_text, mac.text_to_bin = _mac_to_text(mac.bin_to_text), _mac_to_bin(mac.text_to_bin)
    ipv4.bin_to_text, ipv4.text_to_bin = _ipv4_to_text(ipv4.bin_to_text), _remember(str, ipv4.text_to_bin)
    ipv6.bin_to_text, ipv6.text_to_bin = _remember(bytes, ipv6.bin_to_text), _remember(str, ipv6.text_to_bin)
    for described, converter in ((type_desc.MacAddr, mac), (type_desc.IPv4Addr, ipv4), (type_desc.IPv6Addr, ipv6)):
        described.to_user = staticmethod(converter.bin_to_text)
        described.from_user = staticmethod(converter.text_to_bin)

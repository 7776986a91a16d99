"""Frames that applications parse."""

import struct
from typing import Any

from os_ken.lib.packet import packet


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


def install() -> None:
    packet.Packet._parser = _parser

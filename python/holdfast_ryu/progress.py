"""Ends the framework's parsers where the bytes of a message or frame would have them read for ever.

They loop over elements whose length the bytes say, and dozens of these loops accept the length 0: they read the same
element again and again, and keep what they read. So one frame of any host on the network would end every host of
applications. All of them read by struct.unpack_from or struct.unpack: a message has so many reads for each of its
bytes, and then they fail, as they do at the end of the bytes.
"""

import functools
import struct
from collections.abc import Callable
from typing import Any

# READS and READS_A_BYTE bound the reads of a message. Those that end need less than one for each byte.
READS, READS_A_BYTE = 256, 2
_left: int | None = None  # of the message that is parsed now


class Endless(struct.error):
    """A message that would be read for ever. The framework takes it for one that is cut."""


def _counted(name: str) -> Callable[..., Any]:
    read = getattr(struct, name)

    def counted(*args: Any, **kwargs: Any) -> Any:
        global _left
        if _left is not None:
            if _left <= 0:
                raise Endless("the message has an element that does not end")
            _left -= 1
        return read(*args, **kwargs)

    counted.__module__, counted.__qualname__ = "struct", name  # by which an application's reference to it is kept
    return counted


def _bounded(parse: Callable[..., Any], of: Callable[..., Any]) -> Callable[..., Any]:
    """The same, with a bound for the bytes that `of` finds in the arguments. Messages within others share theirs."""

    @functools.wraps(parse)
    def bounded(*args: Any) -> Any:
        global _left
        if _left is not None:
            return parse(*args)
        _left = READS + READS_A_BYTE * len(of(*args))
        try:
            return parse(*args)
        finally:
            _left = None

    return bounded


def install() -> None:
    """After the fast paths."""
    from os_ken.lib.packet import packet
    from os_ken.ofproto import ofproto_parser

    for name in ("unpack_from", "unpack"):
        setattr(struct, name, _counted(name))
    packet.Packet._parser = _bounded(packet.Packet._parser, lambda made, _cls: made.data)
    ofproto_parser.msg = _bounded(ofproto_parser.msg, lambda *args: args[-1])

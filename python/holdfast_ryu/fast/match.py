"""Faster matches.

Each value of a field is converted once. What only Ryu's old interface needs is made on demand.
"""

import struct
from functools import lru_cache
from typing import Any

from os_ken.ofproto import ofproto_v1_3 as ofproto
from os_ken.ofproto import ofproto_v1_3_parser as parser

# CACHED bounds how many fields, and how many whole matches from switches, are remembered.
CACHED = 65_536

_HEADER = struct.Struct("!HH")
_PADDING = tuple(bytes(size) for size in (0, 7, 6, 5, 4, 3, 2, 1))

OFPMatch = parser.OFPMatch
_original_init = OFPMatch.__init__
_original_parser = OFPMatch.parser.__func__
_original_serialize = OFPMatch.serialize
_original_composed = OFPMatch._composed_with_old_api


def _normal(name: str, value: Any) -> tuple[Any, tuple[str, Any]]:
    """The place of a field in the order of fields, and the field as the framework keeps it."""
    name, value = ofproto.oxm_normalize_user(name, value)
    number, binary, mask = ofproto.oxm_from_user(name, value)
    place = number[0] if isinstance(number, tuple) else number
    return place, ofproto.oxm_to_user(number, binary, mask)


def _encoded(name: str, value: Any) -> bytes:
    """A field on the wire."""
    number, binary, mask = ofproto.oxm_from_user(name, value)
    out = bytearray()
    ofproto.oxm_serialize(number, binary, mask, out, 0)
    return bytes(out)


_remembered_normal = lru_cache(CACHED)(_normal)
_remembered_encoded = lru_cache(CACHED)(_encoded)


def _place(entry: tuple[Any, tuple[str, Any]]) -> Any:
    return entry[0]


def _init(self: Any, type_: Any = None, length: Any = None, _ordered_fields: Any = None, **kwargs: Any) -> None:
    if _ordered_fields is not None:
        _original_init(self, type_, length, _ordered_fields, **kwargs)
        return
    try:
        entries = [
            # An exact type, since True is 1 for a cache, and not for the framework.
            _remembered_normal(name, value) if type(value) is int or type(value) is str else _normal(name, value)
            for name, value in kwargs.items()
        ]
        entries.sort(key=_place)
    except Exception:
        _original_init(self, type_, length, **kwargs)
        return
    self.type = ofproto.OFPMT_OXM
    self.length = length
    self._fields2 = [entry[1] for entry in entries]


def _getattr(self: Any, name: str) -> Any:
    """Makes what the old interface works on."""
    if name == "_wc":
        self._wc = parser.FlowWildcards()
    elif name == "_flow":
        self._flow = parser.Flow()
    elif name == "fields":
        raw = self.__dict__.get("_raw")
        self.fields = [] if raw is None else _original_parser(OFPMatch, raw, 0).fields
    else:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
    return self.__dict__[name]


def _composed(self: Any) -> bool:
    state = self.__dict__
    if "_wc" in state:
        return bool(_original_composed(self))
    # A match that was parsed has old fields exactly if it has new ones.
    return bool(not state["_fields2"] and state.get("fields"))


def encoded(match: Any) -> tuple[int, bytes]:
    """The length of a match that was not composed with the old interface, and its bytes with padding."""
    out = [
        _remembered_encoded(name, value) if type(value) is int or type(value) is str else _encoded(name, value)
        for name, value in match._fields2
    ]
    body = b"".join(out)
    length = _HEADER.size + len(body)
    return length, _HEADER.pack(ofproto.OFPMT_OXM, length) + body + _PADDING[length % 8]


def _serialize(self: Any, buf: bytearray, offset: int) -> int:
    if type(self) is not OFPMatch or offset != len(buf) or self._composed_with_old_api():
        return int(_original_serialize(self, buf, offset))
    try:
        self.length, out = encoded(self)
    except Exception:
        return int(_original_serialize(self, buf, offset))
    buf += out
    return len(out)


@lru_cache(CACHED)
def _decoded(raw: bytes) -> tuple[tuple[str, Any], ...]:
    return tuple(_original_parser(OFPMatch, raw, 0)._fields2)


def _parser(cls: Any, buf: Any, offset: int) -> Any:
    try:
        kind, length = _HEADER.unpack_from(buf, offset)
        raw = bytes(buf[offset : offset + length])
        fields = list(_decoded(raw))
    except Exception:
        return _original_parser(cls, buf, offset)
    match = OFPMatch.__new__(OFPMatch)
    match.type, match.length, match._fields2, match._raw = kind, length, fields, raw
    return match


def install() -> None:
    OFPMatch.__init__ = _init
    OFPMatch.__getattr__ = _getattr
    OFPMatch._composed_with_old_api = _composed
    OFPMatch.serialize = _serialize
    OFPMatch.parser = classmethod(_parser)

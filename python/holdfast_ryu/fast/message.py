"""The messages that nearly all events bring and cause: PACKET_IN, PACKET_OUT, FLOW_MOD; the attributes of all."""

import struct
from typing import Any

from os_ken.ofproto import ofproto_v1_3 as ofproto
from os_ken.ofproto import ofproto_v1_3_parser as parser
from os_ken.ofproto.ofproto_parser import MsgBase

from . import match as matches

HEADER = struct.Struct("!BBHI")
_PACKET_IN = struct.Struct(ofproto.OFP_PACKET_IN_PACK_STR)
_PACKET_IN_MATCH = ofproto.OFP_PACKET_IN_SIZE - ofproto.OFP_MATCH_SIZE
_PACKET_OUT = struct.Struct(ofproto.OFP_HEADER_PACK_STR + ofproto.OFP_PACKET_OUT_PACK_STR[1:])
_FLOW_MOD = struct.Struct(ofproto.OFP_HEADER_PACK_STR + ofproto.OFP_FLOW_MOD_PACK_STR0[1:])
_OUTPUT = struct.Struct(ofproto.OFP_ACTION_OUTPUT_PACK_STR)
_INSTRUCTION = struct.Struct(ofproto.OFP_INSTRUCTION_ACTIONS_PACK_STR)

_original_packet_in = parser.OFPPacketIn.parser.__func__
_original_packet_out = parser.OFPPacketOut.serialize
_original_flow_mod = parser.OFPFlowMod.serialize
_original_init = MsgBase.__init__
# _OWN are the framework's classes. Their first message, which finds out what messages do not print, has been made.
_OWN = {cls for cls in vars(parser).values() if isinstance(cls, type) and issubclass(cls, MsgBase)}


class _Uncommon(Exception):
    """Left to the framework."""


def _init(self: Any, datapath: Any) -> None:
    if type(self) not in _OWN:
        _original_init(self, datapath)
        return
    self.datapath = datapath
    self.version = self.msg_type = self.msg_len = self.xid = self.buf = None


def packet_in(datapath: Any, version: int, msg_type: int, msg_len: int, xid: int, buf: Any) -> Any:
    try:
        buffer_id, total_len, reason, table_id, cookie = _PACKET_IN.unpack_from(buf, ofproto.OFP_HEADER_SIZE)
        match = parser.OFPMatch.parser(buf, _PACKET_IN_MATCH)
    except Exception:
        return _original_packet_in(parser.OFPPacketIn, datapath, version, msg_type, msg_len, xid, buf)
    message = parser.OFPPacketIn(datapath, buffer_id, total_len, reason, table_id, cookie, match)
    message.version, message.msg_type, message.msg_len, message.xid = version, msg_type, msg_len, xid
    message.buf = bytes(buf)
    data = message.buf[_PACKET_IN_MATCH + (match.length + 7) // 8 * 8 + 2 :]
    message.data = data[:total_len] if total_len < len(data) else data
    return message


def _actions(actions: Any) -> bytes:
    out = []
    for action in actions:
        if type(action) is not parser.OFPActionOutput:
            raise _Uncommon
        out.append(_OUTPUT.pack(action.type, action.len, action.port, action.max_len))
    return b"".join(out)


def _instructions(instructions: Any) -> list[bytes]:
    out = []
    for instruction in instructions:
        if type(instruction) is not parser.OFPInstructionActions:
            raise _Uncommon
        actions = _actions(instruction.actions or ())
        out.append(_INSTRUCTION.pack(instruction.type, _INSTRUCTION.size + len(actions)) + actions)
    return out


def _finish(message: Any, buf: bytearray) -> None:
    """Sets what serialize() sets."""
    message.version, message.msg_type, message.buf, message.msg_len = buf[0], buf[1], buf, len(buf)


def _packet_out(self: Any) -> None:
    data = self.data
    try:
        if type(self) is not parser.OFPPacketOut or not self.actions:  # without any, the framework overwrites data
            raise _Uncommon
        if data is not None and (type(data) not in (bytes, bytearray) or self.buffer_id != ofproto.OFP_NO_BUFFER):
            raise _Uncommon
        actions = _actions(self.actions)
        size = _PACKET_OUT.size + len(actions) + len(data or b"")
        head = _PACKET_OUT.pack(
            self.datapath.ofproto.OFP_VERSION,
            self.cls_msg_type,
            size,
            self.xid or 0,
            self.buffer_id,
            self.in_port,
            len(actions),
        )
    except Exception:
        _original_packet_out(self)
        return
    self.actions_len = len(actions)
    self.xid = self.xid or 0
    _finish(self, bytearray(head + actions + (data or b"")))


def _flow_mod(self: Any) -> None:
    try:
        if (
            type(self) is not parser.OFPFlowMod
            or type(self.match) is not parser.OFPMatch
            or self.match._composed_with_old_api()
        ):
            raise _Uncommon
        length, match = matches.encoded(self.match)
        instructions = _instructions(self.instructions)
        rest = match + b"".join(instructions)
        head = _FLOW_MOD.pack(
            self.datapath.ofproto.OFP_VERSION,
            self.cls_msg_type,
            _FLOW_MOD.size + len(rest),
            self.xid or 0,
            self.cookie,
            self.cookie_mask,
            self.table_id,
            self.command,
            self.idle_timeout,
            self.hard_timeout,
            self.priority,
            self.buffer_id,
            self.out_port,
            self.out_group,
            self.flags,
        )
    except Exception:
        _original_flow_mod(self)
        return
    self.xid = self.xid or 0
    self.match.length = length
    for instruction, out in zip(self.instructions, instructions, strict=True):
        instruction.len = len(out)
    _finish(self, bytearray(head + rest))


def install() -> None:
    MsgBase.__init__ = _init
    parser._MSG_PARSERS[ofproto.OFPT_PACKET_IN] = packet_in
    parser.OFPPacketOut.serialize = _packet_out
    parser.OFPFlowMod.serialize = _flow_mod

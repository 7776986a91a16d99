"""Messages of an application about its connection, which is Holdfast's: echoes, roles, and the markers of the log.

An echo becomes a barrier, so that an application measures how long a switch takes to answer. Bytes only.
"""

import struct

from .versions import common

ECHO_REQUEST, ECHO_REPLY, ROLE_REQUEST, ROLE_REPLY = 2, 3, 24, 25
SLAVE, MASTER = 3, 2
# REQUESTS are the types of commands, and ANSWERS those of events, that a Control may change.
REQUESTS = {ECHO_REQUEST, ROLE_REQUEST}
ANSWERS = {common.BARRIER_REPLY, common.STATS_REPLY}
# ECHOES bounds the echoes of a switch that wait: of older ones the answer is a BARRIER_REPLY.
ECHOES = 1_024
# A marker is a flow entry by which a switch without an agent tells what it has done (openflow/experimenter).
_MARKER_COOKIE, _MARKER_SOURCE = 0x48, b"\x02HFM"


class Control:
    """The echoes of one switch that wait for an answer, by transaction id."""

    def __init__(self) -> None:
        self.echoes: dict[bytes, bytes] = {}

    def command(self, message: bytes) -> tuple[bytes | None, bytes | None]:
        """Returns what is sent to the switch in the place of a command, and what the application gets at once."""
        kind, xid = message[1], message[4:8]
        if kind == ECHO_REQUEST:
            while len(self.echoes) >= ECHOES:
                del self.echoes[next(iter(self.echoes))]
            self.echoes[xid] = message[8:]
            return common.make(common.VERSION, common.BARRIER_REQUEST, xid, b""), None
        if kind == ROLE_REQUEST and int.from_bytes(message[8:12], "big") != SLAVE:
            # The leader is the master of its switches, whatever the application asks for.
            return None, common.make(common.VERSION, ROLE_REPLY, xid, struct.pack(">I", MASTER) + message[12:])
        return message, None

    def event(self, message: bytes) -> bytes:
        """Returns what the application gets in the place of a message of the switch."""
        kind, xid = message[1], message[4:8]
        if kind == common.BARRIER_REPLY and xid in self.echoes:
            return common.make(common.VERSION, ECHO_REPLY, xid, self.echoes.pop(xid))
        if kind == common.STATS_REPLY and message[8:10] == b"\0\1":
            return without_markers(message)
        return message


def without_markers(message: bytes) -> bytes:
    """A reply with flow entries, but for markers."""
    kept = [
        entry
        for entry in common.elements(message[16:], 0)
        if entry[24] != _MARKER_COOKIE or _MARKER_SOURCE not in entry[48:]
    ]
    return common.make(common.VERSION, message[1], message[4:8], message[8:16] + b"".join(kept))

"""PACKET_INs go to the event queues of applications without the switch's receiver, which is a green thread."""

import logging
from typing import Any

from os_ken.base import app_manager
from os_ken.controller import ofp_event
from os_ken.ofproto import ofproto_v1_3 as ofproto

from ..datapath import Datapath
from . import message as messages

_PACKET_IN = ofproto.OFPT_PACKET_IN
_EVENT = ofp_event.EventOFPPacketIn
_SEND_EVENT = app_manager.OSKenApp._send_event
_original_feed = Datapath.feed


def _feed(self: Any, message: bytes) -> None:
    if not (
        len(message) >= messages.HEADER.size
        and message[1] == _PACKET_IN
        and self.native
        and self.receiver.parked
        and not self.inbox
        and not self._states
        and _hand_over(self, message)
    ):
        _original_feed(self, message)


def _hand_over(datapath: Any, message: bytes) -> bool:
    """Does what the receiver would do, or nothing: an application whose queue is full, above all, makes that wait."""
    version, kind, length, xid = messages.HEADER.unpack_from(message)
    brick, state = datapath.ofp_brick, datapath.state
    if length != len(message) or version != ofproto.OFP_VERSION or brick is None:
        return False
    if brick.event_handlers.get(_EVENT) or app_manager.LOG.isEnabledFor(logging.DEBUG):
        return False
    observers = []
    for name, states in brick.observers.get(_EVENT, {}).items():
        app = app_manager.SERVICE_BRICKS.get(name)
        if app is None or state and states and state not in states:
            continue
        if type(app)._send_event is not _SEND_EVENT or app._events_sem.counter <= 0 or app.events.full():
            return False
        observers.append(app)
    try:
        parsed = messages.packet_in(datapath, version, kind, length, xid, message)
    except Exception:
        return False  # the receiver fails as well, and tells
    event = _EVENT(parsed)
    for app in observers:
        app._events_sem.counter -= 1
        app.events.put((event, state))
    return True


def install() -> None:
    Datapath.feed = _feed  # type: ignore[method-assign]

"""Switches as applications see them: fed from inputs, with commands going into the outcome."""

import logging
import random
from collections import deque
from typing import Any

from os_ken.base import app_manager
from os_ken.controller import controller, ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, DEAD_DISPATCHER, HANDSHAKE_DISPATCHER
from os_ken.ofproto import ofproto_parser, ofproto_protocol, ofproto_v1_0, ofproto_v1_3

from .outcome import outcome
from .scheduler import scheduler

VERSION = ofproto_v1_3.OFP_VERSION
HEADER_BYTES = 8
# INBOX bounds the messages that wait because an application's event queue is full, as when it sleeps in a
# handler. Beyond, messages of that switch are dropped, and each is a failure.
INBOX = 65_536


class Overflow(RuntimeError):
    """A switch's messages wait for an application that takes none."""


class Datapath(controller.Datapath):  # type: ignore[misc]
    """A switch in one epoch.

    Messages that the framework sends by itself are discarded: Holdfast has already done what they are for.
    """

    def __init__(self) -> None:
        ofproto_protocol.ProtocolDesc.__init__(self, VERSION)
        self.serial = scheduler.serial()
        self.socket = None
        self.address = ("127.0.0.1", 0)
        self.is_active = True
        self.xid = random.randint(0, self.ofproto.MAX_XID)
        self.id: int | None = None
        self._ports = None
        self.flow_format = ofproto_v1_0.NXFF_OPENFLOW10
        self.ofp_brick = app_manager.lookup_service_brick(ofp_event.NAME)
        self.inbox: deque[bytes] = deque()
        self.receiver: Any = scheduler.spawn(self._receive)  # by the host: what it sends is no application's
        self.state = None
        self._states: deque[str] = deque()

    def __hash__(self) -> int:
        return self.serial  # not the address, which differs from process to process

    def __eq__(self, other: object) -> bool:
        return self is other

    def enter(self, state: str) -> None:
        """Has the receiver change the state."""
        self._states.append(state)
        scheduler.wake(self.receiver)

    def feed(self, message: bytes) -> None:
        """Has the receiver take a message."""
        if len(self.inbox) >= INBOX:
            raise Overflow(
                f"switch {self.id or 0:016x}: {INBOX} messages wait for an application that does not take its events:"
                " this one is dropped"
            )
        self.inbox.append(message)
        scheduler.wake(self.receiver)

    def _receive(self) -> None:
        while self.state != DEAD_DISPATCHER:
            if self._states:
                self.set_state(self._states.popleft())
            elif self.inbox:
                self._deliver(self.inbox.popleft())
            else:
                scheduler.park()
        self.is_active = False

    def _deliver(self, message: bytes) -> None:
        try:
            version, kind, length, xid = ofproto_parser.header(message)
            parsed = ofproto_parser.msg(self, version, kind, length, xid, message)
            if not parsed:
                return
            event = ofp_event.ofp_msg_to_ev(parsed)
            brick = self.ofp_brick
            if brick is None:
                return
            brick.send_event_to_observers(event, self.state)
            for handler in brick.get_handlers(event):
                if self.state in handler.callers[event.__class__].dispatchers:
                    handler(event)
        except Exception as error:
            outcome.fail("", error)

    def close(self) -> None:
        if self.state != DEAD_DISPATCHER and scheduler.owner():
            text = (
                f"{scheduler.owner()} closed switch {self.id or 0:016x}: no application gets its messages until it"
                " comes up again"
            )
            outcome.log(logging.WARNING, "holdfast", text)
        self.set_state(DEAD_DISPATCHER)
        scheduler.wake(self.receiver)

    def __reduce__(self) -> Any:
        return kept, (self.serial,), vars(self)  # its number first: sets need it to hold a switch

    def send(self, buf: Any, close_socket: bool = False) -> bool:
        if self.state == DEAD_DISPATCHER:
            return False
        owner = scheduler.owner()
        if owner and self.id is not None:
            for message in split(bytes(buf)):
                outcome.send(owner, self.id, message)
        if close_socket:
            self.close()
        return True


def kept(serial: int) -> Datapath:
    """A datapath of which all but its number follows."""
    datapath: Datapath = Datapath.__new__(Datapath)
    datapath.serial = serial
    return datapath


def split(messages: bytes) -> list[bytes]:
    """Cuts messages that follow each other; one, as a rule."""
    if len(messages) >= HEADER_BYTES and int.from_bytes(messages[2:4], "big") == len(messages):
        return [messages]
    out = []
    while messages:
        length = int.from_bytes(messages[2:4], "big")
        if not HEADER_BYTES <= length <= len(messages):
            raise ValueError(f"{len(messages)} bytes that are no OpenFlow message")
        out.append(messages[:length])
        messages = messages[length:]
    return out


class Switches:
    """The datapaths that are up, by id."""

    def __init__(self) -> None:
        self.all: dict[int, Datapath] = {}

    def up(self, datapath_id: int, features: bytes, ports: bytes) -> None:
        """Takes a new datapath through the states of the framework.

        Applications run after each step, as they would during the delays of a network.
        """
        self.down(datapath_id)
        datapath = Datapath()
        self.all[datapath_id] = datapath
        datapath.enter(HANDSHAKE_DISPATCHER)
        scheduler.run()
        datapath.enter(CONFIG_DISPATCHER)
        scheduler.run()
        datapath.feed(features)
        scheduler.run()
        for message in split(ports):
            datapath.feed(message)

    def resume(self, switches: dict[int, Datapath]) -> None:
        """Takes over switches that a checkpoint has kept: their receivers begin anew."""
        self.all = switches
        for datapath in switches.values():
            if datapath.receiver is None:
                datapath.receiver = scheduler.spawn(datapath._receive)
        scheduler.run()

    def down(self, datapath_id: int) -> None:
        datapath = self.all.pop(datapath_id, None)
        if datapath is not None:
            datapath.enter(DEAD_DISPATCHER)
            scheduler.run()

    def message(self, datapath_id: int, message: bytes) -> None:
        """What comes from a switch that is not up, or that an application has closed, is dropped."""
        datapath = self.all.get(datapath_id)
        if datapath is not None and not datapath.receiver.ended:
            datapath.feed(message)

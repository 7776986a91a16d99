"""Switches as applications see them: fed from inputs, with commands going into the outcome."""

import logging
import random
import struct
from collections import deque
from typing import Any

from os_ken.base import app_manager
from os_ken.controller import controller, ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, DEAD_DISPATCHER, HANDSHAKE_DISPATCHER
from os_ken.ofproto import ofproto_parser, ofproto_protocol, ofproto_v1_0, ofproto_v1_3

from . import control, versions
from .clock import clock
from .outcome import outcome
from .scheduler import FOREIGN, scheduler

HEADER_BYTES = 8
# ADDRESS is that of each switch: its own is not in the log.
ADDRESS = ("127.0.0.1", 0)
# INBOX bounds the messages that wait because an application's event queue is full, as when it sleeps in a
# handler. Beyond, messages of that switch are dropped, and each is a failure.
INBOX = 65_536


# AGAIN_NS is after which time a switch connects again that an application has closed; it doubles up to AGAIN_MOST_NS
# while applications close it again within LASTS_NS.
AGAIN_NS = 10**9
AGAIN_MOST_NS = 8 * 10**9
LASTS_NS = 60 * 10**9
PORT_BYTES = 64
# PORTS is how many ports one reply has room for.
PORTS = 1_000


class Overflow(RuntimeError):
    """A switch's messages wait for an application that takes none."""


class Connection:
    """What applications get as the socket of a switch: it only knows its ends, which are those of Holdfast."""

    def getpeername(self) -> tuple[str, int]:
        return ADDRESS

    def getsockname(self) -> tuple[str, int]:
        return ADDRESS


class Datapath(controller.Datapath):  # type: ignore[misc]
    """A switch in one epoch.

    Messages that the framework sends by itself are discarded: Holdfast has already done what they are for.
    """

    def __init__(self) -> None:
        ofproto_protocol.ProtocolDesc.__init__(self, versions.choose(ofproto_protocol._supported_versions))
        self.serial = scheduler.serial()
        self.socket = Connection()
        self.address = ADDRESS
        self.is_active = True
        self.xid = random.randint(0, self.ofproto.MAX_XID)
        self.id: int | None = None
        self._ports = None
        self.unreplied_echo_requests: list[int] = []  # none are of the framework, which takes replies from it
        self.flow_format = ofproto_v1_0.NXFF_OPENFLOW10
        self.ofp_brick = app_manager.lookup_service_brick(ofp_event.NAME)
        self.inbox: deque[bytes] = deque()
        self.receiver: Any = scheduler.spawn(self._receive)  # by the host: what it sends is no application's
        self.state = None
        self._states: deque[str] = deque()
        self.features = b""
        self.control = control.Control()
        self.native = self.ofproto.OFP_VERSION == versions.NATIVE
        self.descriptions: dict[bytes, bytes] = {}  # of ports, by number
        self.up_ns = clock.now_ns
        self.closed_ns: int | None = None
        self.again_ns = AGAIN_NS

    @property
    def again_at_ns(self) -> int:
        """When the switch connects again, if an application has closed it."""
        assert self.closed_ns is not None
        return self.closed_ns + self.again_ns

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
            if message[1] in control.ANSWERS:
                message = self.control.event(message)
            if self.native:
                self._hand_over(message)
                return
            for translated in versions.events(self.ofproto.OFP_VERSION, message, list(self.descriptions.values())):
                self._hand_over(translated)
        except Exception as error:
            outcome.fail("", error)

    def _hand_over(self, message: bytes) -> None:
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

    def close(self) -> None:
        if self.state != DEAD_DISPATCHER and scheduler.owner():
            if clock.now_ns - self.up_ns >= LASTS_NS:
                self.again_ns = AGAIN_NS
            text = (
                f"{scheduler.owner()} closed switch {self.id or 0:016x}: no application gets its messages until it"
                f" connects again, in {self.again_ns // 10**9} s"
            )
            outcome.log(logging.WARNING, "holdfast", text)
            if self.id is not None:
                self.closed_ns = clock.now_ns
                _closed[self.id] = self
        self.set_state(DEAD_DISPATCHER)
        scheduler.wake(self.receiver)

    def __reduce__(self) -> Any:
        return kept, (self.serial,), vars(self)  # its number first: sets need it to hold a switch

    def send(self, buf: Any, close_socket: bool = False) -> bool:
        if self.state == DEAD_DISPATCHER:
            return False
        owner = scheduler.owner()
        if owner == FOREIGN:
            outcome.stir()  # so that what it sends need not wait for the next event
        if owner and self.id is not None:
            for message in split(bytes(buf)):
                if self.native and message[1] not in control.REQUESTS:
                    outcome.send(owner, self.id, message)
                else:
                    self._send_translated(owner, self.id, message)
        if close_socket:
            self.close()
        return True

    def _send_translated(self, owner: str, datapath_id: int, message: bytes) -> None:
        for command in versions.commands(self.ofproto.OFP_VERSION, message):
            sent, answer = self.control.command(command)
            if sent is not None:
                outcome.send(owner, datapath_id, sent)
            if answer is not None:
                self.feed(answer)


# _closed are the switches that applications have closed, and that are to connect again.
_closed: dict[int, Datapath] = {}


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
        datapath.features = features
        for reply in split(ports):
            for start in range(16, len(reply) - PORT_BYTES + 1, PORT_BYTES):
                datapath.descriptions[reply[start : start + 4]] = reply[start : start + PORT_BYTES]
        self.all[datapath_id] = datapath
        for command in versions.first_commands(datapath.ofproto.OFP_VERSION):
            outcome.send("", datapath_id, command)
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
        _closed.clear()
        _closed.update((number, datapath) for number, datapath in switches.items() if datapath.closed_ns is not None)
        for datapath in switches.values():
            if datapath.receiver is None:
                datapath.receiver = scheduler.spawn(datapath._receive)
        scheduler.run()

    def down(self, datapath_id: int) -> None:
        _closed.pop(datapath_id, None)
        datapath = self.all.pop(datapath_id, None)
        if datapath is not None:
            datapath.enter(DEAD_DISPATCHER)
            scheduler.run()

    def message(self, datapath_id: int, message: bytes) -> None:
        """What comes from a switch that is not up, or that an application has closed, is dropped."""
        datapath = self.all.get(datapath_id)
        if datapath is None:
            return
        if len(message) >= 16 + PORT_BYTES and message[1] == ofproto_v1_3.OFPT_PORT_STATUS:
            datapath.descriptions.pop(message[16:20], None)
            if message[8] != ofproto_v1_3.OFPPR_DELETE:
                datapath.descriptions[message[16:20]] = message[16 : 16 + PORT_BYTES]
        if not datapath.receiver.ended:
            datapath.feed(message)

    def next_ns(self) -> int | None:
        """When the next of them connects again."""
        return min((datapath.again_at_ns for datapath in _closed.values()), default=None)

    def connect_again(self) -> None:
        """Brings up the switches that applications closed some time ago, as their own reconnection would.

        An application closes a switch to begin anew with it, as Faucet does. To Holdfast it is up all the time.
        """
        for number, before in list(_closed.items()):
            if clock.now_ns < before.again_at_ns:
                continue
            self.up(number, before.features, _ports_reply(list(before.descriptions.values())))
            self.all[number].again_ns = min(2 * before.again_ns, AGAIN_MOST_NS)


def _ports_reply(descriptions: list[bytes]) -> bytes:
    """Replies with the descriptions of ports."""
    out = b""
    for start in range(0, max(1, len(descriptions)), PORTS):
        body = b"".join(descriptions[start : start + PORTS])
        more = start + PORTS < len(descriptions)
        out += struct.pack(
            ">BBHIHH4x",
            versions.NATIVE,
            ofproto_v1_3.OFPT_MULTIPART_REPLY,
            16 + len(body),
            0,
            ofproto_v1_3.OFPMP_PORT_DESC,
            ofproto_v1_3.OFPMPF_REPLY_MORE if more else 0,
        )
        out += body
    return out

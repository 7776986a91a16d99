"""A network of switches that answer what a controller asks, and pass frames on along links. It holds no flows."""

import struct
from collections.abc import Iterable

import openflow
from hosting import Hosted

from holdfast_ryu import wire

Port = tuple[int, int]
ROUNDS = 200


def outputs(packet_out: bytes) -> tuple[int, list[int], bytes]:
    """The in port, the output ports and the frame of a PACKET_OUT."""
    in_port, size = struct.unpack_from(">IH", packet_out, 12)
    actions, frame = packet_out[24 : 24 + size], packet_out[24 + size :]
    ports = []
    while actions:
        kind, length = struct.unpack_from(">HH", actions)
        if kind == 0:
            ports.append(int.from_bytes(actions[4:8], "big"))
        actions = actions[length:]
    return in_port, ports, frame


class Network:
    def __init__(self, host: Hosted, switches: int, ports: int, links: Iterable[tuple[Port, Port]] = ()) -> None:
        self._host = host
        self._ports = ports
        self._links: dict[Port, Port] = {}
        for one, other in links:
            self._links[one], self._links[other] = other, one
        self.results: list[wire.Result] = []
        self.messages: list[tuple[int, bytes]] = []
        for number in range(1, switches + 1):
            self.run(wire.Up(number, openflow.features(number), openflow.ports(number, ports)))

    def cut(self, one: Port, other: Port) -> None:
        """A link that loses all frames; the switches do not notice."""
        del self._links[one], self._links[other]

    def run(self, *events: wire.Event) -> list[wire.Result]:
        """Executes events, and whatever the switches say to the commands, until they are silent."""
        mine: list[wire.Result] = []
        for _ in range(ROUNDS):
            if not events:
                return mine
            mine += self._host.batch(events)
            events = self._note(mine[-len(events) :])
        raise AssertionError("the network does not come to rest")

    def passes(self, seconds: float) -> None:
        """Lets time pass; frames that applications send at a timer arrive at once."""
        until = self._host.now_ns + round(seconds * 1e9)
        while self._host.wake_ns is not None and self._host.wake_ns <= until:
            events = self._note(self._host.batch([wire.Tick()], max(0, self._host.wake_ns - self._host.now_ns)))
            self.run(*events)
        self._host.now_ns = max(until, self._host.now_ns)

    def request(self, method: str, path: str, body: bytes = b"") -> wire.Answer:
        headers = [("Content-Type", "application/json")] if body else []
        for result in self.run(wire.Request(1, method, path, headers, body)):
            for answer in result.answers:
                return answer
        raise AssertionError(f"no answer to {method} {path}")

    def frame(self, switch: int, port: int, frame: bytes) -> list[wire.Result]:
        return self.run(wire.Message(switch, openflow.packet_in(port, frame)))

    def kinds(self, switch: int) -> list[int]:
        """The types of all messages that a switch has got."""
        return [openflow.kind(message) for number, message in self.messages if number == switch]

    def lines(self) -> str:
        return "\n".join(line.text for result in self.results for line in result.lines)

    def _note(self, results: list[wire.Result]) -> tuple[wire.Event, ...]:
        replies: list[wire.Event] = []
        for result in results:
            assert not result.failures, result.failures[0].trace
            self.results.append(result)
            for command in result.commands:
                self.messages.append((command.datapath_id, command.message))
                replies += self._replies(command.datapath_id, command.message)
        return tuple(replies)

    def _replies(self, switch: int, message: bytes) -> list[wire.Event]:
        kind, xid = openflow.kind(message), openflow.xid(message)
        if kind == openflow.BARRIER_REQUEST:
            return [wire.Message(switch, openflow.message(openflow.BARRIER_REPLY, xid=xid))]
        if kind == openflow.MULTIPART_REQUEST:
            which = int.from_bytes(message[8:10], "big")
            if which == 13:
                return [wire.Message(switch, openflow.ports(switch, self._ports, xid))]
            return [
                wire.Message(switch, openflow.message(openflow.MULTIPART_REPLY, struct.pack(">HH4x", which, 0), xid))
            ]
        if kind == openflow.PACKET_OUT:
            return self._forward(switch, *outputs(message))
        return []

    def _forward(self, switch: int, in_port: int, ports: list[int], frame: bytes) -> list[wire.Event]:
        if openflow.FLOOD in ports:
            ports = [port for port in range(1, self._ports + 1) if port != in_port]
        peers = [self._links[switch, port] for port in ports if (switch, port) in self._links]
        return [wire.Message(number, openflow.packet_in(port, frame)) for number, port in peers]
